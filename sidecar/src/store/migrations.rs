//! The schema of each database, as numbered steps that are embedded in the program. A database with more steps than
//! this program knows is refused.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// A name and its SQL.
type Step = (&'static str, &'static str);

pub(super) const SQLITE: [Step; 6] = [
    ("initial", include_str!("../../migrations/sqlite/0001_initial.sql")),
    ("alerts", include_str!("../../migrations/sqlite/0002_alerts.sql")),
    ("access", include_str!("../../migrations/sqlite/0003_access.sql")),
    ("sessions", include_str!("../../migrations/sqlite/0004_sessions.sql")),
    ("pause", include_str!("../../migrations/sqlite/0005_pause.sql")),
    ("tools_and_answer_loop", include_str!("../../migrations/sqlite/0006_tools_and_answer_loop.sql")),
];

pub(super) const POSTGRES: [Step; 7] = [
    ("initial", include_str!("../../migrations/postgres/0001_initial.sql")),
    ("alerts", include_str!("../../migrations/postgres/0002_alerts.sql")),
    ("access", include_str!("../../migrations/postgres/0003_access.sql")),
    ("envoys", include_str!("../../migrations/postgres/0004_envoys.sql")),
    ("sessions", include_str!("../../migrations/postgres/0005_sessions.sql")),
    ("pause", include_str!("../../migrations/postgres/0006_pause.sql")),
    ("tools_and_answer_loop", include_str!("../../migrations/postgres/0007_tools_and_answer_loop.sql")),
];

/// Returns a migrator for the steps, which it numbers from 1.
pub(super) fn migrator(steps: &[Step]) -> Migrator {
    let migration = |(version, (name, sql)): (i64, &Step)| {
        Migration::new(version, (*name).into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations((1..).zip(steps).map(migration).collect())
}
