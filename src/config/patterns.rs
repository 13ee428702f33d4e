//! The operator's own normalisation patterns: `patterns`, each a regular expression and the placeholder it becomes.
//!
//! Compiled here, once, so that a bad one is refused with its index and never met by a request. regex-lite: linear in
//! the text whatever the pattern, and a fraction of the size of the full crate. Applying them is the normaliser's work.

use super::error::ConfigError;
use super::fields::{PATTERN, PATTERN_FIELDS, PATTERNS, PLACEHOLDER};
use super::json::Json;
use super::object::{Object, invalid};
use crate::fingerprint::patterns::Pattern;
use regex_lite::{Regex, RegexBuilder};

/// How much memory one compiled pattern may take: a bounded repetition of a bounded repetition grows quickly.
const SIZE_LIMIT: usize = 256 << 10;

/// Text with every pair of neighbours that an assertion can tell apart: nothing, a word, a space, either line ending.
const NEIGHBOURS: [&str; 4] = ["", "a", "\n", " aa  a\na \n\n\r\na\r \r\r"];

/// The patterns, in the order in which they are tried.
pub(super) fn patterns(config: &Object) -> Result<Vec<Pattern>, ConfigError> {
    let items = config.list(&PATTERNS)?.unwrap_or_default();
    items.iter().enumerate().map(|(index, item)| pattern(index, item)).collect()
}

fn pattern(index: usize, item: &Json) -> Result<Pattern, ConfigError> {
    let object = Object::item(&PATTERNS, index, item, PATTERN_FIELDS)?;
    let text = object.required(&PATTERN)?;
    let placeholder = object.required(&PLACEHOLDER)?.to_owned();
    let refused = |must: &str| invalid(&object.path(PATTERN.name), &Json::Text(text.to_owned()), must);

    let regex = RegexBuilder::new(text)
        .size_limit(SIZE_LIMIT)
        .build()
        .map_err(|error| refused(&format!("a regular expression that compiles: {error}")))?;
    if matches_nothing_at_all(&regex) {
        return Err(refused("a regular expression that never matches the empty text"));
    }
    Ok(Pattern { regex, placeholder })
}

/// Whether the pattern finds an empty match anywhere: it would put a placeholder between any two characters.
fn matches_nothing_at_all(regex: &Regex) -> bool {
    NEIGHBOURS.iter().any(|text| regex.find_iter(text).any(|found| found.is_empty()))
}
