//! Characters that nobody sees, which are removed before a text is cut into tokens.
//!
//! A zero-width space inside a word, or a soft hyphen, variation selector, tag or bidirectional control anywhere, changes
//! nothing for a reader or a model. Without this, one such character at a random place would make the same text look like
//! a different one in every call. The characters are:
//!
//! | code points | what they are | bytes |
//! |---|---|---|
//! | U+00AD | soft hyphen | `C2 AD` |
//! | U+200B to U+200F | zero-width spaces and joiners, directional marks | `E2 80 8B` to `E2 80 8F` |
//! | U+202A to U+202E | directional embeddings and overrides | `E2 80 AA` to `E2 80 AE` |
//! | U+2060 to U+206F | word joiner, invisible operators, directional isolates | `E2 81 A0` to `E2 81 AF` |
//! | U+FE00 to U+FE0F | variation selectors | `EF B8 80` to `EF B8 8F` |
//! | U+FEFF | zero-width no-break space | `EF BB BF` |
//! | U+E0000 to U+E0FFF | tags, and more variation selectors | `F3 A0 80 80` to `F3 A0 BF BF` |
//!
//! The first byte of a character is never a later byte of another one, so these bytes can be searched for without decoding
//! the text. Text in ASCII costs one test for every 64 bytes.

use crate::scan::lanes::{equal_to_any, is_ascii};

/// The bytes with which invisible characters begin. Few others do, so that only few characters are looked at.
const LEADS: [u8; 4] = [0xC2, 0xE2, 0xEF, 0xF3];

/// Moves the visible bytes to the front and returns how many there are.
pub fn remove_invisible(text: &mut [u8]) -> usize {
    match first_invisible(text) {
        None => text.len(),
        Some(first) => close_gaps(text, first),
    }
}

/// Returns how many bytes at the end of `text` belong to a character whose last bytes are missing.
pub fn undecided(text: &[u8]) -> usize {
    let mut len = 0;
    for &byte in text.iter().rev().take(3) {
        len += 1;
        if byte >= 0xC2 {
            let needed = 2 + usize::from(byte >= 0xE0) + usize::from(byte >= 0xF0);
            return if len < needed { len } else { 0 };
        }
    }
    0
}

/// Returns where the first invisible character begins.
fn first_invisible(text: &[u8]) -> Option<usize> {
    let (groups, rest) = text.as_chunks();
    for (number, group) in groups.iter().enumerate() {
        if !is_ascii(group)
            && let Some(found) = first_in_group(text, number * group.len(), group)
        {
            return Some(found);
        }
    }
    if rest.is_ascii() {
        return None;
    }
    let start = text.len() - rest.len();
    let is_invisible = |&(at, lead): &(usize, &u8)| LEADS.contains(lead) && invisible_len(text, start + at) > 0;
    rest.iter().enumerate().find(is_invisible).map(|(at, _)| start + at)
}

#[inline(never)] // so that the loop over ASCII stays small
fn first_in_group(text: &[u8], start: usize, group: &[u8; 64]) -> Option<usize> {
    let mut leads = equal_to_any(group, LEADS);
    while leads != 0 {
        let at = start + leads.trailing_zeros() as usize;
        if invisible_len(text, at) > 0 {
            return Some(at);
        }
        leads &= leads - 1;
    }
    None
}

/// Moves the visible bytes after `first` together.
#[cold]
fn close_gaps(text: &mut [u8], first: usize) -> usize {
    let (mut from, mut to) = (first, first);
    while let Some(&byte) = text.get(from) {
        let invisible = invisible_len(text, from);
        if invisible > 0 {
            from += invisible;
            continue;
        }
        if let Some(place) = text.get_mut(to) {
            *place = byte;
        }
        from += 1;
        to += 1;
    }
    to
}

/// Returns the length of the invisible character that begins at `at`, or 0 if there is none.
#[inline(never)]
fn invisible_len(text: &[u8], at: usize) -> usize {
    let mut bytes = [0; 4];
    for (to, from) in bytes.iter_mut().zip(text.get(at..).unwrap_or_default()) {
        *to = *from;
    }
    match u32::from_be_bytes(bytes) {
        0xC2AD_0000..=0xC2AD_FFFF => 2,
        0xE280_8B00..=0xE280_8FFF | 0xE280_AA00..=0xE280_AEFF | 0xE281_A000..=0xE281_AFFF => 3,
        0xEFB8_8000..=0xEFB8_8FFF | 0xEFBB_BF00..=0xEFBB_BFFF => 3,
        tag @ 0xF3A0_8080..=0xF3A0_BFBF if tag & 0xC0C0 == 0x8080 => 4,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::naive::normalise::is_invisible;

    #[test]
    fn every_character_is_removed_or_kept_as_in_the_naive_code() {
        for character in '\0'..=char::MAX {
            let text = format!("before {character} after");
            let mut bytes = text.clone().into_bytes();
            let len = remove_invisible(&mut bytes);
            let expected = if is_invisible(character) { "before  after" } else { &text };
            assert_eq!(&bytes[..len], expected.as_bytes(), "{character:?}");
        }
    }

    #[test]
    fn places_at_the_edges_of_groups_are_found() {
        for at in 0..200 {
            let mut text = "x".repeat(200);
            text.insert(at, '\u{200B}');
            text.insert((at + 70) % 199, 'é');
            let mut bytes = text.clone().into_bytes();
            let len = remove_invisible(&mut bytes);
            assert_eq!(&bytes[..len], text.replace('\u{200B}', "").as_bytes(), "{at}");
        }
    }

    #[test]
    fn the_beginning_of_a_character_is_undecided() {
        for character in ['\u{AD}', 'é', '\u{200B}', '\u{2066}', '中', '\u{FE0F}', '\u{FEFF}', '\u{E0041}'] {
            let mut buffer = [0; 4];
            let bytes = character.encode_utf8(&mut buffer).as_bytes();
            for len in 1..bytes.len() {
                assert_eq!(undecided(&[b"ab", &bytes[..len]].concat()), len, "{character:?}");
            }
            assert_eq!(undecided(bytes), 0, "{character:?}");
        }
        for text in [&b""[..], b"a", b"\x80\x80\x80\x80", "é".as_bytes()] {
            assert_eq!(undecided(text), 0, "{text:x?}");
        }
    }
}
