//! How long after the call that would have tripped one window a loop over several Envoys is refused.

use bench::stats::median;
use lab::fleet::{Fleet, Pace};
use serde_json::json;

use super::ENVOYS;
use crate::options::Options;
use crate::row::{Goal, Row, Unit, Value};

/// Lets several agents loop, one after the other.
pub async fn measure(options: &Options) -> Row {
    let fleet = Fleet::start(ENVOYS).await;
    let (mut times, mut calls) = (Vec::new(), Vec::new());
    for round in 0..options.rounds() {
        let agent = format!("loop-{round}");
        fleet.enable(&agent, json!({})).await;
        let (number, after) = fleet.loop_until_refused(&agent, Pace::NoPause).await;
        times.push(after.as_secs_f64());
        calls.push(number as f64);
    }
    let measured = format!("at call {:.0}, the model takes 250 ms for each answer", median(&calls));
    let slowest = times.iter().copied().fold(0.0, f64::max);
    Row::new(
        format!("a loop over {ENVOYS} Envoys is stopped"),
        measured,
        Value(slowest, Unit::Seconds),
        Goal::AtMost(0.5),
    )
}
