//! The operator's own normalisation patterns: `patterns`, each a regular expression and the placeholder it becomes.
//!
//! They are compiled here, once, so that a bad one is refused with its index before any request meets it. regex-lite
//! takes time linear in the text whatever the pattern, and is a fraction of the size of the full regex crate.

use super::error::ConfigError;
use super::raw::{RawPattern, Setting, each, items, object, required_text, shortened};
use super::rules::{PATTERN, PLACEHOLDER};
use crate::fingerprint::patterns::Pattern;
use regex_lite::{Regex, RegexBuilder};
use serde_json::value::RawValue;

/// How much memory one compiled pattern may take: a bounded repetition of a bounded repetition grows quickly.
const SIZE_LIMIT: usize = 256 << 10;

/// Texts with every pair of neighbours that an assertion can tell apart: nothing, a word, a space, either line ending.
const NEIGHBOURS: [&str; 4] = ["", "a", "\n", " aa  a\na \n\n\r\na\r \r\r"];

/// Reads `patterns`, in the order in which they are tried.
pub(super) fn patterns(setting: Setting) -> Result<Vec<Pattern>, ConfigError> {
    let items = items("patterns", setting, 0..=32, "patterns")?.unwrap_or_default();
    each("patterns", &items, pattern)
}

fn pattern(item: &RawValue) -> Result<Pattern, ConfigError> {
    let raw: RawPattern = object(item)?;
    let text = required_text("pattern", raw.pattern, &PATTERN)?;
    let placeholder = required_text("placeholder", raw.placeholder, &PLACEHOLDER)?;
    let refused = |must: String| ConfigError::invalid("pattern", shortened(&format!("{text:?}")), must);

    let regex = RegexBuilder::new(&text)
        .size_limit(SIZE_LIMIT)
        .build()
        .map_err(|error| refused(format!("a regular expression that compiles: {error}")))?;
    if matches_empty_text(&regex) {
        return Err(refused("a regular expression that never matches the empty text".to_owned()));
    }
    Ok(Pattern { regex, placeholder })
}

/// Whether the pattern can match the empty text. It would then put a placeholder between any two characters.
fn matches_empty_text(regex: &Regex) -> bool {
    NEIGHBOURS.iter().any(|text| regex.find_iter(text).any(|found| found.is_empty()))
}
