//! What is wrong with a configuration, in words that name the field, what was given and what it must be.
//!
//! A configuration that is refused at boot stops Envoy, and one that is refused at a listener update leaves the old one
//! in force: either way this message is all that the operator sees. Values of secret fields never get here.

use std::fmt;

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// There is none.
    Empty,
    /// It cannot be read as JSON.
    NotJson {
        /// What the parser says, with line and column.
        reason: String,
    },
    /// A field that does not exist.
    Unknown {
        /// The field as given.
        field: String,
        /// The field that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A field given twice: which one was meant cannot be known.
    Duplicate {
        /// The field.
        field: String,
    },
    /// A field that must be given and is not.
    Missing {
        /// The field.
        field: String,
        /// What it must be.
        must: String,
    },
    /// A value of the wrong type or out of bounds.
    Invalid {
        /// The field.
        field: String,
        /// The value, or what can be shown of it.
        given: String,
        /// What it must be.
        must: String,
    },
    /// Two fields that exclude each other.
    Conflict {
        /// The one.
        field: String,
        /// The other.
        other: String,
    },
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
            Self::Invalid { field, given, must } => write!(f, "{field} ({given}) must be {must}"),
            Self::Conflict { field, other } => write!(f, "{field} and {other} exclude each other: give one of them"),
        }
    }
}

impl std::error::Error for ConfigError {}
