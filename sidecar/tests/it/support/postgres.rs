//! A real PostgreSQL, which the tests of this process share.

use std::sync::OnceLock;

pub use lab::proc::{PASSWORD, Postgres};
use lab::skip;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

/// Starts a server for one test. Returns `None`, and notes that the test is skipped, if PostgreSQL is not installed.
pub fn start() -> Option<Postgres> {
    noted(with_tls())
}

/// Returns the server that the tests of this process share, or `None` as [`start`] does.
pub fn shared() -> Option<&'static Postgres> {
    static SHARED: OnceLock<Option<Postgres>> = OnceLock::new();
    noted(SHARED.get_or_init(with_tls).as_ref())
}

/// Returns an empty database of the shared server, or `None` as [`start`] does.
pub async fn database() -> Option<String> {
    Some(shared()?.database().await)
}

/// Runs a statement as somebody else than the sidecar.
pub async fn execute(url: &str, sql: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Returns the number that a query selects.
pub async fn count(url: &str, sql: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let count = sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    count
}

fn with_tls() -> Option<Postgres> {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    Postgres::start(Some((&made.cert.pem(), &made.signing_key.serialize_pem())))
}

fn noted<T>(started: Option<T>) -> Option<T> {
    if started.is_none() {
        skip::missing("PostgreSQL is not installed (tools/get-postgres), so nothing was tested against it");
    }
    started
}
