//! A lock that allows only one server per database file.
//!
//! A server keeps the latest revision and the valid tokens in memory. A second server on the same file would therefore
//! give filters an outdated state. The lock is an advisory lock on the database file itself; SQLite uses locks of another
//! kind, so the two do not interfere. The file must stay open until every connection is closed, because closing it would
//! release SQLite's locks as well.

use std::fs::{File, OpenOptions};
use std::path::Path;

use super::ServeError;

/// Takes the lock, which is held as long as the returned file is open.
pub(crate) fn hold(path: &Path) -> Result<File, ServeError> {
    let cannot = |reason: String| ServeError::File { path: path.to_owned(), reason };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    // SQLite accepts an empty file as a new database, and gives its other files the same permissions. Events may contain
    // excerpts of prompts, so only the owner may read them.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path).map_err(|error| cannot(error.to_string()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => Err(cannot("another kill-switch serves this database".to_owned())),
    }
}
