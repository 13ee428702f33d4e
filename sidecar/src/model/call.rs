//! Calls of an agent as Envoys have reported them, with their answers.

use agent_kill_switch::entries::{Item, Kind};
use agent_kill_switch::turn::{Answer, Conversation};
use agent_kill_switch::wire::Counting;

use super::Millis;

/// What one worker of an Envoy has reported about an agent within about a second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallBatch {
    /// The generation of the policy that was in force.
    pub generation: u64,
    /// The Envoy.
    pub envoy: String,
    /// Names the worker of the Envoy and its start.
    pub sender: String,
    /// When the latest report was sent, by the clock of the Envoy.
    pub sent_ms: Millis,
    /// When it arrived.
    pub arrived_ms: Millis,
    /// The encoded items.
    pub items: Vec<u8>,
}

impl CallBatch {
    /// Returns how many of the items are calls. The others are answers.
    pub fn calls(&self) -> u64 {
        let kinds = self.items.as_chunks().0.iter().map(Item::kind);
        kinds.filter(|kind| *kind != Some(Kind::Answer)).count() as u64
    }

    /// Returns a time of the Envoy's clock as one of the sidecar's.
    pub fn at_ms(&self, envoy_ms: Millis) -> Millis {
        self.arrived_ms.saturating_sub(self.sent_ms.saturating_sub(envoy_ms))
    }
}

/// A stored call.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredCall {
    /// The generation of the policy that was in force.
    pub generation: u64,
    /// How repeats were counted.
    pub counting: Counting,
    /// The Envoy that reported it.
    pub envoy: String,
    /// Names the worker of the Envoy and its start.
    pub sender: String,
    /// When the call came, by the clock of the sidecar.
    pub at_ms: Millis,
    /// The call. Its time is that of the Envoy's steady clock.
    pub item: Item,
    /// The answer, and when it ended by the same clock. `None` if it has not been reported.
    pub end: Option<(Answer, Millis)>,
}

impl StoredCall {
    /// Returns the conversation of the call, which tells in which window it is counted.
    pub fn conversation(&self) -> Conversation {
        let key = self.item.call.conversation;
        match self.item.kind {
            Kind::Conversation => Conversation::Continued { key },
            Kind::Common | Kind::Answer => Conversation::New { opening: key },
        }
    }
}
