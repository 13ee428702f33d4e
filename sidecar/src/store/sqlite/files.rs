//! The files of a database: only their owner may read them, and they must stay where they are.
//!
//! A file that is removed or replaced while it is open goes on existing for the process that has opened it. Everything
//! would seem to work, and everything that was written since would be lost at the next start. So the device and the inode
//! of each path are compared with those at the opening. That costs a few microseconds.
//!
//! A file that is shorter than before was cut off, unless somebody has run VACUUM, after which the next checkpoint makes the
//! database shorter, or a checkpoint that truncates the log. SQLite itself is asked which of the two it is.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::store::{Result, StoreError};

/// The endings of the names of a database's files: the database, its write-ahead log, and the index of the log.
const ENDINGS: [&str; 3] = ["", "-wal", "-shm"];

/// The files that must not be replaced, as they were when the database was opened.
#[derive(Debug)]
pub(super) struct Files {
    opened: Vec<Opened>,
    /// Whether the last check found a file that was removed, replaced or cut off.
    is_replaced: AtomicBool,
}

/// A file, what it was when the database was opened, and its length at the last check.
#[derive(Debug)]
struct Opened {
    path: PathBuf,
    identity: Identity,
    length: AtomicU64,
}

/// What tells a file from another one with the same path.
type Identity = (u64, u64);

impl Files {
    /// Remembers the files of an open database.
    pub(super) fn opened(path: &Path) -> io::Result<Self> {
        // SQLite puts the log beside the file itself if the path is a symbolic link.
        let log = with_ending(&fs::canonicalize(path)?, "-wal");
        let opened = [path.to_owned(), log].into_iter().filter_map(|path| {
            let (identity, length) = found(&path).ok()??;
            Some(Opened { path, identity, length: length.into() })
        });
        Ok(Self { opened: opened.collect(), is_replaced: AtomicBool::new(false) })
    }

    /// Returns the lengths of the database and of its log, if they are the files that were opened and one is shorter than at
    /// the last check.
    pub(super) fn shrunk(&self) -> Option<[u64; 2]> {
        let found = |opened: &Opened| {
            let (_, length) = found(&opened.path).ok()?.filter(|(identity, _)| *identity == opened.identity)?;
            Some((length, length < opened.length.load(Ordering::SeqCst)))
        };
        let [(database, is_cut), (log, is_log_cut)] =
            <[_; 2]>::try_from(self.opened.iter().map(found).collect::<Option<Vec<_>>>()?).ok()?;
        (is_cut || is_log_cut).then_some([database, log])
    }

    /// Returns the size of a page and the length of the database that its own header states, which is its length after the
    /// latest checkpoint.
    pub(super) fn stated(&self) -> Option<[u64; 2]> {
        let mut header = [0; 32];
        fs::File::open(&self.opened.first()?.path).ok()?.read_exact(&mut header).ok()?;
        let page_size = u64::from(u16::from_be_bytes(*header.get(16..)?.first_chunk()?));
        let page_size = if page_size == 1 { 65_536 } else { page_size };
        let pages = u32::from_be_bytes(*header.get(28..)?.first_chunk()?);
        Some([page_size, page_size * u64::from(pages)])
    }

    /// Takes the lengths for right, because SQLite has made the files shorter.
    pub(super) fn accept(&self, lengths: [u64; 2]) {
        for (opened, length) in self.opened.iter().zip(lengths) {
            opened.length.store(length, Ordering::SeqCst);
        }
    }

    /// Returns an error if a file was removed, replaced or cut off. Logs when that happens and when it is over.
    pub(super) fn check(&self) -> Result<()> {
        let mut replaced = None;
        for Opened { path, identity, length } in &self.opened {
            match found(path) {
                Ok(Some((found, now))) if found == *identity && now >= length.fetch_max(now, Ordering::SeqCst) => {}
                Ok(_) => replaced = Some(path.display()),
                Err(error) => return Err(StoreError::Unavailable(format!("{}: {error}", path.display()))),
            }
        }
        let was_replaced = self.is_replaced.swap(replaced.is_some(), Ordering::SeqCst);
        match replaced {
            Some(path) => {
                if !was_replaced {
                    let message =
                        "a file of the database was removed, replaced or cut off: nothing is written any more";
                    tracing::error!(%path, message);
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

/// Returns identity and length of the file at a path, or `None` if there is none.
#[cfg(unix)]
fn found(path: &Path) -> io::Result<Option<(Identity, u64)>> {
    use std::os::unix::fs::MetadataExt as _;
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(((metadata.dev(), metadata.ino()), metadata.len()))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Elsewhere a file cannot be removed or replaced while it is open.
#[cfg(not(unix))]
fn found(_: &Path) -> io::Result<Option<(Identity, u64)>> {
    Ok(Some(((0, 0), 0)))
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
