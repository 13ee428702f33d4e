//! The sidecar's answer to a sync: [`SyncAnswer`], read as it stands.
//!
//! By hand, since what serde derives for it is a twentieth of the module. The tests hold the two together: what one takes
//! the other takes, and as the same.

use super::json::Json;
use crate::number::{self, Decimal};
use crate::policy::{DEFAULT_RETRY_AFTER_SECONDS, DEFAULT_THRESHOLD, DEFAULT_WINDOW_SIZE};
use crate::wire::{Action, AgentPolicy, Counting, DeactivatedBy, SyncAnswer};

/// Which field cannot be read.
type Unread = &'static str;

/// Reads an answer.
pub fn sync_answer(body: &[u8]) -> Result<SyncAnswer, Unread> {
    let names = ["epoch", "rev", "full", "agents", "deleted", "more"];
    let root = Json::root(body).ok().filter(|root| root.is_object()).ok_or("no JSON object")?;
    let [epoch, rev, full, agents, deleted, more] = root.pick(names).map_err(|_| "malformed JSON")?;
    Ok(SyncAnswer {
        epoch: required("epoch", epoch, text)?,
        rev: required("rev", rev, integer)?,
        full: optional("full", full, flag)?.unwrap_or_default(),
        agents: list("agents", agents, policy)?,
        deleted: list("deleted", deleted, |id| text(id).ok_or("deleted"))?,
        more: optional("more", more, flag)?.unwrap_or_default(),
    })
}

fn policy(policy: Json<'_>) -> Result<AgentPolicy, Unread> {
    let names = [
        "agent_id",
        "active",
        "deactivated_by",
        "generation",
        "kill_switch_enabled",
        "kill_switch_window_size",
        "kill_switch_threshold",
        "action",
        "counting",
        "retry_after_seconds",
    ];
    let object = Some(policy).filter(|policy| policy.is_object()).ok_or("agents")?;
    let [id, active, by, generation, enabled, window_size, threshold, action, counting, retry_after] =
        object.pick(names).map_err(|_| "agents")?;
    Ok(AgentPolicy {
        agent_id: required("agent_id", id, text)?,
        active: required("active", active, flag)?,
        deactivated_by: optional("deactivated_by", by.filter(|by| !by.is_null()), deactivated_by)?,
        generation: optional("generation", generation, integer)?.unwrap_or_default(),
        kill_switch_enabled: optional("kill_switch_enabled", enabled, flag)?.unwrap_or_default(),
        kill_switch_window_size: optional("kill_switch_window_size", window_size, integer)?
            .unwrap_or(DEFAULT_WINDOW_SIZE),
        kill_switch_threshold: optional("kill_switch_threshold", threshold, decimal)?.unwrap_or(DEFAULT_THRESHOLD),
        action: optional("action", action, to_action)?.unwrap_or_default(),
        counting: optional("counting", counting, to_counting)?.unwrap_or_default(),
        retry_after_seconds: optional("retry_after_seconds", retry_after, integer)?
            .unwrap_or(DEFAULT_RETRY_AFTER_SECONDS),
    })
}

fn required<'a, T>(name: Unread, value: Option<Json<'a>>, read: fn(Json<'a>) -> Option<T>) -> Result<T, Unread> {
    value.and_then(read).ok_or(name)
}

fn optional<'a, T>(
    name: Unread,
    value: Option<Json<'a>>,
    read: fn(Json<'a>) -> Option<T>,
) -> Result<Option<T>, Unread> {
    value.map(|value| read(value).ok_or(name)).transpose()
}

fn list<'a, T>(
    name: Unread,
    value: Option<Json<'a>>,
    read: impl Fn(Json<'a>) -> Result<T, Unread>,
) -> Result<Vec<T>, Unread> {
    let Some(value) = value else { return Ok(Vec::new()) };
    if !value.is_array() {
        return Err(name);
    }
    value.elements().map(|element| read(element.map_err(|_| name)?)).collect()
}

fn text(value: Json<'_>) -> Option<String> {
    String::from_utf8(value.string()?.unescaped().into_owned()).ok()
}

fn flag(value: Json<'_>) -> Option<bool> {
    match value.text() {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

fn integer<T: TryFrom<u64>>(value: Json<'_>) -> Option<T> {
    number::whole(value.text())?.try_into().ok()
}

fn decimal(value: Json<'_>) -> Option<f64> {
    Decimal::of(value.text())?.nearest()
}

fn deactivated_by(value: Json<'_>) -> Option<DeactivatedBy> {
    match &*value.string()?.unescaped() {
        b"kill_switch" => Some(DeactivatedBy::KillSwitch),
        b"manual" => Some(DeactivatedBy::Manual),
        _ => None,
    }
}

fn to_action(value: Json<'_>) -> Option<Action> {
    match &*value.string()?.unescaped() {
        b"deactivate" => Some(Action::Deactivate),
        b"block" => Some(Action::Block),
        b"observe" => Some(Action::Observe),
        _ => None,
    }
}

fn to_counting(value: Json<'_>) -> Option<Counting> {
    match &*value.string()?.unescaped() {
        b"literal" => Some(Counting::Literal),
        b"progress" => Some(Counting::Progress),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn both(value: &Value) -> [Option<SyncAnswer>; 2] {
        let body = value.to_string();
        [sync_answer(body.as_bytes()).ok(), serde_json::from_str(&body).ok()]
    }

    #[test]
    fn it_takes_what_serde_takes_and_as_the_same() {
        let values = [
            json!(null),
            json!(true),
            json!(false),
            json!(0),
            json!(7),
            json!(-1),
            json!(2.5),
            json!(1e3),
            json!(u64::MAX),
            json!(4_294_967_296_u64),
            json!(""),
            json!("a\"\u{e9}\\"),
            json!("manual"),
            json!("kill_switch"),
            json!("block"),
            json!("observe"),
            json!("deactivate"),
            json!("literal"),
            json!("progress"),
            json!("other"),
            json!([]),
            json!({}),
            json!(["a", "b"]),
            json!([1]),
        ];
        let agent = json!({
            "agent_id": "a", "active": false, "deactivated_by": "manual", "generation": 3, "kill_switch_enabled": true,
            "kill_switch_window_size": 20, "kill_switch_threshold": 10.5, "action": "block", "counting": "literal",
            "retry_after_seconds": 60, "unknown": [1, {"x": null}],
        });
        let whole = json!({
            "epoch": "e", "rev": 5, "full": true, "agents": [agent], "deleted": ["gone"], "more": true, "unknown": 1,
        });
        let [read, expected] = both(&whole);
        assert!(read.is_some());
        assert_eq!(read, expected);
        let mut taken = 0;
        for place in [&[][..], &["agents", "0"]] {
            let pointer: String = place.iter().map(|step| format!("/{step}")).collect();
            let names: Vec<String> = whole.pointer(&pointer).unwrap().as_object().unwrap().keys().cloned().collect();
            for name in names {
                let mut missing = whole.clone();
                missing.pointer_mut(&pointer).unwrap().as_object_mut().unwrap().remove(&name);
                let [read, expected] = both(&missing);
                assert_eq!(read, expected, "without {name}");
                for value in &values {
                    let mut changed = whole.clone();
                    changed.pointer_mut(&pointer).unwrap()[&name] = value.clone();
                    let [read, expected] = both(&changed);
                    assert_eq!(read, expected, "{name}: {value}");
                    taken += u32::from(read.is_some());
                }
            }
        }
        assert!(taken > 50, "{taken} of them are good");
        for body in ["", "[]", "null", "{", "{\"epoch\": \"e\", \"rev\": 1", "{\"epoch\": \"e\", \"rev\": 1}"] {
            let [read, expected] = [sync_answer(body.as_bytes()).ok(), serde_json::from_str(body).ok()];
            assert_eq!(read, expected, "{body:?}");
        }
    }

    #[test]
    fn every_threshold_that_the_sidecar_can_send_is_read_to_the_last_bit() {
        let smallest = f64::from_bits(1);
        for threshold in [10.0, 7.25, 0.1, 0.1 + 0.2, 1.0 / 3.0, 393.499_999_999_999_94, 1e-7, 1e-300, smallest] {
            let body = json!({"epoch": "e", "rev": u64::MAX, "agents": [
                {"agent_id": "a", "active": true, "kill_switch_threshold": threshold},
            ]});
            let answer = sync_answer(body.to_string().as_bytes()).unwrap();
            assert_eq!((answer.rev, answer.agents[0].kill_switch_threshold), (u64::MAX, threshold));
        }
    }

    #[test]
    fn a_number_that_cannot_be_read_is_an_error_that_names_its_field() {
        for threshold in ["1e999", "01", "1.", "+1", "1e", "\"1\"", "null"] {
            let body = format!(
                r#"{{"epoch": "e", "rev": 1, "agents": [{{"agent_id": "a", "active": true, "kill_switch_threshold": {threshold}}}]}}"#
            );
            assert_eq!(sync_answer(body.as_bytes()), Err("kill_switch_threshold"), "{threshold}");
        }
        for rev in ["-1", "1.0", "18446744073709551616", "007"] {
            let body = format!(r#"{{"epoch": "e", "rev": {rev}}}"#);
            assert_eq!(sync_answer(body.as_bytes()), Err("rev"), "{rev}");
        }
    }
}
