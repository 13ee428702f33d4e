//! Events for PagerDuty, in the format of its Events API v2.
//!
//! A kill triggers an incident, and the activation of the agent resolves it: both have the same `dedup_key`, which names the
//! agent or the conversation. Repeated kills of the same agent become one incident, so PagerDuty needs no cooldown.

use agent_kill_switch::wire::Scope;
use reqwest::Url;
use serde_json::{Map, Value, json};

use super::message::Message;
use crate::model::{Delivery, NoticeKind};

/// Where events are sent to, unless the target is a URL.
const ENDPOINT: &str = "https://events.pagerduty.com/v2/enqueue";
/// How long a routing key is, which PagerDuty calls the integration key.
const KEY: usize = 32;
/// The longest summary, in characters.
const MAX_SUMMARY: usize = 1_024;
const REFUSED: &str = "target must be a PagerDuty integration key of 32 letters and digits, or the URL of the Events API \
     with ?routing_key=KEY";

/// Splits a target into the URL and the routing key. The target is a key, or a URL with the parameter `routing_key`.
pub(super) fn target(text: &str) -> Result<(String, String), String> {
    let is_key = |key: &str| key.len() == KEY && key.chars().all(|c| c.is_ascii_alphanumeric());
    if is_key(text) {
        return Ok((ENDPOINT.to_owned(), text.to_owned()));
    }
    let mut url = Url::parse(text).map_err(|_| REFUSED.to_owned())?;
    let key = url.query_pairs().find_map(|(name, value)| (name == "routing_key").then(|| value.into_owned()));
    let key = key.filter(|key| is_key(key)).ok_or_else(|| REFUSED.to_owned())?;
    url.set_query(None);
    Ok((url.into(), key))
}

/// Returns the events of a notice, in the order in which they must be sent. A test opens an incident and resolves it.
pub(super) fn events(delivery: &Delivery, message: &Message, routing_key: &str) -> Vec<Value> {
    let dedup_key = dedup_key(delivery, &message.data);
    let resolve = json!({"routing_key": routing_key, "event_action": "resolve", "dedup_key": dedup_key});
    if matches!(delivery.kind, NoticeKind::Activated | NoticeKind::Resumed) {
        return vec![resolve];
    }
    let mut details: Map<String, Value> =
        message.details.iter().map(|(label, value)| ((*label).to_owned(), json!(value))).collect();
    details.insert("delivery_id".to_owned(), json!(delivery.delivery_id));
    let source = if delivery.agent_id.is_empty() { "agent-kill-switch" } else { &delivery.agent_id };
    let summary: String = message.subject.chars().take(MAX_SUMMARY).collect();
    let mut trigger = json!({
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": dedup_key,
        "client": "Agent Kill Switch",
        "payload": {
            "summary": summary,
            "source": source,
            "severity": severity(delivery),
            "timestamp": message.timestamp,
            "component": "agent-kill-switch",
            "class": delivery.kind.as_str(),
            "custom_details": details,
        },
    });
    if let (Some(link), Some(trigger)) = (&message.link, trigger.as_object_mut()) {
        trigger.insert("client_url".to_owned(), json!(link));
        trigger.insert("links".to_owned(), json!([{"href": link, "text": "Open the dashboard"}]));
    }
    if delivery.kind == NoticeKind::Test { vec![trigger, resolve] } else { vec![trigger] }
}

/// Returns the key that all events about the same thing share. It has at most 200 characters; PagerDuty allows 255.
fn dedup_key(delivery: &Delivery, data: &Map<String, Value>) -> String {
    let agent = &delivery.agent_id;
    let session = data.get("session_key").and_then(Value::as_str).filter(|_| delivery.scope == Scope::Session);
    match (delivery.kind, session) {
        (NoticeKind::Test, _) => format!("kill-switch/test/{}", delivery.delivery_id),
        (NoticeKind::Paused | NoticeKind::Resumed, _) => "kill-switch/fleet".to_owned(),
        (NoticeKind::WouldKill, _) => format!("kill-switch/dry-run/{agent}"),
        (NoticeKind::AnswerLoop, _) => format!("kill-switch/answer-loop/{agent}"),
        (_, Some(session)) => format!("kill-switch/session/{agent}/{session}"),
        (_, None) => format!("kill-switch/agent/{agent}"),
    }
}

fn severity(delivery: &Delivery) -> &'static str {
    match (delivery.kind, delivery.scope) {
        (NoticeKind::KillSwitch, Scope::Agent) => "critical",
        (NoticeKind::KillSwitch, Scope::Session) | (NoticeKind::Blocked | NoticeKind::Paused, _) => "warning",
        _ => "info",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_key_or_a_url_with_one() {
        let key = "0123456789abcdefABCDEF0123456789";
        assert_eq!(target(key), Ok((ENDPOINT.to_owned(), key.to_owned())));
        let eu = format!("https://events.eu.pagerduty.com/v2/enqueue?routing_key={key}");
        assert_eq!(target(&eu), Ok(("https://events.eu.pagerduty.com/v2/enqueue".to_owned(), key.to_owned())));
        for wrong in ["", "0123", "https://events.pagerduty.com/v2/enqueue", "https://a.example/?routing_key=short"] {
            assert_eq!(target(wrong), Err(REFUSED.to_owned()), "{wrong}");
        }
    }
}
