//! Tools whose calls a policy counts differently: never, or only from a number of times on.
//!
//! This is for agents that wait. One that asks every ten seconds whether a job is done repeats itself and is healthy, and
//! only its operator knows that.
//!
//! Tools are compared by the hashes of their names, so that a stored rule has a fixed length.
//!
//! An ignored call is forwarded without a score. Its window keeps only that it was there, in one place for all of them: the
//! agent was not silent, and if the model calls tools in its answer, the next results belong to these.

use super::score::{Score, Scorer};
use super::window::{Call, Sequence, Window};
use crate::fingerprint::hash_bytes;
use crate::policy::{MAX_TOOLS, MIN_TOOL_COUNT};
use crate::turn::{ToolHash, ToolTurn};
use crate::wire::{Counting, ToolRule, ToolRules};

/// The length of a stored rule: the hash of the tool's name, and the number of times from which its calls are counted.
pub const RULE_BYTES: usize = 9;

/// The number of a tool that is ignored.
const NEVER: u8 = 0;

/// One stored rule.
pub type StoredRule = [u8; RULE_BYTES];

/// Encodes the rules of a policy. Numbers that can never be reached in the window are limited to its size.
pub fn encode(rules: &ToolRules, window_size: u32) -> Vec<StoredRule> {
    let mut stored = Vec::with_capacity(rules.iter().len().min(MAX_TOOLS));
    for (name, rule) in rules.iter().take(MAX_TOOLS) {
        let count_from = match rule {
            ToolRule::Ignore => NEVER,
            ToolRule::CountFrom(times) => u8::try_from(times.min(window_size).max(MIN_TOOL_COUNT)).unwrap_or(u8::MAX),
        };
        let [a, b, c, d, e, f, g, h] = hash_bytes(name.as_bytes()).to_le_bytes();
        stored.push([a, b, c, d, e, f, g, h, count_from]);
    }
    stored
}

/// How a call is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Treatment {
    /// Like every call.
    #[default]
    Usual,
    /// Not at all.
    Ignored,
    /// Only if it comes this many times in the window, the current one included.
    CountedFrom(u32),
}

impl Treatment {
    /// Returns a number for each way to count: 0 for the usual one, 1 for not at all, and otherwise the number of times.
    pub fn code(self) -> u8 {
        match self {
            Self::Usual => 0,
            Self::Ignored => 1,
            Self::CountedFrom(times) => times.clamp(MIN_TOOL_COUNT, 255) as u8,
        }
    }

    /// Returns the way to count that has this number.
    pub fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Usual,
            1 => Self::Ignored,
            times => Self::CountedFrom(u32::from(times)),
        }
    }

    /// Returns how a call is counted that is about these calls of tools.
    ///
    /// It is ignored if all of its tools are. Otherwise the tool with the smallest number decides, and a tool without a rule
    /// is counted from the first call on.
    pub fn of(called: &[ToolHash], rules: &[StoredRule]) -> Self {
        if rules.is_empty() {
            return Self::Usual;
        }
        let mut treatment = Self::Usual;
        for hash in called {
            let known = rules.iter().find(|rule| rule.starts_with(&hash.name.to_le_bytes()));
            treatment = match (known, treatment) {
                (None, _) => return Self::Usual,
                (Some(&[.., NEVER]), Self::Usual) => Self::Ignored,
                (Some(&[.., NEVER]), treatment) => treatment,
                (Some(&[.., times]), Self::CountedFrom(least)) => Self::CountedFrom(least.min(u32::from(times))),
                (Some(&[.., times]), _) => Self::CountedFrom(u32::from(times)),
            };
        }
        treatment
    }
}

impl Scorer {
    /// Adds a call that is not counted.
    #[cold] // keeps this out of the code that every request runs through
    pub(super) fn pass_by(&self, window: &mut Window, call: Call) -> Sequence {
        if self.counting == Counting::Progress {
            self.end_silent_run(window, &call);
        }
        window.forget_ignored(call.conversation);
        window.push(call.ignored(), self.window_size)
    }

    /// Forgets the calls before `call` if they belong to a run that is over.
    pub(super) fn end_silent_run(&self, window: &mut Window, call: &Call) {
        let idle_ms = u64::from(self.idle_reset_seconds) * 1000;
        if idle_ms > 0 && self.past(window, call).is_silent(call.at_ms, idle_ms) {
            window.forget(call.conversation);
        }
    }

    /// Returns the score of a call, or nothing if its tools are counted only from more times on than it comes.
    pub(super) fn counted(&self, window: &Window, call: &Call, score: Score) -> Score {
        match call.treatment {
            Treatment::CountedFrom(least) if !self.comes(least, window, call) => Score::default(),
            _ => score,
        }
    }

    /// Whether a call comes as many times, the current one included. A call that is not about tools always does.
    #[cold]
    fn comes(&self, least: u32, window: &Window, call: &Call) -> bool {
        let past = self.past(window, call).calls();
        let times = 1 + self.repeats(&past, call).filter(|repeat| repeat.tool.is_some()).count();
        // An ignored call takes one place of the window.
        let places = self.window_size - u32::from(window.has_ignored(call.conversation));
        call.tools == ToolTurn::None || times >= least.min(places) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(window_size: u32, json: &str) -> Vec<StoredRule> {
        encode(&serde_json::from_str(json).unwrap(), window_size)
    }

    fn treatment(tools: &[&str], rules: &[StoredRule]) -> Treatment {
        let called: Vec<_> = tools.iter().map(|name| ToolHash { name: hash_bytes(name.as_bytes()), call: 0 }).collect();
        Treatment::of(&called, rules)
    }

    #[test]
    fn a_call_is_ignored_only_with_all_of_its_tools_and_the_smallest_number_decides() {
        let rules = stored(20, r#"{"wait": "ignore", "sleep": "ignore", "status": 20, "poll": 8}"#);
        for (tools, expected) in [
            (&[][..], Treatment::Usual),
            (&["grep"], Treatment::Usual),
            (&["wait"], Treatment::Ignored),
            (&["wait", "sleep"], Treatment::Ignored),
            (&["wait", "grep"], Treatment::Usual),
            (&["grep", "wait"], Treatment::Usual),
            (&["status"], Treatment::CountedFrom(20)),
            (&["status", "poll"], Treatment::CountedFrom(8)),
            (&["poll", "status"], Treatment::CountedFrom(8)),
            (&["wait", "poll"], Treatment::CountedFrom(8)),
            (&["poll", "wait"], Treatment::CountedFrom(8)),
            (&["poll", "grep"], Treatment::Usual),
        ] {
            assert_eq!(treatment(tools, &rules), expected, "{tools:?}");
        }
        assert_eq!(treatment(&["wait"], &[]), Treatment::Usual, "the policy has no rules");
    }

    #[test]
    fn a_number_is_never_out_of_reach_and_the_number_of_rules_is_bounded() {
        for (given, window_size, count_from) in
            [(0, 20, 2), (1, 20, 2), (20, 20, 20), (21, 20, 20), (u32::MAX, 100, 100)]
        {
            let rules = stored(window_size, &format!(r#"{{"status": {given}}}"#));
            assert_eq!(treatment(&["status"], &rules), Treatment::CountedFrom(count_from), "{given} of {window_size}");
        }
        let many: Vec<_> = (0..100).map(|number| format!(r#""tool{number}": 5"#)).collect();
        assert_eq!(stored(20, &format!("{{{}}}", many.join(","))).len(), MAX_TOOLS);
    }
}
