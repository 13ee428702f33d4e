//! The schema of each database, as numbered steps that are embedded in the program. A database with more steps than
//! this program knows is refused.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// A number, a name and its SQL. A number that is missing is one that only the other database has, or none at all.
type Step = (i64, &'static str, &'static str);

pub(super) const SQLITE: [Step; 15] = [
    (1, "initial", include_str!("../../migrations/sqlite/0001_initial.sql")),
    (2, "alerts", include_str!("../../migrations/sqlite/0002_alerts.sql")),
    (3, "access", include_str!("../../migrations/sqlite/0003_access.sql")),
    (4, "sessions", include_str!("../../migrations/sqlite/0004_sessions.sql")),
    (5, "pause", include_str!("../../migrations/sqlite/0005_pause.sql")),
    (6, "tools_and_answer_loop", include_str!("../../migrations/sqlite/0006_tools_and_answer_loop.sql")),
    (10, "files", include_str!("../../migrations/sqlite/0010_files.sql")),
    (11, "alert targets", include_str!("../../migrations/sqlite/0011_alert_targets.sql")),
    (21, "order of scores", include_str!("../../migrations/sqlite/0021_order_of_scores.sql")),
    (25, "findings of scores", include_str!("../../migrations/sqlite/0025_findings_of_scores.sql")),
    (30, "usage", include_str!("../../migrations/sqlite/0030_usage.sql")),
    (31, "calls", include_str!("../../migrations/sqlite/0031_calls.sql")),
    (32, "overview", include_str!("../../migrations/sqlite/0032_overview.sql")),
    (33, "batches of calls", include_str!("../../migrations/sqlite/0033_batches_of_calls.sql")),
    (34, "branches", include_str!("../../migrations/sqlite/0034_branches.sql")),
];

pub(super) const POSTGRES: [Step; 17] = [
    (1, "initial", include_str!("../../migrations/postgres/0001_initial.sql")),
    (2, "alerts", include_str!("../../migrations/postgres/0002_alerts.sql")),
    (3, "access", include_str!("../../migrations/postgres/0003_access.sql")),
    (4, "envoys", include_str!("../../migrations/postgres/0004_envoys.sql")),
    (5, "sessions", include_str!("../../migrations/postgres/0005_sessions.sql")),
    (6, "pause", include_str!("../../migrations/postgres/0006_pause.sql")),
    (7, "tools_and_answer_loop", include_str!("../../migrations/postgres/0007_tools_and_answer_loop.sql")),
    (10, "files", include_str!("../../migrations/postgres/0010_files.sql")),
    (11, "alert targets", include_str!("../../migrations/postgres/0011_alert_targets.sql")),
    (20, "fleet", include_str!("../../migrations/postgres/0020_fleet.sql")),
    (21, "order of scores", include_str!("../../migrations/postgres/0021_order_of_scores.sql")),
    (25, "findings of scores", include_str!("../../migrations/postgres/0025_findings_of_scores.sql")),
    (30, "usage", include_str!("../../migrations/postgres/0030_usage.sql")),
    (31, "calls", include_str!("../../migrations/postgres/0031_calls.sql")),
    (32, "overview", include_str!("../../migrations/postgres/0032_overview.sql")),
    (33, "batches of calls", include_str!("../../migrations/postgres/0033_batches_of_calls.sql")),
    (34, "branches", include_str!("../../migrations/postgres/0034_branches.sql")),
];

/// Returns a migrator for the steps.
pub(super) fn migrator(steps: &[Step]) -> Migrator {
    let migration = |(number, name, sql): &Step| {
        Migration::new(*number, (*name).into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(steps.iter().map(migration).collect())
}
