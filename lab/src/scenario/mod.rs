//! The rows of the detector's scenario table as requests, with the answers that they get from the upstream.
//!
//! A scenario is complete in itself: the history in each request is the one that the answers before it make, ids
//! included, so the steps can be sent through any proxy, or fed to a detector without one. Calls are counted from 1.

mod moves;
mod rows;
mod work;

use crate::answer::Answer;
use crate::chat::{Caller, Conversation, Reply, Request};
use crate::format::Format;

pub use moves::{Move, ToolStep, alternating, chatty, cycle, healthy, looping, same_tool_call, working};
pub use rows::{all, row, variants};

/// One row, in one format.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The row, and the variant where it has several: `P1`, `P7/anthropic`.
    pub name: String,
    /// The row in words.
    pub title: &'static str,
    /// The wire format.
    pub format: Format,
    /// Whether answers are streamed.
    pub stream: bool,
    /// How the calls follow each other.
    pub pace: Pace,
    /// How often the whole is played; the agent is activated in between.
    pub rounds: usize,
    /// What must come of it, in every round.
    pub verdict: Verdict,
    /// The calls.
    pub steps: Vec<Step>,
}

/// One call.
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
    /// Each waits for the answer before it.
    OneByOne,
    /// All at the same time, each on its own connection.
    AtOnce,
}

/// What must come of a scenario.
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
    /// Compares with what happened: the first call that was refused, if any.
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
    /// Lays out moves as requests: each carries the history that the moves before it made. Nameless, and allowed.
    pub fn new(format: Format, stream: bool, moves: impl IntoIterator<Item = Move>) -> Scenario {
        let mut conversation = Conversation::new(format, stream);
        let step = |Move { input, answer }: Move| {
            let answer = answer.with_ids();
            conversation.say(&input);
            let request = conversation.request();
            conversation.hear(&answer);
            Step { request, answer }
        };
        Scenario {
            name: String::new(),
            title: "",
            format,
            stream,
            pace: Pace::OneByOne,
            rounds: 1,
            verdict: Verdict::Allow,
            steps: moves.into_iter().map(step).collect(),
        }
    }

    /// Sends one round of it, refused or not, and returns the replies in the order of the steps.
    pub async fn play(&self, caller: &Caller) -> Result<Vec<Reply>, reqwest::Error> {
        match self.pace {
            Pace::OneByOne => {
                let mut replies = Vec::with_capacity(self.steps.len());
                for step in &self.steps {
                    replies.push(caller.call(&step.request, Some(&step.answer)).await?);
                }
                Ok(replies)
            }
            Pace::AtOnce => {
                let caller = caller.clone().without_keep_alive();
                let calls = self.steps.iter().map(|step| caller.call(&step.request, Some(&step.answer)));
                futures_util::future::try_join_all(calls).await
            }
        }
    }
}

/// The first reply that did not come from the upstream, counted from 1.
pub fn first_refused(replies: &[Reply]) -> Option<usize> {
    replies.iter().position(|reply| !reply.from_upstream()).map(|index| index + 1)
}
