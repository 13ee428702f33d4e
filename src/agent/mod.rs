//! An agent in shared data: its policy, what this Envoy has done about it since, and its windows of recent calls.
//!
//! The policy and the agent's common window are one value under one key, so that a request that begins a conversation
//! costs one read. The headers of a request read the value, and its body is scored on what the headers read, unless another
//! worker has written the value in the meantime. In that case the compare-and-swap fails, the value is read again, and
//! everything is decided on the new one. A request that was held while its agent was killed, deactivated or blocked is
//! therefore refused.
//!
//! A window belongs to one *generation* of the policy. Activating an agent increases the generation, and a window of
//! another generation counts as empty. That is how an activation clears the windows on every worker without deleting
//! anything. The generation always comes from the value that is being written, so a request from before an activation
//! cannot overwrite the window after it.
//!
//! Conversations have windows under keys of their own, the slots. For these, the policy is read once more when the body
//! arrives.

pub mod record;

use std::borrow::Cow;

use crate::detect::score::Score;
use crate::detect::tools::Treatment;
use crate::detect::verdict::{Verdict, decide};
use crate::detect::window::{Call, Sequence, Window};
use crate::entries::Kind;
use crate::host::{Host, SharedValue};
use crate::shared::{SlotLimits, agent_key, agent_of, find_slot, update, update_from, update_persistently};
use crate::turn::{Answer, Conversation, Turn};
use crate::wire::{Action, AgentPolicy, DeactivatedBy, Scope, StoppedSession, Usage};
use record::{Details, Now, Record, Value, session_key};

/// What is said about a request by the state of its agent and its conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The agent is inactive, and every request is refused.
    Inactive {
        /// Who deactivated it, if known.
        by: Option<DeactivatedBy>,
        /// Why, in the words of the event. May be empty.
        reason: String,
    },
    /// The agent is blocked, and requests are refused for a while.
    Blocked {
        /// How long requests are still refused.
        retry_after_seconds: u32,
        /// Why, in the words of the event. May be empty.
        reason: String,
    },
    /// The conversation was stopped, and its requests are refused for a while.
    SessionStopped {
        /// How long requests are still refused.
        retry_after_seconds: u32,
        /// What the policy does about a loop.
        action: Action,
        /// Why, in the words of the event.
        reason: String,
    },
    /// The kill switch is off, and requests pass.
    Off,
    /// Requests are scored.
    Guarded,
}

impl Value<'_> {
    /// Returns what the state of the agent says about a request. The clock is read only if the agent was ever blocked.
    fn standing(&self, host: &impl Host) -> Standing {
        let record = &self.record;
        if !record.active {
            return Standing::Inactive { by: record.deactivated_by, reason: self.details().reason };
        }
        let blocked_for = if record.blocked_until_ms == 0 { 0 } else { record.blocked_for_seconds(host.steady_ms()) };
        match blocked_for {
            0 if record.enabled => Standing::Guarded,
            0 => Standing::Off,
            seconds => Standing::Blocked { retry_after_seconds: seconds, reason: self.details().reason },
        }
    }

    /// Returns what the state of a conversation says about a request. Costs nothing if no conversation was stopped.
    fn session_standing(&self, conversation: u64, host: &impl Host) -> Standing {
        if !self.may_have_stopped(conversation) {
            return Standing::Guarded;
        }
        let now_ms = host.steady_ms();
        match self.details().stop(conversation) {
            Some(stop) if stop.until_ms > now_ms => Standing::SessionStopped {
                retry_after_seconds: u32::try_from((stop.until_ms - now_ms).div_ceil(1000)).unwrap_or(u32::MAX),
                action: stop.action,
                reason: stop.reason.clone(),
            },
            _ => Standing::Guarded,
        }
    }
}

/// One agent, as a request holds on to it.
#[derive(Clone, Debug)]
pub struct Agent {
    key: String,
    /// The key of the conversation's slot, if the call was scored there.
    slot: Option<String>,
    /// The record on which the latest decision was made.
    pub record: Record,
    /// The value that the record was decoded from, window included. Taken when the call is scored.
    value: SharedValue,
}

/// A call that was scored and added to its window.
#[derive(Clone, Debug)]
pub struct Scored {
    /// What to do about the call.
    pub verdict: Verdict,
    /// The score with its contributions.
    pub score: Score,
    /// How the policy counts the tools that the call is about. If it ignores them, the call was not scored.
    pub treatment: Treatment,
    /// The number by which the answer finds the call.
    pub sequence: Sequence,
    /// The number under which the sidecar is told of the call, or 0 if it is not.
    pub told: u32,
    /// The window, if the verdict is not to allow the call. The report explains the verdict with it.
    pub window: Option<Window>,
}

impl Scored {
    fn new(record: &Record, window: &Window, (score, sequence): (Score, Sequence), call: &Call) -> Self {
        let verdict = decide(&score, record.threshold, record.action);
        let window = (verdict != Verdict::Allow).then(|| window.clone());
        Self { verdict, score, treatment: call.treatment, sequence, told: 0, window }
    }
}

/// Returns the call that a request makes, as it is scored, and in which window.
pub fn call_of(turn: &Turn, now_ms: u64) -> (Kind, Call) {
    let kind = if turn.conversation.key().is_some() { Kind::Conversation } else { Kind::Common };
    (kind, Call { in_flight: 1, conversation: turn.conversation.tag(), ..Call::new(turn, now_ms) })
}

/// Why a call was not scored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotScored {
    /// The policy no longer asks for it, or the conversation was stopped.
    Standing(Standing),
    /// The agent was deleted.
    Deleted,
    /// Other workers wrote the window every time this one tried to.
    Contended,
}

/// The result of [`Agent::trip`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trip {
    /// This worker stopped the agent or the conversation, and must report it.
    Stopped {
        /// How often the conversation had been let go on before.
        releases: u32,
    },
    /// Another worker was first.
    AlreadyStopped,
    /// The agent was activated or deleted in the meantime, so the verdict no longer applies.
    Outdated,
    /// Other workers wrote the record every time this one tried to, so nothing is known about the agent.
    Contended,
}

impl Agent {
    /// Reads the record of an agent. Returns `None` if there is none, or if it is older than `round`.
    pub fn read(host: &impl Host, agent_id: &str, round: u32) -> Option<Self> {
        let key = agent_key(agent_id);
        let value = host.get(&key);
        let record = Value::decode(&value.bytes).map(|value| value.record).filter(|record| record.round >= round)?;
        Some(Self { key, slot: None, record, value })
    }

    /// The agent's id.
    pub fn id(&self) -> &str {
        agent_of(&self.key)
    }

    /// Returns where a scored call is, in words that [`find_scored`](Self::find_scored) understands.
    pub fn place_of(&self, scored: &Scored) -> String {
        format!("{} {} {}", scored.sequence.0, scored.told, self.slot.as_deref().unwrap_or_default())
    }

    /// Finds a call that an earlier pass over the same request has scored. Returns its number in the window as well, and the
    /// one under which the sidecar was told of it.
    pub fn find_scored(&self, place: &[u8]) -> Option<(Self, Sequence, u32)> {
        let (number, rest) = std::str::from_utf8(place).ok()?.split_once(' ')?;
        let (told, slot) = rest.split_once(' ')?;
        let slot = Some(slot.to_owned()).filter(|slot| !slot.is_empty());
        Some((Self { slot, ..self.clone() }, Sequence(number.parse().ok()?), told.parse().ok()?))
    }

    /// Returns what the record that was read says about a request of this conversation, as far as it is known.
    pub fn standing(&self, host: &impl Host, conversation: Option<u64>) -> Standing {
        let Some(value) = Value::decode(&self.value.bytes) else { return Standing::Off };
        match (value.standing(host), conversation) {
            (Standing::Guarded, Some(key)) => value.session_standing(key, host),
            (standing, _) => standing,
        }
    }

    /// Scores a call and adds it to its window.
    pub fn score(
        &mut self,
        host: &impl Host,
        turn: &Turn,
        call: Call,
        limits: SlotLimits,
    ) -> Result<Scored, NotScored> {
        match turn.conversation.key() {
            None => self.score_in_common(host, turn, call),
            Some(_) => self.score_in_slot(host, turn, call, limits),
        }
    }

    fn score_in_common(&mut self, host: &impl Host, turn: &Turn, call: Call) -> Result<Scored, NotScored> {
        let scored = update_from(host, &self.key, std::mem::take(&mut self.value), |stored| {
            let value = match guarded(&stored.bytes, host) {
                Ok(value) => value,
                Err(reason) => return (None, Err(reason)),
            };
            self.record = value.record;
            let call = Call { treatment: Treatment::of(&turn.tool_hashes, value.tools), ..call };
            let mut window = self.record.window(value.window);
            let score = self.record.scorer().score(&mut window, call);
            let scored = Scored::new(&self.record, &window, score, &call);
            (Some(value.with_window(&window)), Ok(scored))
        });
        scored.unwrap_or(Err(NotScored::Contended))
    }

    fn score_in_slot(
        &mut self,
        host: &impl Host,
        turn: &Turn,
        call: Call,
        limits: SlotLimits,
    ) -> Result<Scored, NotScored> {
        let stored = host.get(&self.key);
        let value = guarded(&stored.bytes, host)?;
        let standing = value.session_standing(call.conversation, host);
        if standing != Standing::Guarded {
            return Err(NotScored::Standing(standing));
        }
        let record = value.record;
        let call = Call { treatment: Treatment::of(&turn.tool_hashes, value.tools), ..call };
        let slot_bytes = Window::max_bytes(record.window_size);
        let (slot, stored) = find_slot(host, self.id(), call.conversation, limits, slot_bytes);
        let scored = update_from(host, &slot, stored, |stored| {
            let mut window = record.slot(&stored.bytes);
            let common = || record.window(value.window);
            let score = record.scorer().score_in_slot(&mut window, common, call);
            let scored = Scored::new(&record, &window, score, &call);
            (Some(window.into_bytes()), scored)
        });
        self.record = record;
        self.slot = Some(slot);
        scored.ok_or(NotScored::Contended)
    }

    /// Attaches an answer to its call. Does nothing if the window is of another generation by now, or if the call has left
    /// it.
    pub fn attach_answer(&self, host: &impl Host, sequence: Sequence, answer: Answer, usage: Usage, now_ms: u64) {
        self.update_window(host, &|window| {
            if usage != Usage::default() {
                window.add_usage(sequence, usage);
            }
            self.record.scorer().attach_answer(window, sequence, answer, now_ms)
        });
    }

    /// Adds tokens that were stated after the answer was attached to its call.
    pub fn add_usage(&self, host: &impl Host, sequence: Sequence, usage: Usage) {
        self.update_window(host, &|window| {
            window.add_usage(sequence, usage);
            true
        });
    }

    /// Changes the window of the call. `change` returns whether there is anything to write, and so does this function.
    fn update_window(&self, host: &impl Host, change: &dyn Fn(&mut Window) -> bool) -> bool {
        let changed = match &self.slot {
            Some(slot) => update(host, slot, |stored| {
                let mut window = self.record.slot(&stored.bytes);
                let changed = change(&mut window);
                (changed.then(|| window.into_bytes()), changed)
            }),
            None => update(host, &self.key, |stored| {
                let Some(value) = Value::decode(&stored.bytes) else { return (None, false) };
                let mut window = self.record.window(value.window);
                let changed = change(&mut window);
                (changed.then(|| value.with_window(&window)), changed)
            }),
        };
        changed.unwrap_or(false)
    }

    /// Returns what a loop in this conversation stops.
    pub fn scope(&self, conversation: &Conversation) -> Scope {
        if conversation.key().is_some() { self.record.scope } else { Scope::Agent }
    }

    /// Acts on a loop, unless another worker has done so or the policy has changed in the meantime. The report of a kill is
    /// kept in the record.
    #[inline(never)] // so that it is compiled once
    pub fn trip(
        &self,
        host: &impl Host,
        scored: &Scored,
        conversation: &Conversation,
        reason: &str,
        report: &str,
    ) -> Trip {
        if scored.verdict == Verdict::WouldKill {
            // A fresh window for the conversation, so that one loop is reported once.
            let forget = |window: &mut Window| {
                let is_first = window.contains(scored.sequence);
                window.forget(conversation.tag());
                is_first
            };
            let is_first = self.update_window(host, &forget);
            return if is_first { Trip::Stopped { releases: 0 } } else { Trip::AlreadyStopped };
        }
        let stops_session = self.scope(conversation) == Scope::Session;
        let now_ms = host.steady_ms();
        let stop = |stored: &SharedValue| {
            let Some(value) = Value::decode(&stored.bytes) else { return (None, Trip::Outdated) };
            let now = value.record;
            if now.generation != self.record.generation {
                return (None, Trip::Outdated);
            }
            if !now.active || now.blocks != self.record.blocks {
                return (None, Trip::AlreadyStopped);
            }
            let mut details = value.details();
            if stops_session {
                return self.stop_session(&value, details, scored.verdict, conversation.tag(), reason, now_ms);
            }
            let record = match scored.verdict {
                Verdict::Allow | Verdict::WouldKill => return (None, Trip::Outdated),
                Verdict::Kill => {
                    report.clone_into(&mut details.report);
                    now.killed()
                }
                Verdict::Block => now.blocked(now_ms),
            };
            reason.clone_into(&mut details.reason);
            (Some(value.with_policy(&record, &details)), Trip::Stopped { releases: 0 })
        };
        let mut trip = Trip::Contended;
        let written = update_persistently(host, &self.key, |stored| {
            let (bytes, outcome) = stop(stored);
            trip = outcome;
            bytes
        });
        if written.is_none() {
            return Trip::Contended;
        }
        if let (true, Trip::Stopped { .. }) = (stops_session, trip) {
            self.update_window(host, &|window| {
                window.forget(conversation.tag());
                true
            });
        }
        trip
    }

    /// Adds the stop of a conversation to a value.
    fn stop_session(
        &self,
        value: &Value<'_>,
        mut details: Details,
        verdict: Verdict,
        conversation: u64,
        reason: &str,
        now_ms: u64,
    ) -> (Option<Vec<u8>>, Trip) {
        let known = details.stop(conversation);
        if known.is_some_and(|known| known.until_ms > now_ms) {
            return (None, Trip::AlreadyStopped);
        }
        let releases = known.map_or(0, |known| known.releases);
        let action = if verdict == Verdict::Block { Action::Block } else { Action::Deactivate };
        let until_ms = now_ms.saturating_add(value.record.stop_ms(action));
        let key = session_key(conversation);
        let reason = reason.to_owned();
        details.add_stop(StoppedSession { key, until_ms, stopped_for_ms: None, releases, action, reason });
        (Some(value.with_policy(&value.record, &details)), Trip::Stopped { releases })
    }
}

/// Decodes a value, if the requests of its agent are scored.
fn guarded<'a>(bytes: &'a [u8], host: &impl Host) -> Result<Value<'a>, NotScored> {
    let value = Value::decode(bytes).ok_or(NotScored::Deleted)?;
    match value.standing(host) {
        Standing::Guarded => Ok(value),
        standing => Err(NotScored::Standing(standing)),
    }
}

/// How long a report that the sidecar does not act upon is not sent again, in milliseconds.
const AGAIN_MS: u64 = 60_000;

/// Stores a policy that has arrived from the sidecar. Returns `None` if other workers wrote the record all the time.
///
/// If the policy says that the agent is active, and this Envoy has deactivated it in the same generation, the sidecar does
/// not know of the kill. In that case the report of the kill is returned, to be sent again. A policy of an *older*
/// generation than that of the kill does not end it either: it comes from a database that was restored from a backup.
pub fn store_policy(host: &impl Host, policy: &AgentPolicy, round: u32) -> Option<Option<String>> {
    let now = Now { clock_ms: host.now_ms(), steady_ms: host.steady_ms() };
    let mut unknown_kill = None;
    let stored = update_persistently(host, &agent_key(&policy.agent_id), |stored| {
        unknown_kill = None;
        let before = Value::decode(&stored.bytes);
        let known = before.as_ref().map(Value::details).unwrap_or_default();
        let is_newer = |record: &Record| record.is_killed() && record.generation > policy.generation;
        let newer = before.map(|value| value.record).filter(|record| is_newer(record) && !known.report.is_empty());
        let mut policy = Cow::Borrowed(policy);
        if let Some(killed) = newer {
            policy.to_mut().generation = killed.generation;
        }
        let mut record = Record::updated(before.as_ref().map(|value| &value.record), &policy, round);
        record.apply_block(&policy, now);
        let Some(value) = before else { return Some(record.encode(&Details::new(&policy, &record, now))) };
        let details = match value.record.generation == record.generation {
            true => known.updated(&policy, &record, now),
            false => Details::new(&policy, &record, now),
        };
        let is_unknown = (policy.active || newer.is_some()) && !record.active && !details.report.is_empty();
        let is_due = record.told_again_ms == 0 || now.steady_ms >= record.told_again_ms + AGAIN_MS;
        if is_unknown && is_due {
            record.told_again_ms = now.steady_ms;
            unknown_kill = Some(details.report.clone());
        }
        (value.record != record || known != details).then(|| value.with_policy(&record, &details))
    });
    stored.map(|()| unknown_kill)
}

/// Forgets an agent that the sidecar has deleted. Returns `None` if other workers wrote the record all the time.
pub fn delete(host: &impl Host, agent_id: &str) -> Option<()> {
    update_persistently(host, &agent_key(agent_id), |value| (!value.bytes.is_empty()).then(Vec::new))
}
