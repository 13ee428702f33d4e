//! Why serving did not begin.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::service::Error;
use crate::store::{Location, StoreError};

/// What an operator must mend before `serve` starts.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// A file cannot be read or written.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The database cannot be opened.
    #[error("db ({location}): {source}")]
    Database {
        /// Where it should be.
        location: Location,
        /// Why not.
        source: StoreError,
    },
    /// A certificate and a key that do not belong together, or are none.
    #[error("tls: {0}")]
    Tls(#[from] rustls::Error),
    /// `--log` cannot be understood.
    #[error("log ({given}) must be a level (error, warn, info, debug, trace) or levels by target")]
    Log {
        /// What was given.
        given: String,
    },
    /// Mail cannot be sent as configured.
    #[error(transparent)]
    Smtp(#[from] crate::alerts::SmtpError),
    /// The rules refuse something, such as a token that is too short.
    #[error(transparent)]
    Service(#[from] Error),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}
