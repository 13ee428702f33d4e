//! Operators' own patterns for volatile text, and the placeholders that replace it.
//!
//! Regular expressions need the whole text. If patterns are configured, text is therefore gathered in pieces of
//! [`GATHER_MAX`] bytes before it is normalised; a match that spans two pieces is missed. Without patterns this costs
//! nothing.

use regex_lite::Regex;

/// How many bytes of text are gathered before patterns are looked for.
pub const GATHER_MAX: usize = 64 * 1024;

/// A pattern and the placeholder for its matches.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Matched against the text before it is lowercased. Never matches the empty text.
    pub regex: Regex,
    /// 1 to 16 of the characters `A-Z0-9_`, between `<` and `>`.
    pub placeholder: String,
}

/// A part of a text that was split by patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Text that no pattern matches.
    Text(&'a str),
    /// A match of the pattern with this index.
    Match(u8),
}

/// Splits a text at every match and calls `part` with each part, in order. Of two matches that start at the same place, the
/// one whose pattern is listed first counts.
pub fn split<'a>(patterns: &[Pattern], text: &'a str, mut part: impl FnMut(Part<'a>)) {
    let mut at = 0;
    while let Some((index, start, end)) = earliest(patterns, text, at) {
        part(Part::Text(text.get(at..start).unwrap_or_default()));
        part(Part::Match(index));
        at = end;
    }
    part(Part::Text(text.get(at..).unwrap_or_default()));
}

fn earliest(patterns: &[Pattern], text: &str, from: usize) -> Option<(u8, usize, usize)> {
    let hits = patterns.iter().enumerate().filter_map(|(index, pattern)| {
        let hit = pattern.regex.find_at(text, from).filter(|hit| !hit.is_empty())?;
        Some((index as u8, hit.start(), hit.end()))
    });
    hits.min_by_key(|&(index, start, _)| (start, index))
}
