//! Where the database is: the path of a SQLite file, or the URL of a PostgreSQL database.
//!
//! A URL may contain a password, so only its other parts are ever printed. Parsing never fails, because the message
//! about a refused command line argument would contain the whole argument.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use url::Url;

use super::{Result, Store, StoreError};

/// Where the database is.
#[derive(Clone, PartialEq, Eq)]
pub struct Location(Place);

#[derive(Clone, PartialEq, Eq)]
enum Place {
    File(PathBuf),
    Postgres(String),
    /// A URL that is not understood. Only what it begins with is kept, such as `mysql://`, and nothing if that may contain
    /// a secret as well.
    Unknown(String),
}

impl FromStr for Location {
    type Err = Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Infallible> {
        let text = text.trim();
        let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, rest)| is_scheme(scheme, rest)) else {
            return Ok(Self(Place::File(PathBuf::from(text))));
        };
        let has_authority = rest.starts_with("//");
        if has_authority && ["postgres", "postgresql"].contains(&scheme.to_ascii_lowercase().as_str()) {
            return Ok(Self(Place::Postgres(text.to_owned())));
        }
        let is_printable = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
        let start = match scheme.chars().all(is_printable) {
            true => format!("{scheme}:{}", if has_authority { "//" } else { "" }),
            false => String::new(),
        };
        Ok(Self(Place::Unknown(start)))
    }
}

/// Returns whether the text before the first colon is the scheme of a URL, or what is left of one that was mistyped. In a
/// path, a colon comes after a slash or after the letter of a drive.
fn is_scheme(before: &str, after: &str) -> bool {
    let is_drive = before.len() == 1 && after.starts_with(['/', '\\']) && !after.starts_with("//");
    !is_drive && !before.contains(['/', '\\'])
}

impl Location {
    /// Returns the path, if the database is a file.
    pub fn file(&self) -> Option<&Path> {
        match &self.0 {
            Place::File(path) => Some(path),
            Place::Postgres(_) | Place::Unknown(_) => None,
        }
    }

    /// Opens the database and brings its schema up to date. A file is created if there is none.
    pub async fn open(&self) -> Result<Arc<Store>> {
        match &self.0 {
            Place::File(path) => Ok(Arc::new(Store::sqlite(path).await?)),
            Place::Postgres(url) => Ok(Arc::new(Store::postgres(url).await?)),
            Place::Unknown(start) => {
                let what = if start.is_empty() { "this" } else { start };
                Err(StoreError::Unavailable(format!(
                    "{what} is not understood: it must be a file, postgres://... or postgresql://... (put ./ before a file \
                     whose name has a colon)"
                )))
            }
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::File(path) => write!(f, "{}", path.display()),
            Place::Postgres(url) => f.write_str(&without_secrets(url)),
            Place::Unknown(start) => write!(f, "{start}..."),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns the URL without password and parameters. None of it is returned if it cannot be parsed, or if there is an `@` after
/// the host: a password with a slash that is not escaped ends what is taken for the host.
fn without_secrets(url: &str) -> String {
    let hidden = "postgres://...".to_owned();
    let Ok(mut url) = Url::parse(url) else { return hidden };
    if [url.path(), url.query().unwrap_or_default(), url.fragment().unwrap_or_default()].concat().contains('@') {
        return hidden;
    }
    url.set_query(None);
    url.set_fragment(None);
    match url.set_password(None) {
        Ok(()) => url.to_string(),
        Err(()) if url.password().is_none() => url.to_string(),
        Err(()) => hidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_file_and_a_url_is_not() {
        for (text, file) in [
            ("kill-switch.db", true),
            ("/data/kill-switch.db", true),
            ("./odd://name", true),
            ("./odd:name", true),
            ("/data/odd:name", true),
            (r"C:\data\kill-switch.db", true),
            ("C:/data/kill-switch.db", true),
            (" postgres://host/name\n", false),
            ("://host/name", false),
            ("postgres:host/name", false),
            ("postgres:/host/name", false),
            ("sqlite:kill-switch.db", false),
            ("postgres://host/name", false),
            ("postgresql://host/name", false),
            ("POSTGRES://host/name", false),
            ("mysql://host/name", false),
        ] {
            assert_eq!(text.parse::<Location>().unwrap().file().is_some(), file, "{text}");
        }
    }

    #[test]
    fn secrets_are_never_printed() {
        for (text, expected) in [
            ("kill-switch.db", "kill-switch.db"),
            ("postgres://user:secret@host:5433/name?sslmode=require", "postgres://user@host:5433/name"),
            ("postgres://user@host/name?password=secret", "postgres://user@host/name"),
            ("postgresql:///name?host=/run/postgresql&password=secret", "postgresql:///name"),
            ("postgres://user:sec@ret@host/name", "postgres://user@host/name"),
            ("postgres://user:secret@host:port/name", "postgres://..."),
            ("postgres://user:1/secret@host/name", "postgres://..."),
            ("postgres://user:1?secret@host/name", "postgres://..."),
            ("postgres://user:1#secret@host/name", "postgres://..."),
            (" postgres://user:secret@host/name ", "postgres://user@host/name"),
            ("mysql://user:secret@host/name", "mysql://..."),
            ("postgresql+x://user:secret@host/name", "postgresql+x://..."),
            ("://user:secret@host/name", "://..."),
            ("postgres:user:secret@host", "postgres:..."),
            ("postgres:/user:secret@host", "postgres:..."),
            ("user:secret@host/name", "user:..."),
            ("secret@host:5432/name", "..."),
        ] {
            let location: Location = text.parse().unwrap();
            assert_eq!((location.to_string(), format!("{location:?}")), (expected.to_owned(), expected.to_owned()));
        }
    }
}
