//! Why the service refused, in words for the person who must change something.

use agent_kill_switch::policy::SettingError;

use crate::store::StoreError;

/// What a service call can fail with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value is out of bounds, of the wrong type or not known at all.
    #[error("{detail}")]
    Invalid {
        /// The field to change.
        field: String,
        /// What is wrong with it, its bounds included.
        detail: String,
    },
    /// There is no such thing.
    #[error("there is no {what} {id}")]
    NotFound {
        /// `agent` or `token`.
        what: &'static str,
        /// Which one was asked for.
        id: String,
    },
    /// The caller's picture of the agent is out of date.
    #[error("agent {agent_id} is not what the precondition says: read it again and repeat the change")]
    Precondition {
        /// The agent.
        agent_id: String,
    },
    /// An id that must be used once was used for something else.
    #[error("{field} {id} was used for another agent")]
    Conflict {
        /// The field to change.
        field: &'static str,
        /// Its value.
        id: String,
    },
    /// The database did not do its part.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Error {
    /// A field that does not hold what it must.
    pub fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), detail: detail.into() }
    }

    /// An agent that does not exist.
    pub fn no_agent(agent_id: &str) -> Self {
        Self::NotFound { what: "agent", id: agent_id.to_owned() }
    }
}

impl From<SettingError> for Error {
    fn from(error: SettingError) -> Self {
        Self::invalid(error.field(), error.to_string())
    }
}

/// What a service call answers.
pub type Result<T> = std::result::Result<T, Error>;
