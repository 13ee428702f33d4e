//! `kill-switch migrate`: carries a database over to another one, such as from SQLite to PostgreSQL.

use std::sync::Arc;

use clap::Args;

use super::CliError;
use super::output::{print, table};
use crate::serve::{ServeError, hold_lock};
use crate::store::{Location, Store};

#[derive(Args, Debug)]
pub(super) struct MigrateOptions {
    /// The database to read: a SQLite file that no server uses, or postgres://...
    #[arg(long, env = "KILL_SWITCH_MIGRATE_FROM", value_name = "FILE|URL", hide_env_values = true)]
    from: Location,
    /// The database to write, which must be empty. If the URL has a password, prefer the environment variable: every user of
    /// the machine can see the arguments of a process
    #[arg(long, env = "KILL_SWITCH_MIGRATE_TO", value_name = "FILE|URL", hide_env_values = true)]
    to: Location,
}

impl MigrateOptions {
    pub(super) async fn run(self) -> Result<(), CliError> {
        if let Some(path) = self.from.file().filter(|path| !path.exists()) {
            return Err(CliError::file(path, "there is no such file"));
        }
        let locks = [&self.from, &self.to].map(|location| location.file().map(hold_lock).transpose());
        let _locks = locks.into_iter().collect::<Result<Vec<_>, ServeError>>()?;
        let (from, to) = (open(&self.from).await?, open(&self.to).await?);
        let carried = from.transfer_to(&to).await;
        to.close().await;
        from.close().await;
        let carried = carried.map_err(|error| CliError::Refused(format!("nothing was carried over: {error}")))?;
        let rows = carried.iter().map(|(name, rows)| [(*name).to_owned(), rows.to_string()]);
        print(&table(["TABLE", "ROWS"], rows))?;
        let all: u64 = carried.iter().map(|(_, rows)| rows).sum();
        print(&format!("{all} rows carried from {} to {}\n", self.from, self.to))
    }
}

async fn open(location: &Location) -> Result<Arc<Store>, ServeError> {
    location.open().await.map_err(|source| ServeError::Database { location: location.clone(), source })
}
