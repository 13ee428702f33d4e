//! What happens to characters before a text is cut into tokens: those that nobody sees are removed, and the digits of other
//! scripts become ASCII digits.
//!
//! A zero-width space inside a word, or a soft hyphen, variation selector, tag or bidirectional control anywhere, changes
//! nothing for a reader or a model. Without this, one such character at a random place would make the same text look like
//! a different one in every call. The characters that are removed are:
//!
//! | code points | what they are | bytes |
//! |---|---|---|
//! | U+0080 to U+009F | control characters, except U+0085, which ends a line | `C2 80` to `C2 9F` |
//! | U+00AD | soft hyphen | `C2 AD` |
//! | U+034F | combining grapheme joiner | `CD 8F` |
//! | U+061C | Arabic letter mark | `D8 9C` |
//! | U+115F, U+1160 | fillers for Hangul letters | `E1 85 9F`, `E1 85 A0` |
//! | U+17B4, U+17B5 | inherent vowels of Khmer | `E1 9E B4`, `E1 9E B5` |
//! | U+180B to U+180F | variation selectors and vowel separator of Mongolian | `E1 A0 8B` to `E1 A0 8F` |
//! | U+200B to U+200F | zero-width spaces and joiners, directional marks | `E2 80 8B` to `E2 80 8F` |
//! | U+202A to U+202E | directional embeddings and overrides | `E2 80 AA` to `E2 80 AE` |
//! | U+2060 to U+206F | word joiner, invisible operators, directional isolates | `E2 81 A0` to `E2 81 AF` |
//! | U+3164, U+FFA0 | Hangul fillers | `E3 85 A4`, `EF BE A0` |
//! | U+FE00 to U+FE0F | variation selectors | `EF B8 80` to `EF B8 8F` |
//! | U+FEFF | zero-width no-break space | `EF BB BF` |
//! | U+FFF0 to U+FFFB | reserved for such characters, and marks of annotations | `EF BF B0` to `EF BF BB` |
//! | U+E0000 to U+E0FFF | tags, and more variation selectors | `F3 A0 80 80` to `F3 A0 BF BF` |
//!
//! These are control characters and those with the property `Default_Ignorable_Code_Point`. Three groups are kept: the control
//! characters of ASCII, because every byte of every text would have to be looked at for them, and the ignorable characters of
//! musical notation and of shorthand.
//!
//! The digits are those of Arabic (U+0660, U+06F0), of the scripts of India from Devanagari (U+0966) to Sinhala (U+0DE6), of
//! Thai and Lao, and the full-width ones (U+FF10): `٤٢`, `४२` and `４２` are `42`.
//!
//! The first byte of a character is never a later byte of another one, so these bytes can be searched for without decoding
//! the text. Text in ASCII costs one test for every 64 bytes.

use std::ops::Range;

use crate::scan::lanes::{at_least, equal, equal_to_any, is_ascii};

/// The bytes with which the characters begin that are removed or replaced. Few others do in most languages, so that only
/// few characters are looked at. Those from Arabic to U+2FFF are a range, which is tested at once.
const LEADS: [u8; 4] = [0xC2, 0xCD, 0xEF, 0xF3];
const LEAD_RANGE: Range<u8> = 0xD8..0xE3;
/// The first two bytes of the Hangul filler. Kana have the first one, too, so the second is looked at as well.
const FILLER: [u8; 2] = [0xE3, 0x85];

/// Removes what nobody sees and replaces digits. What remains is at the front; returns how many bytes that is.
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

fn is_lead(byte: u8) -> bool {
    LEAD_RANGE.contains(&byte) || LEADS.contains(&byte) || byte == FILLER[0]
}

/// Returns where the first character begins that is removed or replaced.
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
    let is_special = |&(at, lead): &(usize, &u8)| is_lead(*lead) && special(text, start + at).0 > 0;
    rest.iter().enumerate().find(is_special).map(|(at, _)| start + at)
}

#[inline(never)] // so that the loop over ASCII stays small
fn first_in_group(text: &[u8], start: usize, group: &[u8; 64]) -> Option<usize> {
    let mut leads = equal_to_any(group, LEADS);
    leads |= at_least(group, LEAD_RANGE.start) & !at_least(group, LEAD_RANGE.end);
    // The second byte may be in the next group.
    leads |= equal(group, FILLER[0]) & (equal(group, FILLER[1]) >> 1 | 1 << 63);
    while leads != 0 {
        let at = start + leads.trailing_zeros() as usize;
        if special(text, at).0 > 0 {
            return Some(at);
        }
        leads &= leads - 1;
    }
    None
}

/// Removes and replaces characters from `first` on, and moves the rest together.
#[cold]
fn close_gaps(text: &mut [u8], first: usize) -> usize {
    let (mut from, mut to) = (first, first);
    while let Some(&byte) = text.get(from) {
        let (len, digit) = if is_lead(byte) { special(text, from) } else { (0, None) };
        from += len.max(1);
        let kept = if len == 0 { Some(byte) } else { digit };
        if let (Some(kept), Some(place)) = (kept, text.get_mut(to)) {
            *place = kept;
            to += 1;
        }
    }
    to
}

/// Returns the length of the character at `at` if it is removed or replaced, and the digit that replaces it. The length is
/// 0 if the character stays.
#[inline(never)]
fn special(text: &[u8], at: usize) -> (usize, Option<u8>) {
    let mut bytes = [0; 4];
    for (to, from) in bytes.iter_mut().zip(text.get(at..).unwrap_or_default()) {
        *to = *from;
    }
    let digit = |zero: u8, digit: u8| Some(b'0' + (digit - zero));
    match bytes {
        [0xD9, last @ 0xA0..=0xA9, ..] => (2, digit(0xA0, last)),
        [0xDB, last @ 0xB0..=0xB9, ..] => (2, digit(0xB0, last)),
        // The scripts of India have 128 characters each, and their digits are at the same place.
        [0xE0, script @ 0xA5..=0xB7, last @ 0xA6..=0xAF, _] if script % 2 == 1 => (3, digit(0xA6, last)),
        [0xE0, 0xB9 | 0xBB, last @ 0x90..=0x99, _] => (3, digit(0x90, last)),
        [0xEF, 0xBC, last @ 0x90..=0x99, _] => (3, digit(0x90, last)),
        [0xC2, 0x80..=0x84 | 0x86..=0x9F | 0xAD, ..] | [0xCD, 0x8F, ..] | [0xD8, 0x9C, ..] => (2, None),
        [0xE1, 0x85, 0x9F | 0xA0, _] | [0xE1, 0x9E, 0xB4 | 0xB5, _] | [0xE1, 0xA0, 0x8B..=0x8F, _] => (3, None),
        [0xE2, 0x80, 0x8B..=0x8F | 0xAA..=0xAE, _] | [0xE2, 0x81, 0xA0..=0xAF, _] | [0xE3, 0x85, 0xA4, _] => (3, None),
        [0xEF, 0xB8, 0x80..=0x8F, _] | [0xEF, 0xBB, 0xBF, _] => (3, None),
        [0xEF, 0xBE, 0xA0, _] | [0xEF, 0xBF, 0xB0..=0xBB, _] => (3, None),
        [0xF3, 0xA0, 0x80..=0xBF, 0x80..=0xBF] => (4, None),
        _ => (0, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::naive::normalise::plain;

    #[test]
    fn every_character_is_removed_replaced_or_kept_as_in_the_naive_code() {
        for character in '\0'..=char::MAX {
            let text = format!("before {character} after");
            let mut bytes = text.clone().into_bytes();
            let len = remove_invisible(&mut bytes);
            assert_eq!(&bytes[..len], plain(&text).as_bytes(), "{character:?}");
        }
    }

    #[test]
    fn places_at_the_edges_of_groups_are_found() {
        for (at, invisible) in (0..200).flat_map(|at| [(at, '\u{200B}'), (at, '\u{3164}'), (at, '\u{61C}')]) {
            let mut text = "x".repeat(200);
            text.insert(at, invisible);
            text.insert((at + 70) % 199, 'é');
            let mut bytes = text.clone().into_bytes();
            let len = remove_invisible(&mut bytes);
            assert_eq!(&bytes[..len], text.replace(invisible, "").as_bytes(), "{at}");
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
