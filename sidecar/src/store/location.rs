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
    /// A URL with any other scheme. Only the scheme is kept.
    Unknown(String),
}

impl FromStr for Location {
    type Err = Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Infallible> {
        let is_scheme =
            |scheme: &str| !scheme.is_empty() && scheme.chars().all(|letter| letter.is_ascii_alphanumeric());
        Ok(Self(match text.split_once("://") {
            Some((scheme, _)) if ["postgres", "postgresql"].contains(&scheme.to_ascii_lowercase().as_str()) => {
                Place::Postgres(text.to_owned())
            }
            Some((scheme, _)) if is_scheme(scheme) => Place::Unknown(scheme.to_owned()),
            _ => Place::File(PathBuf::from(text)),
        }))
    }
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
            Place::Unknown(scheme) => Err(StoreError::Unavailable(format!(
                "{scheme}:// is not understood: it must be a file, postgres://... or postgresql://..."
            ))),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::File(path) => write!(f, "{}", path.display()),
            Place::Postgres(url) => f.write_str(&without_secrets(url)),
            Place::Unknown(scheme) => write!(f, "{scheme}://..."),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns the URL without password and parameters. If it cannot be parsed, none of it is returned.
fn without_secrets(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else { return "postgres://...".to_owned() };
    url.set_query(None);
    url.set_fragment(None);
    match url.set_password(None) {
        Ok(()) => url.to_string(),
        Err(()) if url.password().is_none() => url.to_string(),
        Err(()) => "postgres://...".to_owned(),
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
            ("mysql://user:secret@host/name", "mysql://..."),
        ] {
            let location: Location = text.parse().unwrap();
            assert_eq!((location.to_string(), format!("{location:?}")), (expected.to_owned(), expected.to_owned()));
        }
    }
}
