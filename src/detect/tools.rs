//! Tools whose calls a policy counts differently: never, or only from a number of times on.
//!
//! This is for agents that wait. One that asks every ten seconds whether a job is done repeats itself and is healthy, and
//! only its operator knows that.
//!
//! Tools are compared by the hashes of their names, so that a stored rule has a fixed length.

use crate::fingerprint::hash_bytes;
use crate::policy::{MAX_TOOLS, MIN_TOOL_COUNT};
use crate::wire::{ToolRule, ToolRules};

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
    /// Returns how a call is counted that is about the tools with these hashes of their names.
    ///
    /// It is ignored if all of its tools are. Otherwise the tool with the smallest number decides, and a tool without a rule
    /// is counted from the first call on.
    pub fn of(called: impl Iterator<Item = u64>, rules: &[StoredRule]) -> Self {
        if rules.is_empty() {
            return Self::Usual;
        }
        let mut treatment = Self::Usual;
        for name in called {
            let known = rules.iter().find(|rule| rule.starts_with(&name.to_le_bytes()));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(window_size: u32, json: &str) -> Vec<StoredRule> {
        encode(&serde_json::from_str(json).unwrap(), window_size)
    }

    fn treatment(tools: &[&str], rules: &[StoredRule]) -> Treatment {
        Treatment::of(tools.iter().map(|name| hash_bytes(name.as_bytes())), rules)
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
