//! The body of the request that stops an agent at its source: whatever runs the agent can end its process, its job or its
//! conversation, instead of letting it send requests that are refused.
//!
//! Only a kill says `stop: true`. An activation says `stop: false`, so that the agent may be started again, and so does a
//! test, so that trying it out never stops anything.

use serde_json::{Value, json};

use super::message::Message;
use crate::model::{Delivery, NoticeKind};

pub(super) fn body(delivery: &Delivery, message: &Message) -> Value {
    let data = |member: &str| message.data.get(member).cloned().unwrap_or_default();
    json!({
        "stop": delivery.kind == NoticeKind::KillSwitch,
        "test": delivery.kind == NoticeKind::Test,
        "agent_id": delivery.agent_id,
        "scope": delivery.scope,
        "session": data("session"),
        "until": data("until"),
        "reason": data("reason"),
        "generation": data("generation"),
        "event_id": delivery.event_id,
        "timestamp": message.timestamp,
    })
}
