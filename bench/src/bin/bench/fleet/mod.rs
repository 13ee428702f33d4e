//! A loop that is spread over several Envoys: how soon it is stopped, and what comparing the calls of all Envoys costs.

mod cost;
mod held;
mod reports;
mod stopped;

use crate::options::Options;
use crate::row::Row;

/// How many Envoys there are.
const ENVOYS: usize = 4;

/// Measures both.
pub async fn measure(options: &Options) -> Vec<Row> {
    let mut rows = vec![stopped::measure(options).await];
    rows.extend(cost::measure(options).await);
    rows.extend(held::measure(options).await);
    rows
}
