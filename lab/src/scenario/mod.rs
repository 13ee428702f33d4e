//! The rows of the detector's scenario table as requests, with the answers that they get from the upstream.
//!
//! A scenario is complete in itself: the history in each request is the one that the answers before it make, ids
//! included. So the steps can be sent through any proxy, or given to a detector without one. Calls are counted from 1.

mod moves;
#[cfg(not(target_arch = "wasm32"))]
mod play;
mod rows;

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
    /// How the calls follow each other.
    pub pace: Pace,
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
}

/// How the calls of a scenario follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each waits for the answer to the one before.
    OneByOne,
    /// All at the same time, each on its own connection.
    AtOnce,
}

/// The expected outcome of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No call is refused.
    Allow,
    /// This call is the first to be refused.
    KillAt(usize),
    /// This call is refused, and perhaps some before it.
    KillBy(usize),
}

impl Verdict {
    /// Compares the expected outcome with the first call that was refused, if any.
    pub fn check(self, first_refused: Option<usize>) -> Result<(), String> {
        let right = match (self, first_refused) {
            (Verdict::Allow, refused) => refused.is_none(),
            (Verdict::KillAt(call), Some(refused)) => refused == call,
            (Verdict::KillBy(call), Some(refused)) => refused <= call,
            (Verdict::KillAt(_) | Verdict::KillBy(_), None) => false,
        };
        let happened = match first_refused {
            Some(call) => format!("call {call} was the first to be refused"),
            None => "no call was refused".to_owned(),
        };
        if right { Ok(()) } else { Err(format!("expected {self:?}, but {happened}")) }
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
            Step { request, answer }
        };
        Scenario::of(format, moves.into_iter().map(step).collect())
    }

    fn of(format: Format, steps: Vec<Step>) -> Scenario {
        let (pace, verdict) = (Pace::OneByOne, Verdict::Allow);
        Scenario { name: "", title: "", format, pace, rounds: 1, verdict, steps }
    }
}
