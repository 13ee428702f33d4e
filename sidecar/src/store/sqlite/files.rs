//! The files of a database: only their owner may read them, and they must stay where they are.
//!
//! A file that is removed or replaced while it is open goes on existing for the process that has opened it. Everything
//! would seem to work, and everything that was written since would be lost at the next start. So the device and the inode
//! of each path are compared with those at the opening. That costs a few microseconds.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::{Result, StoreError};

/// The endings of the names of a database's files: the database, its write-ahead log, and the index of the log.
const ENDINGS: [&str; 3] = ["", "-wal", "-shm"];

/// The files that must not be replaced, as they were when the database was opened.
#[derive(Debug)]
pub(super) struct Files {
    opened: Vec<(PathBuf, Identity)>,
    /// Whether the last check found a file that was removed or replaced.
    is_replaced: AtomicBool,
}

/// What tells a file from another one with the same path.
type Identity = (u64, u64);

impl Files {
    /// Remembers the files of an open database.
    pub(super) fn opened(path: &Path) -> io::Result<Self> {
        // SQLite puts the log beside the file itself if the path is a symbolic link.
        let log = with_ending(&fs::canonicalize(path)?, "-wal");
        let opened = [path.to_owned(), log].into_iter().filter_map(|path| Some((identity(&path).ok()??, path)));
        let opened = opened.map(|(identity, path)| (path, identity)).collect();
        Ok(Self { opened, is_replaced: AtomicBool::new(false) })
    }

    /// Returns an error if a file was removed or replaced. Logs when that happens and when it is over.
    pub(super) fn check(&self) -> Result<()> {
        let mut replaced = None;
        for (path, opened) in &self.opened {
            match identity(path) {
                Ok(found) if found == Some(*opened) => {}
                Ok(_) => replaced = Some(path.display()),
                Err(error) => return Err(StoreError::Unavailable(format!("{}: {error}", path.display()))),
            }
        }
        let was_replaced = self.is_replaced.swap(replaced.is_some(), Ordering::SeqCst);
        match replaced {
            Some(path) => {
                if !was_replaced {
                    tracing::error!(%path, "a file of the database was removed or replaced: nothing is written any more");
                }
                Err(StoreError::Replaced)
            }
            None => {
                if was_replaced {
                    tracing::info!("the files of the database are in their places again");
                }
                Ok(())
            }
        }
    }
}

/// Returns the identity of the file at a path, or `None` if there is none.
#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Option<Identity>> {
    use std::os::unix::fs::MetadataExt as _;
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Elsewhere a file cannot be removed or replaced while it is open.
#[cfg(not(unix))]
fn identity(_: &Path) -> io::Result<Option<Identity>> {
    Ok(Some((0, 0)))
}

/// Creates the file if there is none, and lets only the owner read and write the files of the database. SQLite gives the
/// files that it creates the permissions of the database.
#[cfg(unix)]
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    if !path.exists() {
        return fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map(drop);
    }
    let real = fs::canonicalize(path)?;
    for path in ENDINGS.map(|ending| with_ending(&real, ending)) {
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 == 0 {
            continue;
        }
        let (was, path) = (format!("{mode:04o}"), path.as_path());
        match fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700)) {
            Ok(()) => tracing::warn!(path = %path.display(), was, "the file could be read by others: it no longer can"),
            // The file may belong to another user, who has given this one access to it.
            Err(error) => tracing::warn!(path = %path.display(), was, %error, "the file can be read by others"),
        }
    }
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn make_private(_: &Path) -> io::Result<()> {
    Ok(())
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
