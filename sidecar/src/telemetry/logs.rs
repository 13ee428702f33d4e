//! Events as log records.
//!
//! An event becomes a record when its transaction is committed, at the replica that committed it, so that each event is
//! exported once. Excerpts of prompts and the hashes of matching calls are left out: they stay in the sidecar.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry::Context;
use opentelemetry::logs::{AnyValue, LogRecord as _, Logger as _, Severity};
use serde_json::Value;

use super::{AGENT, CONVERSATION, Telemetry};
use crate::alerts::session_name;
use crate::model::{Event, EventType};

/// The members of an event that are not exported.
const KEPT: [&str; 2] = ["matches", "excerpt"];

impl Telemetry {
    /// Returns what exports these events once they are committed. The records belong to the request of the caller.
    pub(super) fn exported(self: &Arc<Self>, events: Vec<Event>) -> Box<dyn FnOnce() + Send> {
        let (telemetry, request) = (Arc::clone(self), Context::current());
        Box::new(move || {
            let _request = request.attach();
            events.iter().for_each(|event| telemetry.export(event));
        })
    }

    fn export(&self, event: &Event) {
        let (body, mut record) = (&event.body, self.logger.create_log_record());
        let (severity, word) = match body.event_type {
            EventType::KillSwitch
            | EventType::Blocked
            | EventType::WouldKill
            | EventType::AnswerLoop
            | EventType::Paused => (Severity::Warn, "WARN"),
            _ => (Severity::Info, "INFO"),
        };
        record.set_event_name(body.event_type.as_str());
        record.set_timestamp(SystemTime::UNIX_EPOCH + Duration::from_millis(body.at_ms));
        record.set_severity_number(severity);
        record.set_severity_text(word);
        let text = if body.reason.is_empty() { body.event_type.as_str() } else { &body.reason };
        record.set_body(text.to_owned().into());
        if !body.agent_id.is_empty() {
            record.add_attribute(AGENT, body.agent_id.clone());
            record.add_attribute("kill_switch.generation", number(body.generation));
        }
        if let Some(conversation) = session_name(&body.detail) {
            record.add_attribute(CONVERSATION, conversation.to_owned());
        }
        record.add_attribute("kill_switch.event_id", number(event.id));
        record.add_attribute("kill_switch.event_type", body.event_type.as_str());
        record.add_attribute("kill_switch.actor", body.actor.clone());
        for (member, value) in body.detail.iter().filter(|(member, _)| !KEPT.contains(&member.as_str())) {
            if let Some(value) = attribute(value) {
                record.add_attribute(format!("kill_switch.{member}"), value);
            }
        }
        self.logger.emit(record);
    }
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a value of an event as an attribute. Objects are written as JSON.
fn attribute(value: &Value) -> Option<AnyValue> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => (*value).into(),
        Value::Number(value) => match value.as_i64() {
            Some(whole) => whole.into(),
            None => value.as_f64()?.into(),
        },
        Value::String(text) => text.clone().into(),
        Value::Array(items) => AnyValue::ListAny(Box::new(items.iter().filter_map(attribute).collect())),
        Value::Object(_) => value.to_string().into(),
    })
}
