//! The bearer token for the sidecar: given as it is, or as the name of an environment variable of the VM.
//!
//! The lookup is an argument, so that nothing here touches an environment. The token shows itself only to the one
//! caller that asks for the header's value: Debug, and with it every log line and panic message, prints none of it.

use super::error::ConfigError;
use super::fields::{TOKEN, TOKEN_ENV};
use super::object::{Object, invalid};
use std::fmt;

/// A secret that does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The value of the `authorization` header.
    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// The token, if one is configured.
pub(super) fn token(config: &Object, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Token>, ConfigError> {
    let given = config.text(&TOKEN)?;
    match (given, config.text(&TOKEN_ENV)?) {
        (Some(_), Some(_)) => {
            Err(ConfigError::Conflict { field: TOKEN.name.to_owned(), other: TOKEN_ENV.name.to_owned() })
        }
        (Some(token), None) => Ok(Some(Token(token.to_owned()))),
        (None, Some(variable)) => from_environment(variable, env).map(Some),
        (None, None) => Ok(None),
    }
}

fn from_environment(variable: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Token, ConfigError> {
    let refused = |must: String| invalid(TOKEN_ENV.name, &variable, &must);
    let value = env(variable).unwrap_or_default();
    // A secret mounted from a file usually ends in a newline, which no header may carry.
    let value = value.trim();
    match value {
        "" => Err(refused("a variable that is set, and not empty, in the VM's environment".to_owned())),
        value if (TOKEN.fits)(value) => Ok(Token(value.to_owned())),
        _ => Err(refused(format!("a variable whose value is {}", TOKEN.bounds))),
    }
}
