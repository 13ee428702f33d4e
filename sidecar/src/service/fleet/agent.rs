//! The merged calls of one agent: its windows, the calls whose answers are awaited, and the score.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use agent_kill_switch::agent::record::{Record, session_key};
use agent_kill_switch::detect::progress::is_same_step;
use agent_kill_switch::detect::score::Score;
use agent_kill_switch::detect::tools::Treatment;
use agent_kill_switch::detect::verdict::{Verdict, decide};
use agent_kill_switch::detect::window::{Sequence, Window};
use agent_kill_switch::entries::Item;
use agent_kill_switch::wire::{Action, Counting, KillReport, ReportedSession, Scope};

use super::reported::{Arrival, End, Reported};
use crate::model::Millis;

/// The largest number of calls of one agent whose answers are awaited.
const MAX_OPEN: usize = 1_000;
/// The largest number of Envoys that are listed for one agent.
const MAX_ENVOYS: usize = 1_000;
/// The largest number of calls of one agent that wait for answers to identical ones.
const MAX_WAITING: usize = 100;
/// How long after its last call an Envoy still counts as serving an agent.
pub(super) const SERVING_MS: Millis = 300_000;
/// How long a call waits for the answer to an identical one.
const PATIENCE_MS: Millis = 2_000;

/// The part of an agent's calls that one Envoy saw.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) envoy: Arc<str>,
    /// The score of the latest call in the Envoy's own window, in points.
    pub(super) score: f64,
    pub(super) last_ms: Millis,
}

/// A call whose answer is awaited.
pub(super) struct Open {
    sender: Arc<str>,
    number: u32,
    conversation: Option<u64>,
    sequence: Sequence,
}

pub(super) struct MergedWindow {
    window: Window,
    /// The latest calls. Some of them may have left the window.
    seen: VecDeque<Seen>,
    pub(super) last_use: u64,
}

/// A call in a window, and the Envoy that saw it.
struct Seen {
    sequence: Sequence,
    /// The conversation that the call belongs to or begins.
    conversation: u64,
    envoy: Arc<str>,
}

/// What is known about calls that are identical to one that has arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Identical {
    /// None was under way at the same time.
    None,
    /// One was under way at the same time.
    Parallel,
    /// The answer to one has not arrived, so it may have been.
    Unanswered,
}

/// Whether a call waits for the answer to an identical one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Waits,
    /// It has waited for long enough. The detector takes the two for one.
    IsOver,
}

/// One agent.
pub(super) struct MergedAgent {
    agent_id: String,
    pub(super) record: Record,
    pub(super) parts: Vec<Part>,
    /// The latest score that the merged calls got.
    pub(super) score: Option<Score>,
    /// By conversation. `None` is the common window.
    pub(super) windows: HashMap<Option<u64>, MergedWindow>,
    pub(super) open: VecDeque<Open>,
    /// Calls that wait for the answer to an identical one.
    waiting: Vec<Arrival>,
}

/// A loop that several Envoys have seen parts of.
#[derive(Clone, Debug)]
pub(super) struct Trip {
    pub(super) report: KillReport,
    /// How many of the calls in the window each Envoy saw.
    pub(super) calls: Vec<(Arc<str>, usize)>,
}

impl MergedAgent {
    pub(super) fn new(agent_id: &str, record: Record) -> Self {
        Self {
            agent_id: agent_id.to_owned(),
            record,
            parts: Vec::new(),
            score: None,
            windows: HashMap::new(),
            open: VecDeque::new(),
            waiting: Vec::new(),
        }
    }

    /// Whether the calls of a report are judged.
    pub(super) fn is_current(&self, reported: &Reported<'_>) -> bool {
        self.record.generation == reported.generation && self.record.enabled && self.record.active
    }

    /// Forgets the calls of a conversation, or of all. Returns how many windows are gone.
    pub(super) fn forget(&mut self, conversation: Option<u64>) -> usize {
        let before = self.windows.len();
        if conversation.is_some() {
            self.windows.remove(&conversation);
        } else {
            self.windows.clear();
            self.open.clear();
            self.score = None;
        }
        self.waiting.retain(|arrival| conversation.is_some() && arrival.conversation != conversation);
        before - self.windows.len()
    }

    /// Notes that an Envoy has seen a call.
    pub(super) fn see(&mut self, reported: &Reported<'_>, item: &Item) {
        let score = (item.call.treatment != Treatment::Ignored).then(|| f64::from(item.half_points) / 2.0);
        let last_ms = reported.arrived_ms;
        match self.parts.iter_mut().find(|part| part.envoy == reported.envoy) {
            Some(part) => (part.score, part.last_ms) = (score.unwrap_or(part.score), last_ms),
            None => {
                self.parts.retain(|part| last_ms.abs_diff(part.last_ms) < SERVING_MS);
                self.parts.truncate(MAX_ENVOYS - 1);
                let (envoy, score) = (Arc::clone(&reported.envoy), score.unwrap_or_default());
                self.parts.push(Part { envoy, score, last_ms });
            }
        }
    }

    /// Makes the window of a conversation, if there is none, and notes that it was used.
    ///
    /// A conversation that is new here takes the call with which it began from the common window.
    pub(super) fn use_window(&mut self, conversation: Option<u64>, last_use: u64) {
        if let Some(merged) = self.windows.get_mut(&conversation) {
            merged.last_use = last_use;
            return;
        }
        let (mut window, mut seen) = (self.empty_window(conversation), VecDeque::new());
        if let (Some(key), Some(common)) = (conversation, self.windows.get(&None)) {
            window.adopt_opening(|| common.window.clone(), key, self.record.window_size);
            let opening = common.seen.iter().rfind(|seen| seen.conversation == key);
            // It has the first number, if it was still in the common window.
            seen.extend(opening.map(|seen| Seen {
                sequence: Sequence(0),
                conversation: key,
                envoy: Arc::clone(&seen.envoy),
            }));
        }
        self.windows.insert(conversation, MergedWindow { window, seen, last_use });
    }

    fn empty_window(&self, conversation: Option<u64>) -> Window {
        let (generation, counting) = (self.record.window_generation(), self.record.counting);
        match conversation {
            Some(_) => Window::decode_slot(&[], generation, counting),
            None => Window::empty(generation, counting),
        }
    }

    /// Attaches an answer, if its call is known, and adds the calls that have waited for it. Returns the first loop that
    /// they complete.
    pub(super) fn answer(&mut self, reported: &Reported<'_>, item: &Item) -> Option<Trip> {
        let end = reported.end(item);
        let is_waiting = |known: &&mut Arrival| known.number == item.number && known.sender == reported.sender;
        if let Some(waiting) = self.waiting.iter_mut().find(is_waiting) {
            waiting.end = Some(end);
            return None;
        }
        let is_open = |open: &Open| open.number == item.number && open.sender == reported.sender;
        let open = self.open.iter().rposition(is_open).and_then(|index| self.open.remove(index))?;
        self.attach(open.conversation, open.sequence, end);
        let (ready, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|known| known.conversation == open.conversation);
        self.waiting = waiting;
        self.add_all(ready, Patience::Waits)
    }

    fn attach(&mut self, conversation: Option<u64>, sequence: Sequence, end: End) {
        if let Some(merged) = self.windows.get_mut(&conversation) {
            merged.window.add_usage(sequence, end.usage);
            self.record.scorer().attach_answer(&mut merged.window, sequence, end.answer, end.at_ms);
        }
    }

    /// Adds the calls that have waited for too long.
    pub(super) fn lose_patience(&mut self, now_ms: Millis) -> Option<Trip> {
        if self.waiting.is_empty() {
            return None;
        }
        let (ready, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|known| now_ms.saturating_sub(known.arrived_ms) > PATIENCE_MS);
        self.waiting = waiting;
        self.add_all(ready, Patience::IsOver)
    }

    fn add_all(&mut self, arrivals: Vec<Arrival>, patience: Patience) -> Option<Trip> {
        arrivals.into_iter().find_map(|arrival| self.add(arrival, patience))
    }

    /// Adds a call to its window and scores it, unless it counts as one with an identical call, or waits for its answer.
    pub(super) fn add(&mut self, arrival: Arrival, patience: Patience) -> Option<Trip> {
        let (record, scorer) = (self.record, self.record.scorer());
        let merged = self.windows.get_mut(&arrival.conversation)?;
        if record.counting == Counting::Progress {
            match merged.identical(&arrival, record.window_size) {
                Identical::Parallel => return None,
                Identical::Unanswered if patience == Patience::Waits => {
                    if self.waiting.len() >= MAX_WAITING {
                        self.waiting.remove(0);
                    }
                    self.waiting.push(arrival);
                    return None;
                }
                Identical::Unanswered | Identical::None => {}
            }
        }
        let (score, sequence) = scorer.score(&mut merged.window, arrival.call);
        // What is not counted is no part of a loop, and has no score.
        if arrival.call.treatment != Treatment::Ignored {
            let (conversation, envoy) = (arrival.call.conversation, Arc::clone(&arrival.envoy));
            merged.seen.push_back(Seen { sequence, conversation, envoy });
            if merged.seen.len() > record.window_size as usize {
                merged.seen.pop_front();
            }
            self.score = Some(score);
        }
        let verdict = decide(&score, record.threshold, record.action);
        if verdict != Verdict::Allow
            && let Some(trip) = self.trip(&arrival, score, verdict)
        {
            return Some(trip);
        }
        let Arrival { sender, number, conversation, end, .. } = arrival;
        match end {
            Some(end) => self.attach(conversation, sequence, end),
            None => {
                if self.open.len() >= MAX_OPEN {
                    self.open.pop_front();
                }
                self.open.push_back(Open { sender, number, conversation, sequence });
            }
        }
        None
    }

    /// Returns the loop that a call completes, unless one Envoy has seen all of it: that Envoy judges it itself.
    fn trip(&mut self, arrival: &Arrival, score: Score, verdict: Verdict) -> Option<Trip> {
        let (record, conversation) = (self.record, arrival.conversation);
        let merged = self.windows.get_mut(&conversation)?;
        let calls = merged.calls_by_envoy();
        if calls.len() < 2 {
            return None;
        }
        let (reason, matches) = record.scorer().explain(&merged.window, &[]);
        let (loop_calls, loop_usage) = record.scorer().cost(&merged.window);
        let scope = if conversation.is_some() { record.scope } else { Scope::Agent };
        let report = KillReport {
            // The same at every replica, since all of them merge in the same order.
            kill_id: format!("fleet-{}-{}", arrival.sender, arrival.number),
            agent_id: self.agent_id.clone(),
            generation: record.generation,
            action: if verdict == Verdict::WouldKill { Action::Observe } else { record.action },
            paused: false,
            scope,
            session: conversation.map(|key| ReportedSession { key: session_key(key), id: None, releases: 0 }),
            envoy: names(&calls),
            at_ms: arrival.arrived_ms,
            score: score.value(),
            threshold: record.threshold,
            window_size: record.window_size,
            counting: record.counting,
            signals: score.signals,
            reason: format!("{reason}, spread over {} Envoys", calls.len()),
            repetition: None,
            tools: Vec::new(),
            matches,
            loop_calls,
            loop_usage,
            excerpt: None,
            waited_ms: None,
        };
        self.stop(verdict, scope, conversation);
        Some(Trip { report, calls })
    }

    /// Starts afresh after a loop, so that one loop is reported once.
    fn stop(&mut self, verdict: Verdict, scope: Scope, conversation: Option<u64>) {
        let is_whole = scope == Scope::Agent && verdict != Verdict::WouldKill;
        let is_over = |key: Option<u64>| is_whole || key == conversation;
        for key in self.windows.keys().copied().filter(|key| is_over(*key)).collect::<Vec<_>>() {
            let window = self.empty_window(key);
            if let Some(merged) = self.windows.get_mut(&key) {
                merged.window = window;
                merged.seen.clear();
            }
        }
        self.waiting.retain(|arrival| !is_over(arrival.conversation));
        // Until the policy says otherwise.
        self.record.active = !(is_whole && verdict == Verdict::Kill);
    }
}

impl MergedWindow {
    /// Finds out whether an identical call was or may have been under way at the same time as this one.
    fn identical(&self, arrival: &Arrival, size: u32) -> Identical {
        let call = &arrival.call;
        let end_ms = arrival.end.map_or(Millis::MAX, |end| end.at_ms);
        let mut found = Identical::None;
        for past in self.window.past(call.conversation, size as usize).with_similar_input(call.input) {
            let past_end_ms = past.at_ms.saturating_add(Millis::from(past.took_ms));
            if !is_same_step(&past, call) || past.at_ms >= end_ms {
                continue;
            }
            if past.is_in_flight(call.at_ms) {
                found = Identical::Unanswered;
            } else if call.at_ms < past_end_ms {
                return Identical::Parallel;
            }
        }
        found
    }

    /// Counts how many of the calls in the window each Envoy saw.
    fn calls_by_envoy(&mut self) -> Vec<(Arc<str>, usize)> {
        let window = &self.window;
        self.seen.retain(|seen| window.contains(seen.sequence));
        let mut calls = BTreeMap::<_, usize>::new();
        for seen in &self.seen {
            *calls.entry(Arc::clone(&seen.envoy)).or_default() += 1;
        }
        calls.into_iter().collect()
    }
}

/// Names the Envoys of a loop.
fn names(calls: &[(Arc<str>, usize)]) -> String {
    calls.iter().map(|(envoy, _)| &**envoy).collect::<Vec<_>>().join(", ")
}
