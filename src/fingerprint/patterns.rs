//! Operators' own patterns: volatile text that only they know, and its placeholders.
//!
//! Regular expressions want the whole text, so with patterns configured a text is gathered before it is normalised, in
//! pieces of [`GATHER_MAX`] bytes. A match across the seam of two pieces is missed. Without patterns this costs nothing.

use regex_lite::Regex;

/// How much text is gathered before patterns are looked for in it.
pub const GATHER_MAX: usize = 64 * 1024;

/// One pattern and what its matches become.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Matched against the text as it was written, before it is lowercased. Never matches the empty text.
    pub regex: Regex,
    /// `<` + 1 to 16 of `A-Z0-9_` + `>`.
    pub placeholder: String,
}

/// A part of a text, cut by patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Text that no pattern matches.
    Text(&'a str),
    /// A match, by the index of its pattern.
    Match(u8),
}

/// Cuts a text at every match, the earliest first; of two that start together the pattern listed first wins.
pub fn cut<'a>(patterns: &[Pattern], text: &'a str, mut part: impl FnMut(Part<'a>)) {
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
