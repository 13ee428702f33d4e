//! One request, from its headers to the end of its answer.
//!
//! ```text
//! request.rs   headers: which agent is it? inactive or blocked: refuse; switched off: pass without touching the body
//!              body: held until it is complete, then scored: forward it, or refuse it and never forward it
//! refuse.rs    the refusal, worded for the client's own API
//! response.rs  the answer: never held, read as it streams past, and attached to its call when the model has finished
//! answer_loop.rs  an answer in which the model repeats itself: reported, or ended as the policy says
//! ```
//!
//! Whatever cannot be scored is counted, and forwarded unless `on_unjudged` is `deny`. Answers that did not come from the upstream, our own refusals among
//! them, are not read. Half an answer is a different answer, so of an answer that is cut off only that is noted.

mod answer_loop;
mod refuse;
mod request;
mod response;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use crate::agent::Agent;
use crate::decode::answer::AnswerReader;
use crate::detect::window::Sequence;
use crate::host::Host;
use crate::metrics::{Metric, Outcome};
use crate::reply::Cause;
use crate::session::HeaderSession;
use crate::turn::{Answer, Conversation, Format};
use crate::wire::Usage;
use crate::worker::Worker;

/// The property that says where a scored call is. Another pass over the same request, after an internal redirect,
/// finds it there and does not score the call again.
pub const CALL_PROPERTY: &str = "kill_switch_call";
const AGENT_PROPERTY: &str = "kill_switch_agent";
const SCORE_PROPERTY: &str = "kill_switch_score";
const VERDICT_PROPERTY: &str = "kill_switch_verdict";

/// What the host does with the request next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Lets it go on.
    Continue,
    /// Waits for more of the body.
    Hold,
}

/// One request and its answer.
pub struct Stream {
    worker: Rc<Worker>,
    phase: Phase,
    path: String,
    /// The id that the request carries, valid or not.
    agent_id: Option<String>,
    /// The conversation that the headers name.
    session: Option<HeaderSession>,
    /// How many bytes of the body are held.
    held_bytes: usize,
}

enum Phase {
    /// There is nothing to do, or everything is done.
    Pass,
    /// The body is held, to be scored.
    Score(Agent),
    /// The body is held, so that the refusal can be worded for the client's API.
    Refuse(Cause),
    /// The request was forwarded, and its answer has not begun.
    AwaitAnswer(Forwarded),
    /// The answer is being read.
    ReadAnswer(Forwarded, Box<AnswerReader>),
}

/// A call that was forwarded.
struct Forwarded {
    agent: Agent,
    sequence: Sequence,
    /// The number under which the sidecar was told of it, or 0 if it was not.
    told: u32,
    format: Format,
    /// Whether the body had several requests, so that several responses belong to it.
    is_batch: bool,
    /// The conversation of the call, if the policy wants an answer that repeats itself to be cut.
    conversation: Option<Conversation>,
    /// The answer, if it is attached although the response goes on.
    attached: Option<Attached>,
}

/// What was attached to a call when the model had finished.
#[derive(Clone, Copy)]
struct Attached {
    answer: Answer,
    usage: Usage,
    at_ms: u64,
}

impl Stream {
    /// Creates the state of a new request.
    pub fn new(worker: Rc<Worker>) -> Self {
        Self { worker, phase: Phase::Pass, path: String::new(), agent_id: None, session: None, held_bytes: 0 }
    }

    /// Lets the request pass and counts why.
    fn pass(&mut self, host: &impl Host, outcome: Outcome) -> Flow {
        host.count(Metric::Requests(outcome), 1);
        self.phase = Phase::Pass;
        Flow::Continue
    }

    fn take_phase(&mut self) -> Phase {
        std::mem::replace(&mut self.phase, Phase::Pass)
    }
}
