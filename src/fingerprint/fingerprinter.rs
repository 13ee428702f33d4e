//! A text, in chunks of any size, to a [`Fingerprint`].
//!
//! How a text is cut into chunks does not change its fingerprint. Text that arrives as the inside of a JSON string is
//! unescaped on the way, and only where it is read.

use std::rc::Rc;

use super::Fingerprint;
use super::features::Features;
use super::hash::hash_bytes;
use super::normalise::{Normaliser, Placeholder, Sink};
use super::patterns::{GATHER_MAX, Part, Pattern, split};
use super::sample::{READ_BYTES_MAX, TAIL_BYTES, advance, last, stretch, tail_of};
use crate::scan::Malformed;
use crate::scan::unescape::{rest_of_escape, unescape};

/// Computes fingerprints. Its buffers are large, so one that has finished a text is used again for the next.
#[derive(Clone, Debug, Default)]
pub struct Fingerprinter {
    normaliser: Normaliser,
    /// Boxed, since it is large and a fingerprinter is moved often.
    features: Box<Features>,
    /// How many steady bytes have passed, read or skipped.
    position: usize,
    /// How many bytes have been read.
    read: usize,
    /// The end of what has been skipped since the last block that was read: up to twice [`TAIL_BYTES`].
    skipped: Vec<u8>,
    skipped_escaping: Escaping,
    patterns: Rc<[Pattern]>,
    /// Text in which patterns have not been looked for yet.
    gathered: Vec<u8>,
    excerpt: Vec<u8>,
    excerpt_max: usize,
    failing: bool,
}

impl Fingerprinter {
    /// Creates a fingerprinter that replaces what operators' patterns match.
    pub fn with_patterns(patterns: Rc<[Pattern]>) -> Self {
        Self { patterns, ..Self::default() }
    }

    /// Starts to keep the first `max` bytes of the text that comes next, as evidence.
    pub fn keep_excerpt(&mut self, max: usize) {
        self.excerpt.clear();
        self.excerpt_max = max;
    }

    /// Returns the excerpt, and keeps no more.
    pub fn take_excerpt(&mut self) -> String {
        self.excerpt_max = 0;
        String::from_utf8_lossy(&std::mem::take(&mut self.excerpt)).into_owned()
    }

    /// Takes the next chunk of the text.
    pub fn push(&mut self, mut chunk: &[u8]) {
        if self.excerpt.len() < self.excerpt_max {
            let room = self.excerpt_max - self.excerpt.len();
            self.excerpt.extend(chunk.iter().take(room));
        }
        if self.patterns.is_empty() {
            return self.take_unescaped(chunk);
        }
        while !chunk.is_empty() {
            let (now, later) = chunk.split_at(chunk.len().min(GATHER_MAX - self.gathered.len()));
            self.gathered.extend_from_slice(now);
            if self.gathered.len() == GATHER_MAX {
                self.apply_patterns();
            }
            chunk = later;
        }
    }

    /// Takes the next chunk of the text as the inside of a JSON string. Parts that are skipped are not unescaped.
    pub fn push_escaped(&mut self, raw: &[u8]) -> Result<(), Malformed> {
        if self.patterns.is_empty() && self.excerpt.len() >= self.excerpt_max {
            return self.take(raw, Escaping::Json);
        }
        unescape(raw, &mut |piece| self.push(piece))
    }

    /// Ends a part of the text: the next chunk does not continue its last word.
    pub fn end_part(&mut self) {
        self.apply_patterns();
        self.normaliser.finish(&mut *self.features);
        if !self.skipped.is_empty() {
            self.skip(b"\n", self.skipped_escaping);
        }
    }

    /// Takes data that is not text, such as an image, as a single word.
    pub fn push_opaque(&mut self, bytes: &[u8]) {
        self.end_part();
        // Counts as one byte: an image must not push the text after it into the part that is sampled.
        self.read += 1;
        self.features.add_non_word(hash_bytes(bytes));
        self.features.pause();
    }

    /// Notes that the text contains the result of a tool that failed.
    pub fn mark_failing(&mut self) {
        self.failing = true;
    }

    /// Returns whether nothing has been pushed.
    pub fn is_empty(&self) -> bool {
        self.read == 0 && self.gathered.is_empty()
    }

    /// Returns the fingerprint of all that was pushed, and is ready for the next text.
    pub fn finish(&mut self) -> Fingerprint {
        self.end_part();
        if !self.skipped.is_empty() {
            let tail = tail_of(&self.skipped);
            // The tail may begin inside an escape, which then cannot be read: take the text as it is.
            if self.skipped_escaping.read(tail, &mut self.normaliser, &mut self.features).is_err() {
                self.normaliser.push(tail, &mut *self.features);
            }
            self.normaliser.finish(&mut *self.features);
            self.skipped.clear();
        }
        self.position = 0;
        self.read = 0;
        let failing = std::mem::take(&mut self.failing);
        Fingerprint { failing, ..self.features.finish() }
    }

    fn take_unescaped(&mut self, chunk: &[u8]) {
        // Cannot fail: only escapes can be malformed.
        let _ = self.take(chunk, Escaping::None);
    }

    fn take(&mut self, mut chunk: &[u8], escaping: Escaping) -> Result<(), Malformed> {
        while !chunk.is_empty() {
            let (is_read, wanted) = stretch(self.position);
            let room = READ_BYTES_MAX.saturating_sub(self.read);
            let is_read = is_read && room > 0;
            let limit = if is_read { chunk.len().min(room) } else { chunk.len() };
            let (len, steady) = advance(chunk.get(..limit).unwrap_or_default(), wanted);
            let (now, later) = chunk.split_at(len + escaping.rest_of_character(chunk, len));
            if is_read {
                escaping.read(now, &mut self.normaliser, &mut self.features)?;
                self.read += now.len();
                self.skipped.clear();
            } else {
                self.normaliser.finish(&mut *self.features);
                self.skip(now, escaping);
            }
            self.position += steady;
            chunk = later;
        }
        Ok(())
    }

    /// Keeps the end of what is skipped. The buffer is trimmed only when it has doubled, so that many small chunks cost no
    /// more than a large one.
    fn skip(&mut self, bytes: &[u8], escaping: Escaping) {
        self.skipped_escaping = escaping;
        self.skipped.extend_from_slice(last(bytes, TAIL_BYTES));
        if self.skipped.len() > 2 * TAIL_BYTES {
            self.skipped.drain(..self.skipped.len() - TAIL_BYTES);
        }
    }

    /// Takes the gathered text, with placeholders in place of what the patterns match.
    fn apply_patterns(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let gathered = std::mem::take(&mut self.gathered);
        let patterns = Rc::clone(&self.patterns);
        split(&patterns, &String::from_utf8_lossy(&gathered), |part| match part {
            Part::Text(text) => self.take_unescaped(text.as_bytes()),
            Part::Match(index) => {
                self.normaliser.finish(&mut *self.features);
                self.read += 1;
                self.features.placeholder(Placeholder::Custom(index));
                self.features.pause();
            }
        });
    }
}

/// How the bytes of a text are escaped.
#[derive(Clone, Copy, Debug, Default)]
enum Escaping {
    /// Not at all.
    #[default]
    None,
    /// As in a JSON string.
    Json,
}

impl Escaping {
    #[inline(always)]
    fn read(self, text: &[u8], normaliser: &mut Normaliser, features: &mut Features) -> Result<(), Malformed> {
        match self {
            Self::None => {
                normaliser.push(text, features);
                Ok(())
            }
            Self::Json => unescape(text, &mut |piece| normaliser.push(piece, features)),
        }
    }

    /// Returns how many bytes after `cut` belong to an escape that begins before it.
    fn rest_of_character(self, text: &[u8], cut: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Json => rest_of_escape(text, cut),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: usize = 1024;

    fn fingerprint<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Fingerprint {
        let mut fingerprinter = Fingerprinter::default();
        for chunk in chunks {
            fingerprinter.push(chunk);
        }
        fingerprinter.finish()
    }

    /// Words that never repeat, so that a change anywhere is a change of the words.
    fn long_text(bytes: usize) -> Vec<u8> {
        let letters = |mut n: usize| {
            std::iter::from_fn(move || {
                let letter = b'a' + (n % 26) as u8;
                n /= 26;
                (n > 0 || letter > b'a').then_some(letter)
            })
        };
        (1..).flat_map(|n| letters(n).chain([b' '])).take(bytes).collect()
    }

    #[test]
    fn chunking_does_not_change_the_fingerprint_of_a_long_text() {
        for bytes in [KB, 99 * KB, 130 * KB, 301 * KB + 77, 1_100 * KB] {
            let text = long_text(bytes);
            let whole = fingerprint([&text[..]]);
            for chunk in [100, 65_536] {
                assert_eq!(fingerprint(text.chunks(chunk)), whole, "{bytes} bytes in chunks of {chunk}");
            }
        }
    }

    #[test]
    fn a_question_after_a_long_document_is_always_read() {
        let ask = |document: &[u8], question: &str, end_parts: bool| {
            let mut fingerprinter = Fingerprinter::default();
            for part in [document, question.as_bytes()] {
                fingerprinter.push(part);
                if end_parts {
                    fingerprinter.end_part();
                }
            }
            fingerprinter.finish()
        };
        for bytes in (80 * KB..600 * KB).step_by(61_113).chain([215 * KB]) {
            let document = long_text(bytes);
            for end_parts in [false, true] {
                let cost = ask(&document, "\nWhat does it cost in total?", end_parts);
                let author = ask(&document, "\nWho wrote it, and for whom?", end_parts);
                assert!(!cost.is_same(author), "after {bytes} bytes");
                assert_eq!(cost, ask(&document, "\nWhat does it cost in total?", end_parts));
            }
        }
    }

    #[test]
    fn text_after_a_large_image_is_read_in_full() {
        let ask = |detail: &str| {
            let mut fingerprinter = Fingerprinter::default();
            fingerprinter.push_opaque(&vec![b'h'; 315 * KB]);
            fingerprinter.push(format!("{detail} {}", String::from_utf8_lossy(&long_text(8 * KB))).as_bytes());
            fingerprinter.finish()
        };
        assert!(!ask("In the first picture").is_same(ask("In the second one")));
    }

    #[test]
    fn numbers_of_other_lengths_change_nothing_in_long_texts() {
        let document = long_text(400 * KB);
        let log = |counter: u64| -> Vec<u8> {
            let line = |(number, words): (usize, &[u8])| {
                let stamp = format!("\n#{} 2024-01-15T10:30:00Z ", number as u64 * counter);
                [stamp.as_bytes(), words].concat()
            };
            document.chunks(80).enumerate().flat_map(line).collect()
        };
        let (short, long) = (log(1), log(1_000_003));
        assert!(short.len() + 10_000 < long.len());
        assert_eq!(fingerprint([&short[..]]), fingerprint([&long[..]]));
    }

    #[test]
    fn a_text_without_steady_bytes_is_read_up_to_a_limit() {
        let digits: Vec<u8> = (0..200_000).flat_map(|n: u32| format!("{n},{} ", n * 7).into_bytes()).collect();
        let mut fingerprinter = Fingerprinter::default();
        fingerprinter.push(&digits);
        assert_eq!(fingerprinter.read, READ_BYTES_MAX);
        let whole = fingerprinter.finish();
        for chunk in digits.chunks(100) {
            fingerprinter.push(chunk);
            assert!(fingerprinter.skipped.len() <= 2 * TAIL_BYTES);
        }
        assert_eq!(fingerprinter.finish(), whole);
    }
}
