//! What is counted, and under which name. docs/operations.md explains each; a test holds the two together.

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Requests, by what became of them.
    Requests(Outcome),
    /// Loops that deactivated an agent.
    Kills,
    /// Loops that blocked an agent for a while.
    Blocks,
    /// Loops that would have stopped an agent.
    WouldKills,
    /// Answers that could not be read.
    AnswersUnread,
    /// Seconds since the sidecar was last heard of.
    SyncAgeSeconds,
    /// Reports that the sidecar has not accepted yet.
    OutboxDepth,
    /// The filter's own time per judged request, in microseconds.
    FilterMicroseconds,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Judged and forwarded.
    Allowed,
    /// The kill switch is off for its agent.
    Off,
    /// The sidecar does not know its agent yet.
    UnknownAgent,
    /// It names no agent.
    NoAgent,
    /// It names something that is no agent id.
    BadAgentId,
    /// No policy has arrived yet.
    NoPolicy,
    /// Its agent is inactive.
    RefusedInactive,
    /// Its agent is blocked for a while.
    RefusedBlocked,
    /// Refused because no policy has arrived yet.
    RefusedNoPolicy,
    /// Refused because it names no valid agent.
    RefusedAgentId,
    /// The request that showed the loop.
    Tripped,
    /// No body, or a body that asks nothing.
    Empty,
    /// A body over the cap.
    TooLarge,
    /// A compressed body.
    Compressed,
    /// An upgrade, a tunnel or gRPC.
    NotHttp,
    /// A body that begins like JSON and is not.
    Malformed,
    /// Too many writers at once.
    Contended,
    /// Another pass over a request that was judged before.
    Redirected,
}

/// Every outcome, with the name it is counted under.
pub const OUTCOMES: [(Outcome, &str); 18] = [
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
    (Outcome::Tripped, "kill_switch.requests.tripped"),
    (Outcome::Empty, "kill_switch.requests.empty"),
    (Outcome::TooLarge, "kill_switch.requests.too_large"),
    (Outcome::Compressed, "kill_switch.requests.compressed"),
    (Outcome::NotHttp, "kill_switch.requests.not_http"),
    (Outcome::Malformed, "kill_switch.requests.malformed"),
    (Outcome::Contended, "kill_switch.requests.contended"),
    (Outcome::Redirected, "kill_switch.requests.redirected"),
];

/// Every other metric, with its name and kind.
pub const OTHERS: [(Metric, &str, Kind); 7] = [
    (Metric::Kills, "kill_switch.kills", Kind::Counter),
    (Metric::Blocks, "kill_switch.blocks", Kind::Counter),
    (Metric::WouldKills, "kill_switch.would_kills", Kind::Counter),
    (Metric::AnswersUnread, "kill_switch.answers_unread", Kind::Counter),
    (Metric::SyncAgeSeconds, "kill_switch.sync_age_seconds", Kind::Gauge),
    (Metric::OutboxDepth, "kill_switch.outbox_depth", Kind::Gauge),
    (Metric::FilterMicroseconds, "kill_switch.filter_us", Kind::Histogram),
];

impl Metric {
    /// Its place in [`all`].
    pub fn index(self) -> usize {
        match self {
            Self::Requests(outcome) => outcome as usize,
            Self::Kills => OUTCOMES.len(),
            Self::Blocks => OUTCOMES.len() + 1,
            Self::WouldKills => OUTCOMES.len() + 2,
            Self::AnswersUnread => OUTCOMES.len() + 3,
            Self::SyncAgeSeconds => OUTCOMES.len() + 4,
            Self::OutboxDepth => OUTCOMES.len() + 5,
            Self::FilterMicroseconds => OUTCOMES.len() + 6,
        }
    }
}

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// A level.
    Gauge,
    /// A distribution.
    Histogram,
}

/// Every metric, with its name and kind.
pub fn all() -> impl Iterator<Item = (Metric, &'static str, Kind)> {
    let outcomes = OUTCOMES.iter().map(|&(outcome, name)| (Metric::Requests(outcome), name, Kind::Counter));
    outcomes.chain(OTHERS.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_where_its_index_says() {
        for (index, (metric, name, _)) in all().enumerate() {
            assert_eq!(metric.index(), index, "{name}");
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
