//! The errors of the service, with messages for the person who must change something.

use agent_kill_switch::policy::SettingError;

use crate::store::StoreError;

/// The error of a service call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value is out of bounds, of the wrong type or unknown.
    #[error("{detail}")]
    Invalid {
        /// The field to change.
        field: String,
        /// What is wrong with it, its bounds included.
        detail: String,
    },
    /// Something does not exist.
    #[error("there is no {what} {id}")]
    NotFound {
        /// What it is, such as `agent` or `valid token`.
        what: &'static str,
        /// The id that was asked for.
        id: String,
    },
    /// The precondition of a change is not true, because the agent was changed by somebody else.
    #[error("agent {agent_id} is not what the precondition says: read it again and repeat the change")]
    Precondition {
        /// The agent.
        agent_id: String,
    },
    /// An id that may be used only once was used for something else.
    #[error("{field} {id} was used for another agent")]
    Conflict {
        /// The field to change.
        field: &'static str,
        /// Its value.
        id: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Error {
    /// Returns an error about a field with a wrong value.
    pub fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), detail: detail.into() }
    }

    /// Returns an error about an agent that does not exist.
    pub fn no_agent(agent_id: &str) -> Self {
        Self::NotFound { what: "agent", id: agent_id.to_owned() }
    }
}

impl From<SettingError> for Error {
    fn from(error: SettingError) -> Self {
        Self::invalid(error.field(), error.to_string())
    }
}

/// The result of a service call.
pub type Result<T> = std::result::Result<T, Error>;
