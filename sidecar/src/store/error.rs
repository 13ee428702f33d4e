//! What can go wrong in a store, whichever database it is.

use sqlx::Error as SqlxError;

use super::{postgres, sqlite};

/// What can go wrong in a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process holds the database, or no connection was free in time. Worth another try.
    #[error("the database is busy: {0}")]
    Busy(String),
    /// The database cannot be opened, read or written.
    #[error("the database cannot be used: {0}")]
    Unavailable(String),
    /// A row does not say what this version of the program understands.
    #[error("the database holds something unexpected in {column}: {value}")]
    Corrupt {
        /// Where.
        column: &'static str,
        /// What was found.
        value: String,
    },
}

impl StoreError {
    /// Whether the same call may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy(_))
    }
}

impl From<SqlxError> for StoreError {
    fn from(error: SqlxError) -> Self {
        let is_busy = match &error {
            SqlxError::PoolTimedOut => true,
            SqlxError::Database(error) => sqlite::is_busy(error.as_ref()) || postgres::is_busy(error.as_ref()),
            _ => false,
        };
        if is_busy { Self::Busy(error.to_string()) } else { Self::Unavailable(error.to_string()) }
    }
}
