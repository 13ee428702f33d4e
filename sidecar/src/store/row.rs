//! Rows to words and back, the same for every database.
//!
//! Integers of databases are signed: numbers of ours that cannot be negative are clamped on the way in, and a negative
//! one on the way out is reported as corrupt rather than wrapped.

use agent_kill_switch::wire::{Action, AgentPolicy, Counting, DeactivatedBy, ScoreSample, Signals};
use sqlx::{ColumnIndex, Decode, Row, Type};

use crate::model::{
    Agent, AlertRule, Channel, Delivery, DeliveryStatus, Event, EventType, KillOutcome, KillRecord, NewEvent,
    NoticeKind, Scope, SeenEnvoy, Token,
};
use crate::store::{Meta, Result, Session, StoreError};

/// What is asked of a row, by the name of a column.
pub(super) trait Columns {
    fn text(&self, column: &'static str) -> Result<String>;
    fn optional_text(&self, column: &'static str) -> Result<Option<String>>;
    fn bytes(&self, column: &'static str) -> Result<Vec<u8>>;
    fn optional_bytes(&self, column: &'static str) -> Result<Option<Vec<u8>>>;
    fn is(&self, column: &'static str) -> Result<bool>;
    fn real(&self, column: &'static str) -> Result<f64>;
    fn integer(&self, column: &'static str) -> Result<i64>;
    fn optional_integer(&self, column: &'static str) -> Result<Option<i64>>;
}

impl<R> Columns for R
where
    R: Row,
    &'static str: ColumnIndex<R>,
    for<'r> String: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> bool: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> f64: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> i64: Decode<'r, R::Database> + Type<R::Database>,
{
    fn text(&self, column: &'static str) -> Result<String> {
        Ok(self.try_get(column)?)
    }

    fn optional_text(&self, column: &'static str) -> Result<Option<String>> {
        Ok(self.try_get(column)?)
    }

    fn bytes(&self, column: &'static str) -> Result<Vec<u8>> {
        Ok(self.try_get(column)?)
    }

    fn optional_bytes(&self, column: &'static str) -> Result<Option<Vec<u8>>> {
        Ok(self.try_get(column)?)
    }

    fn is(&self, column: &'static str) -> Result<bool> {
        Ok(self.try_get(column)?)
    }

    fn real(&self, column: &'static str) -> Result<f64> {
        Ok(self.try_get(column)?)
    }

    fn integer(&self, column: &'static str) -> Result<i64> {
        Ok(self.try_get(column)?)
    }

    fn optional_integer(&self, column: &'static str) -> Result<Option<i64>> {
        Ok(self.try_get(column)?)
    }
}

pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(row: &impl Columns, column: &'static str) -> Result<u64> {
    let number = row.integer(column)?;
    u64::try_from(number).map_err(|_| StoreError::Corrupt { column, value: number.to_string() })
}

fn unsigned_32(row: &impl Columns, column: &'static str) -> Result<u32> {
    let number = unsigned(row, column)?;
    u32::try_from(number).map_err(|_| StoreError::Corrupt { column, value: number.to_string() })
}

fn optional(row: &impl Columns, column: &'static str) -> Result<Option<u64>> {
    let number = row.optional_integer(column)?;
    Ok(number.and_then(|number| u64::try_from(number).ok()))
}

fn word<T>(row: &impl Columns, column: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<T> {
    let word = row.text(column)?;
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

pub(super) fn meta(row: &impl Columns) -> Result<Meta> {
    Ok(Meta { epoch: row.text("epoch")?, rev: unsigned(row, "rev")? })
}

pub(super) fn agent(row: &impl Columns) -> Result<Agent> {
    let deactivated_by = match row.optional_text("deactivated_by")? {
        Some(_) => Some(word(row, "deactivated_by", parse_deactivated_by)?),
        None => None,
    };
    Ok(Agent {
        policy: AgentPolicy {
            agent_id: row.text("agent_id")?,
            active: row.is("active")?,
            deactivated_by,
            generation: unsigned(row, "generation")?,
            kill_switch_enabled: row.is("kill_switch_enabled")?,
            kill_switch_window_size: unsigned_32(row, "kill_switch_window_size")?,
            kill_switch_threshold: row.real("kill_switch_threshold")?,
            action: word(row, "action", parse_action)?,
            counting: word(row, "counting", parse_counting)?,
            retry_after_seconds: unsigned_32(row, "retry_after_seconds")?,
        },
        name: row.text("name")?,
        first_seen_ms: optional(row, "first_seen_ms")?,
        last_seen_ms: optional(row, "last_seen_ms")?,
        rev: unsigned(row, "rev")?,
        discovered: row.is("discovered")?,
        deleted: row.is("deleted")?,
    })
}

pub(super) fn event(row: &impl Columns) -> Result<Event> {
    let detail = row.text("detail")?;
    let detail =
        serde_json::from_str(&detail).map_err(|_| StoreError::Corrupt { column: "events.detail", value: detail })?;
    Ok(Event {
        id: unsigned(row, "id")?,
        body: NewEvent {
            at_ms: unsigned(row, "at_ms")?,
            event_type: word(row, "event_type", EventType::parse)?,
            agent_id: row.text("agent_id")?,
            generation: unsigned(row, "generation")?,
            actor: row.text("actor")?,
            reason: row.text("reason")?,
            detail,
        },
    })
}

fn parse_outcome(word: &str) -> Option<KillOutcome> {
    use KillOutcome::{Applied, Blocked, Duplicate, Observed, Stale};
    [Applied, Duplicate, Stale, Observed, Blocked].into_iter().find(|outcome| outcome.as_str() == word)
}

pub(super) fn kill(row: &impl Columns) -> Result<KillRecord> {
    Ok(KillRecord {
        kill_id: row.text("kill_id")?,
        agent_id: row.text("agent_id")?,
        generation: unsigned(row, "generation")?,
        outcome: word(row, "outcome", parse_outcome)?,
        event_id: unsigned(row, "event_id")?,
        received_ms: unsigned(row, "received_ms")?,
    })
}

pub(super) fn score(row: &impl Columns) -> Result<ScoreSample> {
    Ok(ScoreSample {
        at_ms: unsigned(row, "at_ms")?,
        score: row.real("score")?,
        signals: Signals {
            similar_prompts: unsigned_32(row, "similar_prompts")?,
            similar_responses: unsigned_32(row, "similar_responses")?,
            repeated_tool_calls: unsigned_32(row, "repeated_tool_calls")?,
        },
    })
}

pub(super) fn token(row: &impl Columns) -> Result<Token> {
    let hash = row.bytes("hash")?;
    let length = hash.len();
    let hash = hash
        .try_into()
        .map_err(|_| StoreError::Corrupt { column: "tokens.hash", value: format!("{length} bytes instead of 32") })?;
    Ok(Token {
        token_id: row.text("token_id")?,
        name: row.text("name")?,
        scope: word(row, "scope", Scope::parse)?,
        hash,
        created_ms: unsigned(row, "created_ms")?,
        revoked_ms: optional(row, "revoked_ms")?,
    })
}

pub(super) fn alert_rule(row: &impl Columns) -> Result<AlertRule> {
    Ok(AlertRule {
        rule_id: row.text("rule_id")?,
        name: row.text("name")?,
        agent_id: row.optional_text("agent_id")?,
        channel: word(row, "channel", Channel::parse)?,
        target: row.text("target")?,
        secret: row.optional_bytes("secret")?,
        cooldown_seconds: unsigned_32(row, "cooldown_seconds")?,
        recovery: row.is("recovery")?,
        enabled: row.is("enabled")?,
        disabled_reason: row.text("disabled_reason")?,
        created_ms: unsigned(row, "created_ms")?,
    })
}

pub(super) fn delivery(row: &impl Columns) -> Result<Delivery> {
    let last_code = optional(row, "last_code")?;
    Ok(Delivery {
        seq: unsigned(row, "seq")?,
        delivery_id: row.text("delivery_id")?,
        rule_id: row.text("rule_id")?,
        channel: word(row, "channel", Channel::parse)?,
        kind: word(row, "kind", NoticeKind::parse)?,
        agent_id: row.text("agent_id")?,
        event_id: optional(row, "event_id")?,
        payload: row.text("payload")?,
        status: word(row, "status", DeliveryStatus::parse)?,
        attempts: unsigned_32(row, "attempts")?,
        created_ms: unsigned(row, "created_ms")?,
        next_attempt_ms: unsigned(row, "next_attempt_ms")?,
        give_up_ms: unsigned(row, "give_up_ms")?,
        last_attempt_ms: optional(row, "last_attempt_ms")?,
        last_code: last_code.and_then(|code| u32::try_from(code).ok()),
        last_latency_ms: optional(row, "last_latency_ms")?,
        last_error: row.text("last_error")?,
    })
}

pub(super) fn session(row: &impl Columns, hash: &[u8; 32]) -> Result<Session> {
    let token_hash = row.optional_bytes("token_hash")?;
    Ok(Session {
        hash: *hash,
        token_hash: token_hash.and_then(|hash| hash.try_into().ok()),
        expires_ms: unsigned(row, "expires_ms")?,
    })
}

pub(super) fn envoy(row: &impl Columns) -> Result<SeenEnvoy> {
    Ok(SeenEnvoy {
        envoy: row.text("envoy")?,
        applied_rev: optional(row, "applied_rev")?,
        last_seen_ms: unsigned(row, "last_seen_ms")?,
    })
}
