//! The schema of each database, as numbered steps that are embedded in the program. A database with more steps than
//! this program knows is refused.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// A name and its SQL.
type Step = (&'static str, &'static str);

/// Steps, and the number of the first of them.
type Steps<'a> = (i64, &'a [Step]);

pub(super) const SQLITE: [Step; 5] = [
    ("initial", include_str!("../../migrations/sqlite/0001_initial.sql")),
    ("alerts", include_str!("../../migrations/sqlite/0002_alerts.sql")),
    ("access", include_str!("../../migrations/sqlite/0003_access.sql")),
    ("sessions", include_str!("../../migrations/sqlite/0004_sessions.sql")),
    ("pause", include_str!("../../migrations/sqlite/0005_pause.sql")),
];

pub(super) const POSTGRES: [Step; 6] = [
    ("initial", include_str!("../../migrations/postgres/0001_initial.sql")),
    ("alerts", include_str!("../../migrations/postgres/0002_alerts.sql")),
    ("access", include_str!("../../migrations/postgres/0003_access.sql")),
    ("envoys", include_str!("../../migrations/postgres/0004_envoys.sql")),
    ("sessions", include_str!("../../migrations/postgres/0005_sessions.sql")),
    ("pause", include_str!("../../migrations/postgres/0006_pause.sql")),
];

pub(super) const POSTGRES_FROM_20: [Step; 1] = [("fleet", include_str!("../../migrations/postgres/0020_fleet.sql"))];

/// Returns a migrator for the steps. There may be gaps between their numbers.
pub(super) fn migrator(steps: &[Steps<'_>]) -> Migrator {
    let migration = |(version, (name, sql)): (i64, Step)| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    let numbered = |(first, steps): &Steps<'_>| (*first..).zip(steps.to_vec());
    Migrator::with_migrations(steps.iter().flat_map(numbered).map(migration).collect())
}
