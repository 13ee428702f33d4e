//! A rule of a policy file, for agents that the file does not name.

use serde_json::{Map, Value};

/// What an agent gets when traffic creates it, if its id matches a pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyRule {
    /// The name of the policy file.
    pub file: String,
    /// An agent's id, in which `*` stands for any characters, `/` and none included.
    pub pattern: String,
    /// The settings, under the names that policy files use. Those that are absent have their defaults.
    pub settings: Map<String, Value>,
}

impl PolicyRule {
    /// Whether the rule applies to this agent.
    pub fn matches(&self, agent_id: &str) -> bool {
        let Some((first, rest)) = self.pattern.split_once('*') else { return self.pattern == agent_id };
        let Some(mut left) = agent_id.strip_prefix(first) else { return false };
        let mut pieces: Vec<_> = rest.split('*').collect();
        let last = pieces.pop().unwrap_or_default();
        // The earliest place of each piece leaves the most for those that follow.
        for piece in pieces {
            let Some((_, after)) = left.split_once(piece) else { return false };
            left = after;
        }
        left.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, matching, others) in [
            ("*", &["a", "team-a/b/c"][..], &[][..]),
            ("team-a/*", &["team-a/x", "team-a/x/y", "team-a/"], &["team-a", "team-ab/x", "my/team-a/x"]),
            ("*-prod", &["a-prod", "-prod"], &["a-prod-2", "prod"]),
            ("a*b*c", &["abc", "a-b-b-c", "abbc"], &["ab", "acb", "xabc"]),
            ("a*ab", &["aab", "a-ab"], &["ab"]),
            ("a**b", &["ab", "a-b"], &["a"]),
            ("exact", &["exact"], &["exactly", "inexact"]),
        ] {
            let rule = PolicyRule { file: String::new(), pattern: pattern.to_owned(), settings: Map::new() };
            assert!(matching.iter().all(|id| rule.matches(id)), "{pattern} {matching:?}");
            assert!(!others.iter().any(|id| rule.matches(id)), "{pattern} {others:?}");
        }
    }
}
