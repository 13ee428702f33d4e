//! What a policy says about single tools: `{"wait_for_job": "ignore", "get_status": 20}`.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How the calls of one tool are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolRule {
    /// They are never counted.
    Ignore,
    /// They are counted only if the same call with the same result comes this many times, the current one included.
    CountFrom(u32),
}

/// The word for [`ToolRule::Ignore`] in JSON.
pub const IGNORE: &str = "ignore";

impl Serialize for ToolRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Ignore => serializer.serialize_str(IGNORE),
            Self::CountFrom(times) => serializer.serialize_u32(*times),
        }
    }
}

impl<'de> Deserialize<'de> for ToolRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rule;

        impl Visitor<'_> for Rule {
            type Value = ToolRule;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"ignore\" or a whole number")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<ToolRule, E> {
                if word == IGNORE { Ok(ToolRule::Ignore) } else { Err(E::custom("unknown rule of a tool")) }
            }

            fn visit_u64<E: Error>(self, times: u64) -> Result<ToolRule, E> {
                Ok(ToolRule::CountFrom(u32::try_from(times).unwrap_or(u32::MAX)))
            }
        }

        deserializer.deserialize_any(Rule)
    }
}

/// The rules of an agent's tools, in the order of their names. A JSON object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRules(Vec<(String, ToolRule)>);

impl ToolRules {
    /// Sets the rule of a tool, or removes it.
    pub fn set(&mut self, tool: &str, rule: Option<ToolRule>) {
        self.0.retain(|(name, _)| name != tool);
        if let Some(rule) = rule {
            let place = self.0.iter().take_while(|(name, _)| name.as_str() < tool).count();
            self.0.insert(place, (tool.to_owned(), rule));
        }
    }

    /// Returns the rule of a tool, if it has one.
    pub fn get(&self, tool: &str) -> Option<ToolRule> {
        self.iter().find(|(name, _)| *name == tool).map(|(_, rule)| rule)
    }

    /// Returns the names of the tools and their rules.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, ToolRule)> {
        self.0.iter().map(|(name, rule)| (name.as_str(), *rule))
    }

    /// Whether no tool has a rule.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for ToolRules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for ToolRules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rules;

        impl<'de> Visitor<'de> for Rules {
            type Value = ToolRules;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tools")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ToolRules, A::Error> {
                let mut rules = Vec::new();
                while let Some(rule) = map.next_entry()? {
                    rules.push(rule);
                }
                Ok(ToolRules(rules))
            }
        }

        deserializer.deserialize_map(Rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_were_written_and_other_values_are_refused() {
        let json = r#"{"get_status":20,"wait_for_job":"ignore"}"#;
        let rules: ToolRules = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&rules).unwrap(), json);
        assert_eq!(rules.get("wait_for_job"), Some(ToolRule::Ignore));
        assert_eq!((rules.get("get_status"), rules.get("grep")), (Some(ToolRule::CountFrom(20)), None));
        for wrong in [r#"{"a": "never"}"#, r#"{"a": -1}"#, r#"{"a": 1.5}"#, r#"{"a": null}"#, "[]", "7"] {
            assert!(serde_json::from_str::<ToolRules>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rules_stay_in_the_order_of_their_names() {
        let mut rules = ToolRules::default();
        for (name, rule) in [("b", Some(ToolRule::Ignore)), ("c", None), ("a", Some(ToolRule::Ignore))] {
            rules.set(name, rule);
        }
        rules.set("b", Some(ToolRule::CountFrom(3)));
        let all: Vec<_> = rules.iter().collect();
        assert_eq!(all, [("a", ToolRule::Ignore), ("b", ToolRule::CountFrom(3))]);
        rules.set("a", None);
        rules.set("b", None);
        assert!(rules.is_empty());
    }
}
