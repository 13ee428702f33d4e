//! The metrics and their names. docs/operations.md explains each of them, and a test checks that none is missing there.

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Requests, by outcome.
    Requests(Outcome),
    /// Loops that deactivated an agent.
    Kills,
    /// Loops that blocked an agent for a while.
    Blocks,
    /// Loops that would have stopped an agent.
    WouldKills,
    /// Loops that stopped a conversation.
    SessionsStopped,
    /// Answers in which the model repeated itself.
    AnswerLoops,
    /// Answers that could not be read.
    AnswersUnread,
    /// Answers that the client did not wait for, or that the upstream broke off.
    AnswersCut,
    /// Calls and answers that the sidecar was not told of.
    EntriesDropped,
    /// Seconds since the last answer of the sidecar.
    SyncAgeSeconds,
    /// Reports that the sidecar has not accepted yet.
    OutboxDepth,
    /// Reports that were dropped because too many were waiting.
    ReportsDropped,
    /// Whether the fleet is paused: 1 or 0.
    Paused,
    /// The time that the filter itself takes for a scored request, in microseconds.
    FilterMicroseconds,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was scored and forwarded.
    Allowed,
    /// The kill switch is off for its agent, so it passed.
    Off,
    /// The sidecar does not know its agent yet.
    UnknownAgent,
    /// It names no agent.
    NoAgent,
    /// Its agent id is not valid.
    BadAgentId,
    /// No policy has arrived yet.
    NoPolicy,
    /// It was refused because its agent is inactive.
    RefusedInactive,
    /// It was refused because its agent is blocked for a while.
    RefusedBlocked,
    /// It was refused because no policy has arrived yet.
    RefusedNoPolicy,
    /// It was refused because it names no valid agent.
    RefusedAgentId,
    /// It was refused because its conversation was stopped.
    RefusedSession,
    /// It was refused because it cannot be judged.
    RefusedUnjudged,
    /// It completed a loop and was refused.
    Tripped,
    /// It has no body.
    Empty,
    /// It is not a call of a known API.
    NotACall,
    /// Its body is larger than `max_request_bytes`.
    TooLarge,
    /// Its body is compressed.
    Compressed,
    /// It is an upgrade, a tunnel or gRPC.
    NotHttp,
    /// Its body begins like JSON, or is sent to the path of a call, and is not valid JSON.
    Malformed,
    /// Too many workers wrote the same window at once.
    Contended,
    /// It was scored in an earlier pass, before an internal redirect.
    Redirected,
    /// It was forwarded without a score, because the policy ignores its tools.
    Ignored,
}

/// Every outcome with the name of its counter.
pub const OUTCOMES: [(Outcome, &str); 22] = [
    (Outcome::Allowed, "kill_switch.requests.allowed"),
    (Outcome::Off, "kill_switch.requests.off"),
    (Outcome::UnknownAgent, "kill_switch.requests.unknown_agent"),
    (Outcome::NoAgent, "kill_switch.requests.no_agent"),
    (Outcome::BadAgentId, "kill_switch.requests.bad_agent_id"),
    (Outcome::NoPolicy, "kill_switch.requests.no_policy"),
    (Outcome::RefusedInactive, "kill_switch.requests.refused_inactive"),
    (Outcome::RefusedBlocked, "kill_switch.requests.refused_blocked"),
    (Outcome::RefusedNoPolicy, "kill_switch.requests.refused_no_policy"),
    (Outcome::RefusedAgentId, "kill_switch.requests.refused_agent_id"),
    (Outcome::RefusedSession, "kill_switch.requests.refused_session"),
    (Outcome::RefusedUnjudged, "kill_switch.requests.refused_unjudged"),
    (Outcome::Tripped, "kill_switch.requests.tripped"),
    (Outcome::Empty, "kill_switch.requests.empty"),
    (Outcome::NotACall, "kill_switch.requests.not_a_call"),
    (Outcome::TooLarge, "kill_switch.requests.too_large"),
    (Outcome::Compressed, "kill_switch.requests.compressed"),
    (Outcome::NotHttp, "kill_switch.requests.not_http"),
    (Outcome::Malformed, "kill_switch.requests.malformed"),
    (Outcome::Contended, "kill_switch.requests.contended"),
    (Outcome::Redirected, "kill_switch.requests.redirected"),
    (Outcome::Ignored, "kill_switch.requests.ignored"),
];

/// Every other metric with its name and kind.
pub const OTHERS: [(Metric, &str, Kind); 13] = [
    (Metric::Kills, "kill_switch.kills", Kind::Counter),
    (Metric::Blocks, "kill_switch.blocks", Kind::Counter),
    (Metric::WouldKills, "kill_switch.would_kills", Kind::Counter),
    (Metric::SessionsStopped, "kill_switch.sessions_stopped", Kind::Counter),
    (Metric::AnswerLoops, "kill_switch.answer_loops", Kind::Counter),
    (Metric::AnswersUnread, "kill_switch.answers_unread", Kind::Counter),
    (Metric::AnswersCut, "kill_switch.answers_cut", Kind::Counter),
    (Metric::EntriesDropped, "kill_switch.entries_dropped", Kind::Counter),
    (Metric::SyncAgeSeconds, "kill_switch.sync_age_seconds", Kind::Gauge),
    (Metric::OutboxDepth, "kill_switch.outbox_depth", Kind::Gauge),
    (Metric::ReportsDropped, "kill_switch.reports_dropped", Kind::Counter),
    (Metric::Paused, "kill_switch.paused", Kind::Gauge),
    (Metric::FilterMicroseconds, "kill_switch.filter_us", Kind::Histogram),
];

impl Metric {
    /// Returns the position of the metric in [`all`].
    pub fn index(self) -> usize {
        match self {
            Self::Requests(outcome) => outcome as usize,
            Self::Kills => OUTCOMES.len(),
            Self::Blocks => OUTCOMES.len() + 1,
            Self::WouldKills => OUTCOMES.len() + 2,
            Self::SessionsStopped => OUTCOMES.len() + 3,
            Self::AnswerLoops => OUTCOMES.len() + 4,
            Self::AnswersUnread => OUTCOMES.len() + 5,
            Self::AnswersCut => OUTCOMES.len() + 6,
            Self::EntriesDropped => OUTCOMES.len() + 7,
            Self::SyncAgeSeconds => OUTCOMES.len() + 8,
            Self::OutboxDepth => OUTCOMES.len() + 9,
            Self::ReportsDropped => OUTCOMES.len() + 10,
            Self::Paused => OUTCOMES.len() + 11,
            Self::FilterMicroseconds => OUTCOMES.len() + 12,
        }
    }
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only rises.
    Counter,
    /// A current value.
    Gauge,
    /// A distribution of values.
    Histogram,
}

/// Returns every metric with its name and kind.
pub fn all() -> impl Iterator<Item = (Metric, &'static str, Kind)> {
    let outcomes = OUTCOMES.iter().map(|&(outcome, name)| (Metric::Requests(outcome), name, Kind::Counter));
    outcomes.chain(OTHERS.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_every_metric_is_its_position() {
        for (index, (metric, name, _)) in all().enumerate() {
            assert_eq!(metric.index(), index, "{name}");
        }
    }

    #[test]
    fn the_alert_rule_covers_every_outcome_of_a_request_that_cannot_be_judged() {
        let rules = include_str!("../deploy/prometheus/rules.yaml");
        let (_, rule) = rules.split_once("alert: KillSwitchUnjudged").unwrap();
        let (_, outcomes) = rule.split_once("outcome=~\"").unwrap();
        let covered: Vec<_> = outcomes.split('"').next().unwrap().split('|').collect();
        for (outcome, name) in OUTCOMES {
            let is_unjudged = match outcome {
                Outcome::TooLarge | Outcome::Compressed | Outcome::NotHttp | Outcome::Malformed => true,
                Outcome::Contended | Outcome::RefusedUnjudged => true,
                Outcome::Allowed | Outcome::Redirected | Outcome::Tripped | Outcome::Empty | Outcome::NotACall => false,
                Outcome::Off | Outcome::UnknownAgent | Outcome::NoAgent | Outcome::BadAgentId => false,
                // The rule KillSwitchWithoutPolicy reports these.
                Outcome::NoPolicy | Outcome::RefusedNoPolicy => false,
                Outcome::RefusedInactive | Outcome::RefusedBlocked | Outcome::RefusedAgentId => false,
                // A person chose this.
                Outcome::RefusedSession | Outcome::Ignored => false,
            };
            let name = name.rsplit('.').next().unwrap();
            assert_eq!(covered.contains(&name), is_unjudged, "{name}");
        }
    }

    #[test]
    fn the_operators_documentation_explains_every_metric() {
        let documentation = include_str!("../docs/operations.md");
        for (_, name, kind) in all() {
            let row = documentation.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            let kind = format!("{kind:?}").to_lowercase();
            assert!(row.is_some_and(|row| row.contains(&kind)), "{name}, a {kind}");
        }
    }
}
