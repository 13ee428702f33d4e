//! Scenarios over HTTP.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Closes, Scenario, Step};
use crate::answer::{Answer, GateAt};
use crate::chat::{Caller, Reply};
use crate::format::Format;
use crate::fresh;
use crate::llm::MockLlm;
use crate::mesh::SOON;
use crate::proc::wait_until;

impl Scenario {
    /// Sends one round of it, refused or not, and returns the replies in the order of the steps. Pauses are left out.
    pub async fn play(&self, caller: &Caller, llm: &MockLlm) -> Result<Vec<Reply>, reqwest::Error> {
        let mut replies = Vec::with_capacity(self.steps.len());
        for group in self.groups() {
            match group {
                [step] => replies.push(step.play(caller, llm).await?),
                group => replies.extend(at_once(group, caller, llm).await?),
            }
        }
        Ok(replies)
    }
}

impl Step {
    /// Sends the request. If the client closes the connection early, the answer goes no further than the client reads, and
    /// this returns when the upstream has noticed that nobody reads on.
    async fn play(&self, caller: &Caller, llm: &MockLlm) -> Result<Reply, reqwest::Error> {
        let gate = fresh::id("never-opened-", 12);
        let held = |gate_at| Answer { gate: gate.clone(), gate_at, ..self.answer.clone() };
        let reply = match self.closes {
            Closes::AtEnd => return caller.call(&self.request, Some(&self.answer)).await,
            Closes::AtLastEvent => {
                let last = last_event(self.request.format);
                let enough = |body: &str| body.contains(last) && body.ends_with('\n');
                caller.call_until(&self.request, Some(&held(GateAt::End)), enough).await?
            }
            Closes::InTheMiddle => {
                let enough = |body: &str| body.ends_with('\n');
                caller.call_until(&self.request, Some(&held(GateAt::FirstPiece)), enough).await?
            }
        };
        wait_until("the upstream has noticed", SOON, || async { llm.under_way(&gate) == 0 }).await;
        Ok(reply)
    }
}

/// Sends all requests, each on a connection of its own. None is answered before each has reached the upstream or was
/// refused.
async fn at_once(steps: &[Step], caller: &Caller, llm: &MockLlm) -> Result<Vec<Reply>, reqwest::Error> {
    let caller = caller.clone().without_keep_alive();
    let gate = fresh::id("all-sent-", 12);
    let refused = AtomicUsize::new(0);
    let calls = steps.iter().map(async |step| {
        let held = Answer { gate: gate.clone(), gate_at: GateAt::Start, ..step.answer.clone() };
        let reply = caller.call(&step.request, Some(&held)).await;
        refused.fetch_add(1, Ordering::Relaxed);
        reply
    });
    let opened = async {
        let all_sent = || async { llm.under_way(&gate) + refused.load(Ordering::Relaxed) == steps.len() };
        wait_until("all requests have been sent", SOON, all_sent).await;
        llm.open(&gate);
    };
    futures_util::future::join(futures_util::future::try_join_all(calls), opened).await.0
}

/// Returns a text that only the last event of a streamed answer contains.
fn last_event(format: Format) -> &'static str {
    match format {
        Format::OpenAiChat => "[DONE]",
        Format::Anthropic => "message_stop",
        Format::OllamaChat => "\"done\":true",
        Format::Mcp => "\"result\"",
        other => panic!("no scenario closes a stream of {other} at its last event"),
    }
}

/// Returns the number of the first reply that did not come from the upstream, counted from 1.
pub fn first_refused(replies: &[Reply]) -> Option<usize> {
    replies.iter().position(|reply| !reply.from_upstream()).map(|index| index + 1)
}
