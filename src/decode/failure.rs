//! Tells the result of a tool that failed from other results.
//!
//! The APIs have a flag for it, which most agents do not set. A result also counts as a failure if its beginning or its end
//! contains a word that programs use for errors, in whatever language their messages are otherwise: a word that ends in
//! `error` or `exception` (`SyntaxError`), or `failed`, `failure` or `fatal`. "0 errors", "no errors", "without error" and
//! `"error": null` say the opposite and do not count. "Not found" is an answer, not an error.
//!
//! This may be wrong in both directions. The rule that uses it needs many failures in a row that are exactly the same.

use super::json::Json;
use crate::scan::lanes::Lanes;

/// How many bytes at the beginning and at the end of a result are looked at.
const END_BYTES: usize = 120;
/// The endings of the words, in lower case. Only the pairs at their start are searched for: `rr`, `xc` and `fa`.
const WORDS: [&[u8]; 5] = [b"rror", b"xception", b"failed", b"failure", b"fatal"];
/// What says that there is no error, right before the word.
const DENIALS_BEFORE: [&[u8]; 4] = [b"0", b"no", b"without", b"zero"];
/// The same, right after it: zero, none, null, false, or something empty.
const DENIALS_AFTER: [&[u8]; 6] = [b"0", b"none", b"null", b"false", b"{}", b"\"\""];

/// Returns whether the value of a message's or block's member says that a tool failed.
pub fn is_failure_flag(value: Json<'_>) -> bool {
    value.is_true() || value.string().is_some_and(|status| status.is("error"))
}

/// Returns whether a result looks like an error. `raw` may contain JSON and its escapes.
pub fn looks_like_failure(raw: &[u8]) -> bool {
    let (start, rest) = raw.split_at(raw.len().min(END_BYTES));
    contains_failure(start) || contains_failure(rest.last_chunk::<END_BYTES>().map_or(rest, |end| end))
}

#[inline(never)] // compiled once
fn contains_failure(text: &[u8]) -> bool {
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let mut starts = word_starts(rest);
        while starts != 0 {
            let start = at + starts.trailing_zeros() as usize;
            if is_failure_at(text, start) {
                return true;
            }
            starts &= starts - 1;
        }
        at += STRIDE;
    }
    false
}

/// How many bytes are searched at once: one less than are loaded, since pairs are searched for.
const STRIDE: usize = 15;

/// Returns a mask of the places among the first 15 bytes at which one of the words may start.
fn word_starts(rest: &[u8]) -> u32 {
    let Some(bytes) = Lanes::at_start_of(rest) else {
        let mut padded = [0; 16];
        padded.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        return Lanes::at_start_of(&padded).map_or(0, pairs);
    };
    pairs(bytes)
}

fn pairs(bytes: Lanes) -> u32 {
    let bytes = bytes | Lanes::from_halves(0x2020_2020_2020_2020, 0x2020_2020_2020_2020);
    let r = bytes.equal(b'r');
    let pairs = (r & r >> 1) | (bytes.equal(b'f') & bytes.equal(b'a') >> 1);
    (pairs | (bytes.equal(b'x') & bytes.equal(b'c') >> 1)) & 0x7FFF
}

#[cold]
fn is_failure_at(text: &[u8], start: usize) -> bool {
    let (before, from) = text.split_at(start.min(text.len()));
    let Some(word) = beginning(from, &WORDS) else { return false };
    let mut after = from.get(word.len()..).unwrap_or_default();
    // The letter before `rror` and `xception`.
    let has_e = word.first() != Some(&b'f');
    if has_e && !matches!(before.last(), Some(b'e' | b'E')) {
        return false;
    }
    let before = before.get(..before.len() - usize::from(has_e)).unwrap_or_default();
    if let Some((b's' | b'S', rest)) = after.split_first() {
        after = rest;
    }
    let goes_on = after.first().is_some_and(|&byte| byte.is_ascii_alphanumeric() || byte == b'_');
    !goes_on && !is_denied_before(before) && !is_denied_after(after)
}

/// Returns the first of these words that a text begins with.
#[inline(never)] // compiled once for all lists of words
fn beginning<'a>(text: &[u8], words: &[&'a [u8]]) -> Option<&'a [u8]> {
    // Most words are ruled out by their first byte.
    let first = text.first().map(|byte| byte | 0x20);
    words.iter().copied().find(|word| word.first().copied() == first && begins_with(text, word))
}

/// Returns whether a text begins with a word that is written in lower case here. Brackets count as braces.
#[inline(never)] // compiled once
pub fn begins_with(text: &[u8], word: &[u8]) -> bool {
    text.len() >= word.len() && text.iter().zip(word).all(|(byte, expected)| byte | 0x20 == *expected)
}

fn is_denied_before(before: &[u8]) -> bool {
    let Some(before) = before.strip_suffix(b" ") else { return false };
    let start = before.iter().rposition(|byte| !byte.is_ascii_alphanumeric()).map_or(0, |gap| gap + 1);
    let word = before.get(start..).unwrap_or_default();
    beginning(word, &DENIALS_BEFORE).is_some_and(|denial| denial.len() == word.len())
}

fn is_denied_after(after: &[u8]) -> bool {
    let is_gap = |byte: &u8| matches!(byte, b'"' | b'\\' | b')');
    let colon = after.iter().take(4).position(|byte| !is_gap(byte)).unwrap_or_default();
    let Some((b':' | b'=', value)) = after.get(colon..).unwrap_or_default().split_first() else { return false };
    let value = value.trim_ascii_start();
    let ends =
        |denial: &[u8]| !value.get(denial.len()).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'.');
    beginning(value, &DENIALS_AFTER).is_some_and(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_look_like_failures_in_most_forms() {
        for text in [
            "Error: no such table: orders",
            "bash: line 1: syntax error near unexpected token `('",
            "File \\\"a.py\\\", line 1\\nSyntaxError: invalid syntax",
            "java.lang.NullPointerException\\n\\tat Main.main",
            "{\"error\": \"Request timeout\"}",
            "{\\\"errors\\\": [1]}",
            "FATAL: role does not exist",
            "The tool execution failed.",
            "3 failed, 2 passed",
            "错误: error",
        ] {
            for (before, after) in [("", ""), ("x ".repeat(200).as_str(), ""), ("", " y".repeat(400).as_str())] {
                assert!(looks_like_failure(format!("{before}{text}{after}").as_bytes()), "{before}{text}{after}");
            }
        }
        let in_the_middle = format!("{0} Error: {0}", "words ".repeat(60));
        assert!(!looks_like_failure(in_the_middle.as_bytes()));
    }

    #[test]
    fn results_that_only_mention_errors_do_not_look_like_failures() {
        for text in [
            "",
            "ok",
            "The file was saved.",
            "0 errors, 0 warnings",
            "test result: ok. 12 passed; 0 failed",
            "Compiled with no errors",
            "finished without error",
            "{\"error\": null, \"rows\": 3}",
            "{\\\"errors\\\": [], \\\"rows\\\": 3}",
            "{\"failed\": false}",
            "errors=0 warnings=2",
            "src/ErrorHandler.java",
            "error_code",
            "No matches found",
            "fares in the mirror, failing that, a train",
        ] {
            assert!(!looks_like_failure(text.as_bytes()), "{text}");
        }
    }
}
