//! The stored calls of an agent in their order, and what its events tell about them.

use std::sync::OnceLock;

use agent_kill_switch::entries::Kind;
use agent_kill_switch::turn::ToolSignature;
use serde_json::Value;

use super::{figure, is_kill, text};
use crate::model::{Event, EventType, Millis};
use crate::service::envoys::presentable;
use crate::service::rerun::{Ordered, ToolNames};
use crate::service::{Result, Service};
use crate::store::{EventQuery, EventRange};

/// How many of the agent's latest events are read, for the names of tools and for the latest change of its settings.
const EVENTS: u32 = 200;
/// How much earlier than its kill a call may have come. If the report of a kill took longer, those of its calls were lost.
const EARLY_MS: Millis = 60_000;
/// How much later than its kill a call may seem to have come: its report takes longer than that of the kill.
const LATE_MS: Millis = 2_000;

/// The stored calls of one agent.
pub(in crate::service) struct History {
    pub(in crate::service) ordered: Ordered,
    /// The names of tools, as far as kills have told them.
    pub(in crate::service) names: ToolNames,
    /// Whether there may have been earlier calls that are not stored any more.
    pub(in crate::service) is_full: bool,
    /// When the agent's settings were last changed.
    pub(in crate::service) changed_ms: Millis,
    /// How many calls get another score than they got in their Envoy, once that was counted.
    pub(in crate::service) different: OnceLock<usize>,
}

impl Service {
    /// Reads the stored calls of an agent.
    pub(in crate::service) async fn history(&self, agent_id: &str) -> Result<History> {
        let calls = self.stored_calls(agent_id).await?;
        let query = EventQuery {
            range: EventRange::Before(None),
            agent_id: Some(agent_id.to_owned()),
            event_type: None,
            since_ms: None,
            until_ms: None,
            limit: EVENTS,
        };
        let events = self.store.events(&query).await?;
        let is_change = |event: &&Event| event.body.event_type == EventType::PolicyChanged;
        let changed_ms = events.iter().find(is_change).map_or(0, |event| event.body.at_ms);
        let is_full = calls.len() >= self.limits.calls_per_agent as usize;
        let mut history = History {
            ordered: Ordered::new(calls),
            names: ToolNames::new(),
            is_full,
            changed_ms,
            different: OnceLock::new(),
        };
        for event in events.iter().filter(|event| is_kill(event)) {
            history.learn_names(event);
        }
        Ok(history)
    }
}

impl History {
    fn learn_names(&mut self, event: &Event) {
        let listed = event.body.detail.get("tools").and_then(Value::as_array);
        let names: Vec<_> = listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let call = if names.is_empty() { None } else { self.tripping(event) };
        let call = call.and_then(|index| self.ordered.calls.get(index));
        if let Some(signature) = call.and_then(|call| call.item.call.tools.signature()) {
            self.names.entry(ToolSignature::code(Some(signature))).or_insert(names);
        }
    }

    /// Finds the call that led to a kill.
    ///
    /// A loop that the sidecar has found names its call. The report of an Envoy does not: it is the latest call before the
    /// kill, of the same Envoy, generation and conversation, that has the score of the kill.
    pub(in crate::service) fn tripping(&self, event: &Event) -> Option<usize> {
        let detail = &event.body.detail;
        let half_points = figure(detail, "score")? * 2.0;
        let of_fleet = text(detail, "kill_id").strip_prefix("fleet-").and_then(|rest| rest.rsplit_once('-'));
        let session = u64::from_str_radix(text(detail, "session_key"), 16).ok();
        let envoy = presentable(text(detail, "envoy"));
        self.ordered.calls.iter().rposition(|call| {
            let item = &call.item;
            match of_fleet {
                Some((sender, number)) => call.sender == sender && item.number.to_string() == number,
                None => {
                    let conversation = (item.kind == Kind::Conversation).then_some(item.call.conversation);
                    call.generation == event.body.generation
                        && call.envoy == envoy
                        && conversation == session
                        && f64::from(item.half_points) == half_points
                        && call.at_ms <= event.body.at_ms.saturating_add(LATE_MS)
                        && call.at_ms.saturating_add(EARLY_MS) >= event.body.at_ms
                }
            }
        })
    }
}
