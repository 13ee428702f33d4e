//! Words beyond ASCII.
//!
//! Scripts differ in how they separate words. In Cyrillic or Greek letters join to words, as in ASCII. In Chinese, Japanese,
//! Thai and many others there are no spaces, so each character is a word. Punctuation and symbols are gaps.

use super::normalise::{Sink, WORD_MAX, Word};

/// Takes the words in a run of at most [`WORD_MAX`] bytes beyond ASCII, and returns how many bytes that took. If the limit
/// cut the last character of the run, that character is left for later.
pub fn non_ascii_words(run: &[u8], sink: &mut impl Sink) -> usize {
    let whole = whole_characters(run, run.len() == WORD_MAX);
    let mut rest = whole;
    while let Some(first) = rest.first_chunk() {
        if is_ideograph(first) {
            sink.word(Word::Lowercase(first));
            rest = rest.get(3..).unwrap_or_default();
            continue;
        }
        let (mixed, after) = rest.split_at(up_to_ideograph(rest));
        letters(mixed, sink);
        rest = after;
    }
    letters(rest, sink);
    whole.len()
}

/// Takes text without ideographs.
fn letters(text: &[u8], sink: &mut impl Sink) {
    if text.is_empty() {
        return;
    }
    let mut word = LowercaseWord::default();
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match script(character) {
                Script::Spaced => word.push(character),
                Script::Unspaced => {
                    word.flush(sink);
                    word.push(character);
                    word.flush(sink);
                }
                Script::None => {
                    word.flush(sink);
                    sink.gap(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        if !chunk.invalid().is_empty() {
            word.flush(sink);
            sink.gap(chunk.invalid());
        }
    }
    word.flush(sink);
}

/// Removes the last character if it is incomplete and the run was `cut`.
fn whole_characters(run: &[u8], cut: bool) -> &[u8] {
    let is_start = |byte: &u8| byte & 0xC0 != 0x80;
    match run.iter().rposition(is_start) {
        Some(last) if cut && last > 0 && std::str::from_utf8(run.get(last..).unwrap_or_default()).is_err() => {
            run.get(..last).unwrap_or_default()
        }
        _ => run,
    }
}

/// Returns whether these bytes are one of the characters that most Chinese, Japanese and Korean text consists of. Each has
/// three bytes, has no case and is a word, so nothing needs to be decoded.
#[inline(always)]
fn is_ideograph(&[first, second, third]: &[u8; 3]) -> bool {
    let bytes = u32::from(first) << 16 | u32::from(second) << 8 | u32::from(third);
    // U+3040 to U+9FFF and U+AC00 to U+D7A3. The bytes of UTF-8 sort like the code points.
    matches!(bytes, 0xE3_81_80..=0xE9_BF_BF | 0xEA_B0_80..=0xED_9E_A3) && bytes & 0x00_C0_C0 == 0x00_80_80
}

/// Returns how many bytes are before the next ideograph. The first byte of an ideograph is never the second or third byte
/// of another character, so no character is split.
fn up_to_ideograph(text: &[u8]) -> usize {
    text.windows(3).position(|bytes| bytes.first_chunk().is_some_and(is_ideograph)).unwrap_or(text.len())
}

/// How a script separates its words.
enum Script {
    /// By spaces or punctuation: letters join to words.
    Spaced,
    /// Not at all: each character is a word.
    Unspaced,
    /// Not a letter.
    None,
}

fn script(character: char) -> Script {
    match character {
        '\u{2000}'..='\u{2BFF}' | '\u{3000}'..='\u{303F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FF00}'..='\u{FF0F}' => {
            Script::None
        }
        _ if character.is_whitespace() || character.is_control() => Script::None,
        '\u{E00}'.. => Script::Unspaced,
        _ if character.is_alphanumeric() => Script::Spaced,
        _ => Script::None,
    }
}

/// A word that is being lowercased. Lowercasing can make a word longer; characters that do not fit are dropped.
struct LowercaseWord {
    bytes: [u8; 2 * WORD_MAX],
    len: usize,
}

impl Default for LowercaseWord {
    fn default() -> Self {
        Self { bytes: [0; 2 * WORD_MAX], len: 0 }
    }
}

impl LowercaseWord {
    fn push(&mut self, character: char) {
        for lower in character.to_lowercase() {
            let end = self.len + lower.len_utf8();
            if let Some(space) = self.bytes.get_mut(self.len..end) {
                lower.encode_utf8(space);
                self.len = end;
            }
        }
    }

    #[inline(always)]
    fn flush(&mut self, sink: &mut impl Sink) {
        if self.len > 0 {
            sink.word(Word::Lowercase(self.bytes.get(..self.len).unwrap_or_default()));
            self.len = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ideographs_are_recognised_by_their_bytes() {
        for character in '\u{800}'..='\u{FFFF}' {
            let mut bytes = [0; 3];
            character.encode_utf8(&mut bytes);
            let expected = matches!(character, '\u{3040}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}');
            assert_eq!(is_ideograph(&bytes), expected, "{character}");
        }
        for bytes in
            [[0xE4, 0xB8, 0x20], [0xE4, 0x20, 0x80], [0xE4, 0xB8, 0xE4], [0xE4, 0xC0, 0x80], [0xF0, 0x9F, 0x98]]
        {
            assert!(!is_ideograph(&bytes) && std::str::from_utf8(&bytes).is_err(), "{bytes:x?}");
        }
    }
}
