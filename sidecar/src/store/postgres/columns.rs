//! The columns that are read of each table, by name: with `*`, a column that a newer replica adds would make the
//! prepared statements of the older ones fail.

macro_rules! agents {
    ($rest:literal) => {
        concat!(
            "SELECT agent_id, name, active, deactivated_by, generation, kill_switch_enabled, kill_switch_window_size, \
             kill_switch_threshold, action, counting, retry_after_seconds, first_seen_ms, last_seen_ms, rev, \
             discovered, deleted FROM agents ",
            $rest
        )
    };
}

macro_rules! events {
    ($rest:literal) => {
        concat!("SELECT id, at_ms, event_type, agent_id, generation, actor, reason, detail FROM events ", $rest)
    };
}

macro_rules! kills {
    ($rest:literal) => {
        concat!("SELECT kill_id, agent_id, generation, outcome, event_id, received_ms FROM kills ", $rest)
    };
}

macro_rules! rules {
    ($rest:literal) => {
        concat!(
            "SELECT rule_id, name, agent_id, channel, target, secret, cooldown_seconds, recovery, enabled, \
             disabled_reason, created_ms FROM alert_rules ",
            $rest
        )
    };
}

macro_rules! deliveries {
    ($rest:literal) => {
        concat!(
            "SELECT seq, delivery_id, rule_id, channel, kind, agent_id, event_id, payload, status, attempts, \
             created_ms, next_attempt_ms, give_up_ms, last_attempt_ms, last_code, last_latency_ms, last_error \
             FROM alert_deliveries ",
            $rest
        )
    };
}

pub(super) use {agents, deliveries, events, kills, rules};
