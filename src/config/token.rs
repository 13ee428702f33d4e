//! The bearer token for the sidecar, given directly or as the name of an environment variable of the VM.
//!
//! The lookup is an argument, so that this code does not depend on an environment. Only [`Token::bearer`] reveals the
//! token: `Debug`, and with it every log line and panic message, does not.

use super::error::ConfigError;
use super::raw::{Setting, text};
use super::rules::{TOKEN, VARIABLE};
use std::fmt;

/// A secret that does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Returns the value of the `authorization` header.
    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// Reads the token from `token`, or from the environment variable that `token_env` names.
pub(super) fn token(
    token: Setting,
    token_env: Setting,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Token>, ConfigError> {
    match (text("token", token, &TOKEN)?, text("token_env", token_env, &VARIABLE)?) {
        (Some(_), Some(_)) => Err(ConfigError::invalid("token", "hidden", "left out if token_env is given")),
        (None, Some(variable)) => from_environment(&variable, env).map(Some),
        (token, None) => Ok(token.map(Token)),
    }
}

fn from_environment(variable: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Token, ConfigError> {
    let refused = |must: String| Err(ConfigError::invalid("token_env", variable, must));
    let value = env(variable).unwrap_or_default();
    // A secret that is mounted from a file usually ends in a newline, which a header must not contain.
    match value.trim() {
        "" => refused("a variable that is set, and not empty, in the VM's environment".to_owned()),
        token if (TOKEN.fits)(token) => Ok(Token(token.to_owned())),
        _ => refused(format!("a variable whose value is {}", TOKEN.must)),
    }
}
