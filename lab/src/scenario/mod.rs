//! The rows of the detector's scenario table as requests, with the answers that they get from the upstream.
//!
//! A scenario is complete in itself: the history in each request is the one that the answers before it make, ids
//! included. So the steps can be sent through any proxy, or given to a detector without one. Calls are counted from 1.

mod found;
mod live;
mod moves;
#[cfg(not(target_arch = "wasm32"))]
mod play;
mod rows;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::chat::{Conversation, Request};
use crate::format::Format;

pub use moves::{Move, ToolStep, alternating, chatty, healthy, looping, same_tool_call, tool, working};
#[cfg(not(target_arch = "wasm32"))]
pub use play::first_refused;
pub use rows::{all, names, row, variants};

/// The header that names a call's session in scenarios with several.
pub const SESSION: &str = "x-session-id";

/// One row, in one format.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The row, and the variant if it has several: `P1`, `P7/anthropic`.
    pub name: &'static str,
    /// The row in words.
    pub title: &'static str,
    pub format: Format,
    /// The settings of the agent's policy that are not the defaults, named as in the sidecar's API.
    pub settings: Value,
    /// How often the whole is played; the agent is activated in between.
    pub rounds: usize,
    /// The verdict that is expected in every round.
    pub verdict: Verdict,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub struct Step {
    /// What the agent sends.
    pub request: Request,
    /// What the upstream answers if it is asked.
    pub answer: Answer,
    /// When the agent sends it.
    pub sent: Sent,
    /// When the client closes the connection.
    pub closes: Closes,
}

/// When a call is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sent {
    /// As soon as the call before it is over.
    #[default]
    Next,
    /// So many seconds after the call before it is over.
    Later(u64),
    /// Together with the call before it, on a connection of its own. None of these calls is answered before all of them
    /// have been sent.
    AtOnce,
}

/// When the client closes the connection of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Closes {
    /// After the end of the response.
    #[default]
    AtEnd,
    /// When it has the last event of a stream, before the stream has ended.
    AtLastEvent,
    /// When it has the beginning of a stream.
    InTheMiddle,
}

/// The expected outcome of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No call is refused.
    Allow,
    /// No request is refused, and none is scored: they are not calls of a model or a tool.
    Ignore,
    /// This call is the first to be refused.
    KillAt(usize),
    /// This call is refused, and perhaps some before it.
    KillBy(usize),
    /// One of these calls is the first to be refused.
    KillAtOneOf(&'static [usize]),
}

impl Verdict {
    /// Compares the expected outcome with the first call that was refused, if any.
    pub fn check(self, first_refused: Option<usize>) -> Result<(), String> {
        let right = match (self, first_refused) {
            (Verdict::Allow | Verdict::Ignore, refused) => refused.is_none(),
            (Verdict::KillAt(call), Some(refused)) => refused == call,
            (Verdict::KillBy(call), Some(refused)) => refused <= call,
            (Verdict::KillAtOneOf(calls), Some(refused)) => calls.contains(&refused),
            (Verdict::KillAt(_) | Verdict::KillBy(_) | Verdict::KillAtOneOf(_), None) => false,
        };
        let happened = match first_refused {
            Some(call) => format!("call {call} was the first to be refused"),
            None => "no call was refused".to_owned(),
        };
        if right { Ok(()) } else { Err(format!("expected {self:?}, but {happened}")) }
    }

    /// Whether a call is to be refused.
    pub fn is_kill(self) -> bool {
        !matches!(self, Verdict::Allow | Verdict::Ignore)
    }
}

impl Step {
    /// Creates a step that is sent after the one before it, by a client that reads the whole answer.
    pub fn new(request: Request, answer: Answer) -> Step {
        Step { request, answer, sent: Sent::default(), closes: Closes::default() }
    }
}

impl Scenario {
    /// Lays out moves as requests: each carries the history that the moves before it made. No call is to be refused.
    pub fn new(format: Format, stream: bool, moves: impl IntoIterator<Item = Move>) -> Scenario {
        let mut conversation = Conversation::new(format, stream);
        let step = |Move { input, answer }: Move| {
            let answer = answer.with_ids();
            conversation.say(&input);
            let request = conversation.request();
            conversation.hear(&answer);
            Step::new(request, answer)
        };
        Scenario::of(format, moves.into_iter().map(step).collect())
    }

    fn of(format: Format, steps: Vec<Step>) -> Scenario {
        Scenario { name: "", title: "", format, settings: json!({}), rounds: 1, verdict: Verdict::Allow, steps }
    }

    /// Changes every step.
    fn with_steps(mut self, change: impl Fn(usize, &mut Step)) -> Scenario {
        self.steps.iter_mut().enumerate().for_each(|(index, step)| change(index, step));
        self
    }

    /// Makes the client close every connection at this point.
    fn closing(self, closes: Closes) -> Scenario {
        self.with_steps(|_, step| step.closes = closes)
    }

    /// Whether time passes between the calls. Only a test with a clock of its own can play that.
    pub fn has_pauses(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.sent, Sent::Later(_)))
    }

    /// Returns the steps in groups that are sent at once.
    pub fn groups(&self) -> impl Iterator<Item = &[Step]> {
        self.steps.chunk_by(|_, next| next.sent == Sent::AtOnce)
    }
}
