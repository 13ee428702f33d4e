//! Why `kill-switch serve` could not start.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::service::Error;
use crate::store::{Location, StoreError};

/// What an operator must correct before `serve` can start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file cannot be read or written.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The database cannot be opened.
    #[error("db ({location}): {source}")]
    Database {
        /// The file or URL of the database.
        location: Location,
        /// The error of the store.
        source: StoreError,
    },
    /// The certificate or the key is not valid, or they do not belong together.
    #[error("tls: {0}")]
    Tls(#[from] rustls::Error),
    /// `--log` is not a list of levels.
    #[error("log ({given}) must be a level (error, warn, info, debug, trace) or levels by target")]
    Log {
        /// The value of `--log`.
        given: String,
    },
    /// The settings of OpenTelemetry are wrong.
    #[error("telemetry: {0}")]
    Telemetry(String),
    /// The SMTP settings are wrong.
    #[error(transparent)]
    Smtp(#[from] crate::alerts::SmtpError),
    /// The service refused a value, such as a token that is too short.
    #[error(transparent)]
    Service(#[from] Error),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}
