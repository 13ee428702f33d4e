//! Where JSON values begin and end.

use memchr::{memchr2, memrchr};

use crate::scan::lanes::Lanes;

/// Returns the length of the value at the start of `text`.
pub fn value_len(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'"' => Some(closing_quote(text.get(1..)?)? + 2),
        b'{' | b'[' => container_len(text),
        _ => Some(text.iter().take_while(|&&byte| is_scalar(byte)).count()).filter(|&len| len > 0),
    }
}

/// Returns where a string ends, given the text after its opening quote. Names and many values are short, so looking at the
/// first sixteen bytes often saves a call.
#[inline(always)]
pub fn closing_quote(text: &[u8]) -> Option<usize> {
    match near_stop(text) {
        Some(stop) if text.get(stop) == Some(&b'"') => Some(stop),
        _ => far_closing_quote(text),
    }
}

#[inline(never)]
fn far_closing_quote(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        let stop = near_stop(rest).or_else(|| memchr2(b'"', b'\\', rest))?;
        match rest.get(stop) {
            Some(b'"') => return Some(at + stop),
            _ => at += stop + 2,
        }
    }
}

/// Finds the first quote or backslash, if it is one of the first sixteen bytes.
#[inline(always)]
fn near_stop(text: &[u8]) -> Option<usize> {
    let stops = Lanes::at_start_of(text).map_or(0, |bytes| bytes.equal(b'"') | bytes.equal(b'\\'));
    (stops != 0).then(|| stops.trailing_zeros() as usize)
}

/// Returns what follows this string and the white space after it, if the text begins with it, in quotes. The string must
/// contain no quote or backslash.
#[inline(always)]
pub fn after_string<'a>(text: &'a [u8], string: &[u8]) -> Option<&'a [u8]> {
    let rest = text.strip_prefix(b"\"")?.strip_prefix(string)?.strip_prefix(b"\"")?;
    Some(rest.trim_ascii_start())
}

/// Returns the length of the object or array at the start of `text`, if it is complete.
#[inline(never)]
pub fn container_len(text: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        let stop = rest.iter().position(|&byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))?;
        at += stop;
        match text.get(at)? {
            b'"' => at += closing_quote(text.get(at + 1..)?)? + 2,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            _ => {
                depth -= 1;
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
    }
}

/// Returns where the value at the end of `text` starts.
pub fn value_start(text: &[u8]) -> Option<usize> {
    match text.last()? {
        b'"' => opening_quote(text.get(..text.len() - 1)?),
        b'}' | b']' => container_start(text),
        _ => {
            let len = text.iter().rev().take_while(|&&byte| is_scalar(byte)).count();
            (len > 0).then(|| text.len() - len)
        }
    }
}

/// Returns where a string starts, given the text before its closing quote: at the last quote that is preceded by an even
/// number of backslashes. Names and many values are short, so looking at the last sixteen bytes often saves a call.
#[inline(always)]
pub fn opening_quote(before: &[u8]) -> Option<usize> {
    let near = Lanes::at_end_of(before).and_then(|bytes| bytes.equal(b'"').checked_ilog2());
    let quote = near.map(|place| before.len() - 16 + place as usize);
    match quote {
        Some(quote) if before.get(..quote)?.last() != Some(&b'\\') => Some(quote),
        _ => far_quote(before),
    }
}

fn far_quote(mut before: &[u8]) -> Option<usize> {
    loop {
        let quote = memrchr(b'"', before)?;
        before = before.get(..quote)?;
        let slashes_start = before.iter().rposition(|&byte| byte != b'\\').map_or(0, |at| at + 1);
        if (before.len() - slashes_start).is_multiple_of(2) {
            return Some(quote);
        }
    }
}

fn container_start(text: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut end = text.len();
    loop {
        let before = text.get(..end)?;
        let stop = before.iter().rposition(|&byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))?;
        match text.get(stop)? {
            b'"' => end = opening_quote(text.get(..stop)?)?,
            b'}' | b']' => {
                depth += 1;
                end = stop;
            }
            _ => {
                depth -= 1;
                end = stop;
                if depth == 0 {
                    return Some(stop);
                }
            }
        }
    }
}

/// Returns whether a byte can be part of a number, `true`, `false` or `null`.
pub fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}
