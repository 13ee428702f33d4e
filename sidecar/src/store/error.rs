//! The errors of a store, for both databases.

use sqlx::Error as SqlxError;

use super::{postgres, sqlite};

/// What can go wrong in a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process holds the database, or no connection was free in time. The caller may try again.
    #[error("the database is busy: {0}")]
    Busy(String),
    /// The database cannot be opened, read or written.
    #[error("the database cannot be used: {0}")]
    Unavailable(String),
    /// A file of the database was removed, replaced or cut off while it was in use. Nothing is written any more, because it would
    /// be lost.
    #[error("the database file was removed, replaced or cut off while it was in use")]
    Replaced,
    /// The database file is damaged, or is no database.
    #[error("the database file is damaged: {0}")]
    Malformed(String),
    /// A row contains a value that this version of the program does not understand.
    #[error("the database holds something unexpected in {column}: {value}")]
    Corrupt {
        /// The column of the value.
        column: &'static str,
        /// The value.
        value: String,
    },
}

impl StoreError {
    /// Whether the same call may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy(_))
    }

    /// Whether the same call fails until a person has mended the row that it reads.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Corrupt { .. })
    }

    /// Returns what the person or program that asked must know. It contains nothing from the database.
    pub fn explanation(&self) -> &'static str {
        match self {
            Self::Busy(_) | Self::Unavailable(_) => {
                "the database did not answer, so a change may or may not have been made: read the current state before \
                 you repeat it"
            }
            Self::Replaced => {
                "the database file was removed, replaced or cut off while the sidecar was running, so nothing is \
                 written: put the file back before you restart the sidecar"
            }
            Self::Malformed(_) => "the database file is damaged: restore a backup",
            Self::Corrupt { .. } => {
                "the database contains a value that this version of the sidecar cannot read: the log says which"
            }
        }
    }
}

impl From<SqlxError> for StoreError {
    fn from(error: SqlxError) -> Self {
        if let SqlxError::Database(error) = &error
            && sqlite::is_malformed(error.as_ref())
        {
            return Self::Malformed(error.to_string());
        }
        let is_busy = match &error {
            SqlxError::PoolTimedOut => true,
            SqlxError::Database(error) => sqlite::is_busy(error.as_ref()) || postgres::is_busy(error.as_ref()),
            _ => false,
        };
        if is_busy { Self::Busy(error.to_string()) } else { Self::Unavailable(error.to_string()) }
    }
}
