//! Why a configuration was refused, in words that name the setting, the value given and what it must be.
//!
//! A configuration that is refused at start stops Envoy, and one that is refused at a listener update leaves the old one
//! in force. Either way this message is all that the operator sees. It never contains the value of a secret setting.

use std::fmt;

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The configuration is empty.
    Empty,
    /// The configuration is not valid JSON.
    NotJson {
        /// What the JSON parser says, with line and column.
        reason: String,
    },
    /// A field that does not exist.
    Unknown {
        /// The field's whole path, with the name as it was given.
        field: String,
        /// The field that was probably meant.
        nearest: Option<String>,
    },
    /// A field that is given twice.
    Duplicate {
        /// The field's whole path.
        field: String,
    },
    /// A field that is required but not given.
    Missing {
        /// The field's whole path.
        field: String,
        /// What the value must be.
        must: String,
    },
    /// A value that has the wrong type or is out of bounds.
    Invalid {
        /// The field's whole path. Empty if the configuration itself is meant.
        field: String,
        /// The value, shortened, or the word `hidden`.
        given: String,
        /// What the value must be.
        must: String,
    },
}

impl ConfigError {
    pub(super) fn invalid(field: &str, given: impl Into<String>, must: impl Into<String>) -> Self {
        Self::Invalid { field: field.to_owned(), given: given.into(), must: must.into() }
    }

    /// Puts the path of the object or list in which the error was found in front of the field's own.
    pub(super) fn within(mut self, path: &str) -> Self {
        match &mut self {
            Self::Empty | Self::NotJson { .. } => {}
            Self::Unknown { field, .. }
            | Self::Duplicate { field }
            | Self::Missing { field, .. }
            | Self::Invalid { field, .. } => {
                let dot = if field.is_empty() { "" } else { "." };
                *field = format!("{path}{dot}{field}");
            }
        }
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the configuration is empty: it must be a JSON object with at least cluster"),
            Self::NotJson { reason } => write!(f, "the configuration is not valid JSON: {reason}"),
            Self::Unknown { field, nearest: Some(nearest) } => {
                write!(f, "{field} is not a known field: did you mean {nearest}?")
            }
            Self::Unknown { field, nearest: None } => write!(f, "{field} is not a known field"),
            Self::Duplicate { field } => write!(f, "{field} is given twice"),
            Self::Missing { field, must } => write!(f, "{field} is required and must be {must}"),
            Self::Invalid { field, given, must } => {
                let field = if field.is_empty() { "the configuration" } else { field };
                write!(f, "{field} ({given}) must be {must}")
            }
        }
    }
}

impl std::error::Error for ConfigError {}
