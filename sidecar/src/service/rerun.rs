//! Runs stored calls through the filter's own detector again, with the settings that were in force or with others.
//!
//! Pure: no store and no clock. Every Envoy has windows of its own, as in reality, and if several Envoys have reported
//! calls, all of them together have windows as well, as in the [merger](super::fleet). An activation raises the generation
//! and so clears all windows, and a loop starts afresh as it does in the filter.
//!
//! The times of calls are those of the steady clock of their Envoy. The clocks of several Envoys are brought together by
//! the times at which their reports arrived. Calls of one Envoy are ordered by its clock and by their numbers, calls of
//! several by the time at which they came as the sidecar knows it.
//!
//! Known inaccuracies: in an Envoy, conversations share a bounded number of slots; calls that were refused are not
//! reported; and a call does not say which tool it is about, so that rules of tools are applied only to calls whose tool a
//! kill has named. Other calls are counted as they were counted in their Envoy.

use std::collections::{BTreeMap, HashMap};

use agent_kill_switch::agent::record::Record;
use agent_kill_switch::detect::score::Score;
use agent_kill_switch::detect::tools::{StoredRule, Treatment, encode};
use agent_kill_switch::detect::window::{Call, Window};
use agent_kill_switch::detect::windows::{Place, Windows};
use agent_kill_switch::fingerprint::hash_bytes;
use agent_kill_switch::turn::{Answer, Conversation, ToolHash, ToolSignature};
use agent_kill_switch::wire::{Action, AgentPolicy, Match, Scope};

use crate::model::{Millis, StoredCall};

/// How far the clocks of an Envoy and of the sidecar may drift apart before the Envoy counts as started again.
const MAX_DRIFT_MS: u64 = 5_000;

/// The names of tools by the signature of their calls, as far as kills have told them.
pub(super) type ToolNames = HashMap<u64, Vec<String>>;

/// Calls in the order in which the detector saw them, with times that can be compared.
pub(super) struct Ordered {
    pub(super) calls: Vec<StoredCall>,
    /// Whether several Envoys have reported them.
    pub(super) is_spread: bool,
}

impl Ordered {
    /// Orders calls that are in the order of the sidecar's times.
    pub(super) fn new(mut calls: Vec<StoredCall>) -> Self {
        // The difference of the two clocks, for each start of an Envoy.
        let mut clocks: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        let mut starts = Vec::with_capacity(calls.len());
        for call in &calls {
            let difference = call.at_ms.cast_signed().wrapping_sub(call.item.call.at_ms.cast_signed());
            let known = clocks.entry(call.envoy.clone()).or_default();
            match known.last_mut() {
                // The report that took the least time on its way tells the difference best.
                Some(latest) if latest.abs_diff(difference) <= MAX_DRIFT_MS => {
                    *latest = difference.min(*latest);
                }
                _ => known.push(difference),
            }
            starts.push(known.len() - 1);
        }
        for (call, start) in calls.iter_mut().zip(starts) {
            let difference = clocks.get(&call.envoy).and_then(|known| known.get(start)).copied().unwrap_or_default();
            let ours = |envoy_ms: Millis| envoy_ms.saturating_add_signed(difference);
            call.at_ms = ours(call.item.call.at_ms);
            call.end = call.end.map(|(answer, end_ms)| (answer, ours(end_ms)));
        }
        calls.sort_by_key(|call| (call.at_ms, call.item.number));
        Self { calls, is_spread: clocks.len() > 1 }
    }
}

/// What the detector says about a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged {
    /// The score among the calls of its own Envoy.
    pub(super) own: Score,
    /// The score among the calls of all Envoys, if there are several.
    pub(super) merged: Option<Score>,
    /// Who recognises a loop, if there is one.
    pub(super) seen_by: Option<SeenBy>,
}

impl Judged {
    /// Returns the score that decides, or else the higher one.
    pub(super) fn score(&self) -> Score {
        match (self.seen_by, self.merged) {
            (Some(SeenBy::Envoy), _) | (_, None) => self.own,
            (Some(SeenBy::Fleet), Some(merged)) => merged,
            (None, Some(merged)) if merged.half_points > self.own.half_points => merged,
            (None, Some(_)) => self.own,
        }
    }
}

/// Who recognises a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeenBy {
    /// The Envoy that received the call.
    Envoy,
    /// The sidecar, in the calls of several Envoys.
    Fleet,
}

struct Open {
    end_ms: Millis,
    answer: Answer,
    call: usize,
    place: Place,
    merged: Option<Place>,
}

/// A rerun of calls.
pub(super) struct Rerun<'a> {
    ordered: &'a Ordered,
    record: Record,
    rules: Vec<StoredRule>,
    names: &'a ToolNames,
    own: HashMap<&'a str, Windows>,
    merged: Windows,
    open: Vec<Open>,
    generation: u64,
}

impl<'a> Rerun<'a> {
    /// Creates a rerun with the settings of a policy.
    pub(super) fn new(ordered: &'a Ordered, policy: &AgentPolicy, names: &'a ToolNames) -> Self {
        let record = Record::new(policy, 0);
        Self {
            ordered,
            record,
            rules: encode(&policy.tools, record.window_size),
            names,
            own: HashMap::new(),
            merged: Windows::new(record.scorer()),
            open: Vec::new(),
            generation: 0,
        }
    }

    /// Judges the call at `index`. Calls must be judged in their order.
    pub(super) fn judge(&mut self, index: usize) -> Judged {
        let Some(stored) = self.ordered.calls.get(index) else {
            return Judged { own: Score::default(), merged: None, seen_by: None };
        };
        if stored.generation != self.generation {
            self.forget_all();
            self.generation = stored.generation;
        }
        self.attach_until(stored.at_ms);
        let treatment = self.treatment(&stored.item.call);
        let call = Call { at_ms: stored.at_ms, answer: Answer::Unknown, treatment, ..stored.item.call };
        let conversation = stored.conversation();
        let new = || Windows::new(self.record.scorer());
        let (own, place) = self.own.entry(&stored.envoy).or_insert_with(new).score(&conversation, call);
        let merged = self.ordered.is_spread.then(|| self.merged.score(&conversation, call));
        if let Some((answer, end_ms)) = stored.end {
            let merged = merged.map(|(_, place)| place);
            self.open.push(Open { end_ms, answer, call: index, place, merged });
        }
        let merged = merged.map(|(score, _)| score);
        let threshold = self.record.threshold;
        let seen_by = if own.exceeds(threshold) {
            Some(SeenBy::Envoy)
        } else {
            let is_loop = merged.is_some_and(|score| score.exceeds(threshold)) && self.is_spread_loop(index);
            is_loop.then_some(SeenBy::Fleet)
        };
        Judged { own, merged, seen_by }
    }

    /// Starts afresh after a loop that the call at `index` has completed, as far as the filter does.
    pub(super) fn act(&mut self, index: usize, seen_by: SeenBy) {
        let Some(stored) = self.ordered.calls.get(index) else { return };
        let conversation = stored.conversation();
        let scope = if conversation.key().is_some() { self.record.scope } else { Scope::Agent };
        match (self.record.action, scope) {
            (Action::Deactivate, Scope::Agent) => self.forget_all(),
            // A block that one Envoy decides alone stays local to it.
            (Action::Block, Scope::Agent) if seen_by == SeenBy::Envoy => {
                self.own.remove(stored.envoy.as_str());
                self.merged = Windows::new(self.record.scorer());
                let of_another =
                    |open: &Open| self.ordered.calls.get(open.call).is_some_and(|call| call.envoy != stored.envoy);
                self.open.retain(of_another);
                // Their calls are not in the new window.
                self.open.iter_mut().for_each(|open| open.merged = None);
            }
            (Action::Block, Scope::Agent) => self.forget_all(),
            (Action::Observe, _) | (_, Scope::Session) => {
                self.merged.forget(&conversation);
                // Envoys hear of what the sidecar stops, and not of what it observes.
                let is_meant = |envoy: &str| match seen_by {
                    SeenBy::Envoy => envoy == stored.envoy,
                    SeenBy::Fleet => self.record.action != Action::Observe,
                };
                for (_, windows) in self.own.iter_mut().filter(|(envoy, _)| is_meant(envoy)) {
                    windows.forget(&conversation);
                }
            }
        }
    }

    fn forget_all(&mut self) {
        self.own.clear();
        self.merged = Windows::new(self.record.scorer());
        self.open.clear();
    }

    /// Attaches the answers that had ended by then.
    fn attach_until(&mut self, now_ms: Millis) {
        let (mut ended, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|open| open.end_ms <= now_ms);
        self.open = open;
        ended.sort_by_key(|open| open.end_ms);
        for Open { end_ms, answer, call, place, merged } in ended {
            let Some(stored) = self.ordered.calls.get(call) else { continue };
            if let Some(windows) = self.own.get_mut(stored.envoy.as_str()) {
                windows.attach_answer(place, answer, end_ms);
            }
            if let Some(place) = merged {
                self.merged.attach_answer(place, answer, end_ms);
            }
        }
    }

    /// Returns how a call is counted: by the rules, if it is known which tools the call is about, and otherwise as it was
    /// counted in its Envoy.
    fn treatment(&self, call: &Call) -> Treatment {
        let Some(names) = self.names.get(&ToolSignature::code(call.tools.signature())) else { return call.treatment };
        let hash = |name: &String| ToolHash { name: hash_bytes(name.as_bytes()), call: 0 };
        let called: Vec<_> = names.iter().map(hash).collect();
        Treatment::of(&called, &self.rules)
    }

    /// Returns the window in which the call at `index` was just judged.
    fn window(&self, index: usize, seen_by: SeenBy) -> Option<&Window> {
        let stored = self.ordered.calls.get(index)?;
        let conversation: Conversation = stored.conversation();
        match seen_by {
            SeenBy::Envoy => self.own.get(stored.envoy.as_str()).map(|windows| windows.window(&conversation)),
            SeenBy::Fleet => Some(self.merged.window(&conversation)),
        }
    }

    /// Returns the calls in the window in which the call at `index` was just judged, oldest first.
    pub(super) fn calls_in_window(&self, index: usize, seen_by: SeenBy) -> Vec<usize> {
        let Some(window) = self.window(index, seen_by) else { return Vec::new() };
        let mut next = index + 1;
        let mut found = Vec::new();
        for call in window.calls().iter().rev() {
            let is_it = |stored: &StoredCall| {
                let own = &stored.item.call;
                let is_same = own.input == call.input || call.is_ignored();
                stored.at_ms == call.at_ms && is_same && own.conversation == call.conversation
            };
            let before = self.ordered.calls.get(..next).unwrap_or_default();
            // A call without its entry cannot happen; the number of those after it must stay right nevertheless.
            next = before.iter().rposition(is_it).unwrap_or(next.saturating_sub(1));
            found.push(next);
        }
        found.reverse();
        found
    }

    /// Returns what the call at `index`, which was just judged, repeats: the past calls, the latest first.
    pub(super) fn repeats(&self, index: usize, seen_by: SeenBy) -> Vec<(usize, Match)> {
        let Some(window) = self.window(index, seen_by) else { return Vec::new() };
        let matches = self.record.scorer().matches(window);
        if matches.is_empty() {
            return Vec::new();
        }
        let calls = self.calls_in_window(index, seen_by);
        let place =
            |one: &Match| calls.len().checked_sub(one.calls_ago as usize + 1).and_then(|place| calls.get(place));
        matches.into_iter().filter_map(|one| Some((*place(&one)?, one))).collect()
    }

    /// Whether calls of several Envoys are in the window of all of them.
    fn is_spread_loop(&self, index: usize) -> bool {
        let calls = self.calls_in_window(index, SeenBy::Fleet);
        let mut envoys = calls.iter().filter_map(|call| self.ordered.calls.get(*call)).map(|call| &call.envoy);
        let first = envoys.next();
        envoys.any(|envoy| Some(envoy) != first)
    }
}

#[cfg(test)]
pub(super) mod tests;
