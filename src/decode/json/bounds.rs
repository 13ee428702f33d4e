//! Where JSON values begin and end.

use memchr::{memchr2, memrchr};

use crate::scan::lanes::Lanes;

/// Returns the length of the value at the start of `text`.
pub fn value_len(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'"' => string_len(text),
        b'{' | b'[' => container_len(text),
        _ => Some(text.iter().take_while(|&&byte| is_scalar(byte)).count()).filter(|&len| len > 0),
    }
}

/// Returns the length of the string at the start of `text`, quotes included.
fn string_len(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        let rest = text.get(at..)?;
        let stop = first_stop(rest)?;
        match rest.get(stop) {
            Some(b'"') => return Some(at + stop + 1),
            _ => at += stop + 2,
        }
    }
}

/// Finds the first quote or backslash. Names, many values and the text between escapes are short, so looking at the first
/// sixteen bytes often saves a call.
#[inline(always)]
fn first_stop(text: &[u8]) -> Option<usize> {
    let near = Lanes::at_start_of(text).map_or(0, |bytes| bytes.equal(b'"') | bytes.equal(b'\\'));
    if near == 0 { memchr2(b'"', b'\\', text) } else { Some(near.trailing_zeros() as usize) }
}

/// Returns the length of the object or array at the start of `text`, if it is complete.
pub fn container_len(text: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        let stop = rest.iter().position(|&byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))?;
        at += stop;
        match text.get(at)? {
            b'"' => at += string_len(text.get(at..)?)?,
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
        let slashes = before.iter().rev().take_while(|&&byte| byte == b'\\').count();
        if slashes % 2 == 0 {
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
