//! Bringing a schema up to date. The steps are files, embedded in order; a database that is further than this program
//! knows is refused.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// The steps of one kind of database: a name and its SQL, numbered from 1.
pub(super) fn migrator(steps: &[(&'static str, &'static str)]) -> Migrator {
    let migration = |(version, (name, sql)): (i64, &(&'static str, &'static str))| {
        Migration::new(version, (*name).into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations((1..).zip(steps).map(migration).collect())
}
