//! Rows to words and back.
//!
//! SQLite integers are signed: numbers of ours that cannot be negative are clamped on the way in, and a negative one on
//! the way out is reported as corrupt rather than wrapped.

use agent_kill_switch::wire::{Action, AgentPolicy, Counting, DeactivatedBy, ScoreSample, Signals};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::model::{
    Agent, AlertRule, Channel, Delivery, DeliveryStatus, Event, EventType, KillOutcome, KillRecord, NewEvent,
    NoticeKind, Scope, Token,
};
use crate::store::{Result, StoreError};

pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(row: &SqliteRow, column: &'static str) -> Result<u64> {
    let number: i64 = row.try_get(column)?;
    u64::try_from(number).map_err(|_| StoreError::Corrupt { column, value: number.to_string() })
}

fn unsigned_32(row: &SqliteRow, column: &'static str) -> Result<u32> {
    let number = unsigned(row, column)?;
    u32::try_from(number).map_err(|_| StoreError::Corrupt { column, value: number.to_string() })
}

fn optional(row: &SqliteRow, column: &'static str) -> Result<Option<u64>> {
    let number: Option<i64> = row.try_get(column)?;
    Ok(number.and_then(|number| u64::try_from(number).ok()))
}

fn word<T>(row: &SqliteRow, column: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<T> {
    let word: String = row.try_get(column)?;
    parse(&word).ok_or(StoreError::Corrupt { column, value: word })
}

pub(super) fn deactivated_by_word(by: DeactivatedBy) -> &'static str {
    match by {
        DeactivatedBy::KillSwitch => "kill_switch",
        DeactivatedBy::Manual => "manual",
    }
}

fn parse_deactivated_by(word: &str) -> Option<DeactivatedBy> {
    [DeactivatedBy::KillSwitch, DeactivatedBy::Manual].into_iter().find(|by| deactivated_by_word(*by) == word)
}

pub(super) fn action_word(action: Action) -> &'static str {
    match action {
        Action::Deactivate => "deactivate",
        Action::Block => "block",
        Action::Observe => "observe",
    }
}

fn parse_action(word: &str) -> Option<Action> {
    [Action::Deactivate, Action::Block, Action::Observe].into_iter().find(|action| action_word(*action) == word)
}

pub(super) fn counting_word(counting: Counting) -> &'static str {
    match counting {
        Counting::Literal => "literal",
        Counting::Progress => "progress",
    }
}

fn parse_counting(word: &str) -> Option<Counting> {
    [Counting::Literal, Counting::Progress].into_iter().find(|counting| counting_word(*counting) == word)
}

pub(super) fn agent(row: &SqliteRow) -> Result<Agent> {
    let deactivated_by: Option<String> = row.try_get("deactivated_by")?;
    let deactivated_by = match deactivated_by {
        Some(_) => Some(word(row, "deactivated_by", parse_deactivated_by)?),
        None => None,
    };
    Ok(Agent {
        policy: AgentPolicy {
            agent_id: row.try_get("agent_id")?,
            active: row.try_get("active")?,
            deactivated_by,
            generation: unsigned(row, "generation")?,
            kill_switch_enabled: row.try_get("kill_switch_enabled")?,
            kill_switch_window_size: unsigned_32(row, "kill_switch_window_size")?,
            kill_switch_threshold: row.try_get("kill_switch_threshold")?,
            action: word(row, "action", parse_action)?,
            counting: word(row, "counting", parse_counting)?,
            retry_after_seconds: unsigned_32(row, "retry_after_seconds")?,
        },
        name: row.try_get("name")?,
        first_seen_ms: optional(row, "first_seen_ms")?,
        last_seen_ms: optional(row, "last_seen_ms")?,
        rev: unsigned(row, "rev")?,
        discovered: row.try_get("discovered")?,
        deleted: row.try_get("deleted")?,
    })
}

pub(super) fn event(row: &SqliteRow) -> Result<Event> {
    let detail: String = row.try_get("detail")?;
    let detail =
        serde_json::from_str(&detail).map_err(|_| StoreError::Corrupt { column: "events.detail", value: detail })?;
    Ok(Event {
        id: unsigned(row, "id")?,
        body: NewEvent {
            at_ms: unsigned(row, "at_ms")?,
            event_type: word(row, "event_type", EventType::parse)?,
            agent_id: row.try_get("agent_id")?,
            generation: unsigned(row, "generation")?,
            actor: row.try_get("actor")?,
            reason: row.try_get("reason")?,
            detail,
        },
    })
}

fn parse_outcome(word: &str) -> Option<KillOutcome> {
    use KillOutcome::{Applied, Blocked, Duplicate, Observed, Stale};
    [Applied, Duplicate, Stale, Observed, Blocked].into_iter().find(|outcome| outcome.as_str() == word)
}

pub(super) fn kill(row: &SqliteRow) -> Result<KillRecord> {
    Ok(KillRecord {
        kill_id: row.try_get("kill_id")?,
        agent_id: row.try_get("agent_id")?,
        generation: unsigned(row, "generation")?,
        outcome: word(row, "outcome", parse_outcome)?,
        event_id: unsigned(row, "event_id")?,
        received_ms: unsigned(row, "received_ms")?,
    })
}

pub(super) fn score(row: &SqliteRow) -> Result<ScoreSample> {
    Ok(ScoreSample {
        at_ms: unsigned(row, "at_ms")?,
        score: row.try_get("score")?,
        signals: Signals {
            similar_prompts: unsigned_32(row, "similar_prompts")?,
            similar_responses: unsigned_32(row, "similar_responses")?,
            repeated_tool_calls: unsigned_32(row, "repeated_tool_calls")?,
        },
    })
}

pub(super) fn token(row: &SqliteRow) -> Result<Token> {
    let hash: Vec<u8> = row.try_get("hash")?;
    let length = hash.len();
    let hash = hash
        .try_into()
        .map_err(|_| StoreError::Corrupt { column: "tokens.hash", value: format!("{length} bytes instead of 32") })?;
    Ok(Token {
        token_id: row.try_get("token_id")?,
        name: row.try_get("name")?,
        scope: word(row, "scope", Scope::parse)?,
        hash,
        created_ms: unsigned(row, "created_ms")?,
        revoked_ms: optional(row, "revoked_ms")?,
    })
}

pub(super) fn alert_rule(row: &SqliteRow) -> Result<AlertRule> {
    Ok(AlertRule {
        rule_id: row.try_get("rule_id")?,
        name: row.try_get("name")?,
        agent_id: row.try_get("agent_id")?,
        channel: word(row, "channel", Channel::parse)?,
        target: row.try_get("target")?,
        secret: row.try_get("secret")?,
        cooldown_seconds: unsigned_32(row, "cooldown_seconds")?,
        recovery: row.try_get("recovery")?,
        enabled: row.try_get("enabled")?,
        disabled_reason: row.try_get("disabled_reason")?,
        created_ms: unsigned(row, "created_ms")?,
    })
}

pub(super) fn delivery(row: &SqliteRow) -> Result<Delivery> {
    let last_code = optional(row, "last_code")?;
    Ok(Delivery {
        seq: unsigned(row, "seq")?,
        delivery_id: row.try_get("delivery_id")?,
        rule_id: row.try_get("rule_id")?,
        channel: word(row, "channel", Channel::parse)?,
        kind: word(row, "kind", NoticeKind::parse)?,
        agent_id: row.try_get("agent_id")?,
        event_id: optional(row, "event_id")?,
        payload: row.try_get("payload")?,
        status: word(row, "status", DeliveryStatus::parse)?,
        attempts: unsigned_32(row, "attempts")?,
        created_ms: unsigned(row, "created_ms")?,
        next_attempt_ms: unsigned(row, "next_attempt_ms")?,
        give_up_ms: unsigned(row, "give_up_ms")?,
        last_attempt_ms: optional(row, "last_attempt_ms")?,
        last_code: last_code.and_then(|code| u32::try_from(code).ok()),
        last_latency_ms: optional(row, "last_latency_ms")?,
        last_error: row.try_get("last_error")?,
    })
}
