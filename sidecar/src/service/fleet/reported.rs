//! A report of an Envoy about one agent, and its calls in the time of this replica.

use std::sync::Arc;

use agent_kill_switch::detect::window::Call;
use agent_kill_switch::entries::{ITEM_BYTES, Item, Kind};
use agent_kill_switch::turn::Answer;
use agent_kill_switch::wire::Usage;

use crate::model::Millis;

/// How long ago a call can have been made at most.
const MAX_AGE_MS: Millis = 10_000;

/// A report about one agent.
pub(super) struct Reported<'a> {
    pub(super) envoy: Arc<str>,
    pub(super) sender: Arc<str>,
    pub(super) agent_id: &'a str,
    pub(super) generation: u64,
    pub(super) items: Vec<Item>,
    /// When the report was sent, by the clock of the Envoy.
    pub(super) sent_ms: Millis,
    /// When it arrived.
    pub(super) arrived_ms: Millis,
}

impl Reported<'_> {
    /// Returns a call of the report.
    pub(super) fn arrival(&self, item: &Item, end: Option<End>) -> Arrival {
        let at_ms = self.at_ms(item.call.at_ms);
        Arrival {
            envoy: Arc::clone(&self.envoy),
            sender: Arc::clone(&self.sender),
            number: item.number,
            conversation: (item.kind == Kind::Conversation).then_some(item.call.conversation),
            call: Call { at_ms, in_flight: 1, took_ms: 0, answer: Answer::Unknown, novel: false, ..item.call },
            end,
            arrived_ms: self.arrived_ms,
        }
    }

    /// Returns how a call ended, given the item of its answer.
    pub(super) fn end(&self, item: &Item) -> End {
        End { answer: item.call.answer, usage: item.call.usage, at_ms: self.at_ms(item.call.at_ms) }
    }

    /// Returns a time of the Envoy's clock as one of our own.
    pub(super) fn at_ms(&self, envoy_ms: Millis) -> Millis {
        self.arrived_ms.saturating_sub(self.sent_ms.saturating_sub(envoy_ms).min(MAX_AGE_MS))
    }
}

/// Splits the items of a report. Items of an unknown kind are left out.
pub(in crate::service) fn items(bytes: &[u8]) -> Vec<Item> {
    bytes.as_chunks::<ITEM_BYTES>().0.iter().filter_map(Item::decode).collect()
}

/// How a call ended.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) answer: Answer,
    /// The tokens that the answer stated.
    pub(super) usage: Usage,
    pub(super) at_ms: Millis,
}

/// A call that has arrived.
pub(super) struct Arrival {
    pub(super) envoy: Arc<str>,
    pub(super) sender: Arc<str>,
    pub(super) number: u32,
    /// `None` if the call belongs to the common window.
    pub(super) conversation: Option<u64>,
    pub(super) call: Call,
    /// How the call ended, if its answer has arrived.
    pub(super) end: Option<End>,
    pub(super) arrived_ms: Millis,
}
