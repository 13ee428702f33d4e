//! One server per database file.
//!
//! The server keeps the latest revision and the valid tokens in memory: a second one over the same file would answer
//! filters from a past that the first has changed. The lock is advisory and lies on the database file itself; SQLite's
//! own locks are of another kind and do not see it. It must outlive every connection: closing the file earlier would
//! release SQLite's locks too.

use std::fs::{File, OpenOptions};
use std::path::Path;

use super::ServeError;

/// Takes the lock, for as long as the returned file is open.
pub(super) fn hold(path: &Path) -> Result<File, ServeError> {
    let cannot = |reason: String| ServeError::File { path: path.to_owned(), reason };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    // An empty file is a database to SQLite, and what it puts beside it gets the same permissions. Events may hold
    // excerpts of prompts: they are nobody else's to read.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path).map_err(|error| cannot(error.to_string()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => Err(cannot("another kill-switch serves this database".to_owned())),
    }
}
