//! What is kept of a text: its SimHash, an exact digest, and whether it says enough to identify anything.
//!
//! The digest tells *the same* from *nearly the same*. It is taken of the same tokens, in order, with one difference:
//! plain numbers keep their value. "12 tests failed" and "7 tests failed" are similar to a SimHash, but an agent that
//! gets from one to the other has made progress.
//!
//! A text beyond [`FULL`] bytes is sampled: blocks of it, ever further apart, and its end, so that the cost of a megabyte
//! stays near that of a hundred kilobytes. The end matters more than its size says: a question stands after the
//! document that it is about. A change in what is skipped is not seen.

use std::rc::Rc;

use super::normalise::{Normaliser, Number, Placeholder, Sink, Word};
use super::patterns::{GATHER_MAX, Part, Pattern, cut};
use super::simhash::{Accumulator, SimHash, mix};

/// Bytes of a text that are always looked at.
pub const FULL: usize = 96 * 1024;
/// Beyond that, one block of this size is taken of every four, then eight, then sixteen blocks...
const BLOCK: usize = 2048;
/// Fewer distinct words than this identify nothing: "ok", "done", an empty output.
const INFORMATIVE_WORDS: u32 = 3;

/// What is kept of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    /// For similarity.
    pub simhash: SimHash,
    /// For sameness.
    pub digest: u32,
    /// Whether the text holds enough distinct words to identify anything.
    pub informative: bool,
}

impl Fingerprint {
    /// Whether the two texts are similar.
    pub fn is_similar(self, other: Self) -> bool {
        self.simhash.is_similar(other.simhash)
    }

    /// Whether the two texts are the same but for volatile parts.
    pub fn is_same(self, other: Self) -> bool {
        self.digest == other.digest && self.is_similar(other)
    }
}

/// Text in, in chunks of any size; a [`Fingerprint`] out. Reusable, since its buffers are worth keeping.
#[derive(Clone, Debug, Default)]
pub struct Fingerprinter {
    normaliser: Normaliser,
    features: Features,
    length: usize,
    /// The end of what has been skipped since the last block, [`BLOCK`] bytes or a little more.
    skipped: Vec<u8>,
    patterns: Rc<[Pattern]>,
    gathered: Vec<u8>,
    excerpt: Vec<u8>,
    excerpt_max: usize,
}

impl Fingerprinter {
    /// One that replaces what operators' patterns match.
    pub fn with_patterns(patterns: Rc<[Pattern]>) -> Self {
        Self { patterns, ..Self::default() }
    }

    /// Keeps the first bytes of what comes next, for evidence.
    pub fn keep_excerpt(&mut self, max: usize) {
        self.excerpt.clear();
        self.excerpt_max = max;
    }

    /// What was kept.
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
            return self.take(chunk);
        }
        while !chunk.is_empty() {
            let (now, later) = chunk.split_at(chunk.len().min(GATHER_MAX - self.gathered.len()));
            self.gathered.extend_from_slice(now);
            if self.gathered.len() == GATHER_MAX {
                self.cut();
            }
            chunk = later;
        }
    }

    /// Ends a part: what comes next is another text, not its continuation.
    pub fn part(&mut self) {
        self.cut();
        self.normaliser.finish(&mut self.features);
        if !self.skipped.is_empty() {
            self.skip(b"\n");
        }
    }

    /// Takes what is not text, such as an image, as if it were one word.
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.part();
        // One word's worth: an image must not push the text after it into the part that is sampled.
        self.length += 1;
        let hash = hash_bytes(bytes, 0);
        self.features.note(hash);
        self.features.votes.add(hash);
    }

    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.length == 0 && self.gathered.is_empty()
    }

    /// The fingerprint of all that was pushed. As new afterwards.
    pub fn finish(&mut self) -> Fingerprint {
        self.part();
        self.normaliser.push(last_block(&self.skipped), &mut self.features);
        self.normaliser.finish(&mut self.features);
        self.skipped.clear();
        self.length = 0;
        self.features.finish()
    }

    fn take(&mut self, mut chunk: &[u8]) {
        while !chunk.is_empty() {
            let (take, skip) = sample(self.length, chunk.len());
            let (now, later) = chunk.split_at(take);
            if take > 0 {
                self.normaliser.push(now, &mut self.features);
                self.skipped.clear();
            }
            let (skipped, later) = later.split_at(skip);
            if skip > 0 {
                self.normaliser.finish(&mut self.features);
                self.skip(skipped);
            }
            self.length += take + skip;
            chunk = later;
        }
    }

    /// Keeps the end of what is skipped. Trimmed only now and then, so that small pieces cost no more than large ones.
    fn skip(&mut self, bytes: &[u8]) {
        self.skipped.extend_from_slice(last_block(bytes));
        if self.skipped.len() > 2 * BLOCK {
            self.skipped.drain(..self.skipped.len() - BLOCK);
        }
    }

    fn cut(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let gathered = std::mem::take(&mut self.gathered);
        let patterns = Rc::clone(&self.patterns);
        cut(&patterns, &String::from_utf8_lossy(&gathered), |part| match part {
            Part::Text(text) => self.take(text.as_bytes()),
            Part::Match(index) => {
                self.normaliser.finish(&mut self.features);
                self.length += 1;
                self.features.placeholder(Placeholder::Custom(index));
            }
        });
    }
}

/// The last [`BLOCK`] bytes, or all of fewer.
fn last_block(bytes: &[u8]) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(BLOCK)..).unwrap_or_default()
}

/// How many of the next `available` bytes to take, and how many to skip after them.
fn sample(position: usize, available: usize) -> (usize, usize) {
    if position < FULL {
        return (available.min(FULL - position), 0);
    }
    let beyond = position - FULL;
    let stride = BLOCK << (position / FULL).ilog2().saturating_add(2);
    let within = beyond % stride;
    if within < BLOCK { (available.min(BLOCK - within), 0) } else { (0, available.min(stride - within)) }
}

/// Tokens to votes and digest.
#[derive(Clone, Debug, Default)]
struct Features {
    votes: Accumulator,
    digest: u64,
    distinct_words: u32,
}

impl Features {
    fn finish(&mut self) -> Fingerprint {
        let digest = mix(self.digest);
        let fingerprint = Fingerprint {
            simhash: self.votes.finish(),
            digest: (digest >> 32) as u32,
            informative: self.distinct_words >= INFORMATIVE_WORDS,
        };
        self.digest = 0;
        self.distinct_words = 0;
        fingerprint
    }

    #[inline(always)]
    fn note(&mut self, value: u64) {
        self.digest = (self.digest.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

const NUMBER: u64 = 0x3C79_AC49_2BA7_B653;
const TIMESTAMP: u64 = 0x1C69_B3F7_4AC4_AE35;
const ID: u64 = 0xD1B5_4A32_D192_ED03;
const CUSTOM: u64 = 0xABC9_8388_FB8F_AC03;

impl Sink for Features {
    #[inline(always)]
    fn word(&mut self, word: Word<'_>) {
        let hash = match word {
            Word::Ascii(bytes) => hash_bytes(bytes, 0x2020_2020_2020_2020),
            Word::Folded(bytes) => hash_bytes(bytes, 0),
        };
        self.note(hash);
        self.distinct_words += u32::from(self.votes.add(hash));
    }

    fn number(&mut self, digits: &[u8], kind: Number) {
        self.note(match kind {
            Number::Plain => hash_bytes(digits, 0),
            Number::Label => NUMBER,
        });
        self.votes.add(NUMBER);
    }

    fn placeholder(&mut self, placeholder: Placeholder) {
        let hash = match placeholder {
            Placeholder::Timestamp => TIMESTAMP,
            Placeholder::Id => ID,
            Placeholder::Custom(index) => mix(CUSTOM ^ u64::from(index)),
        };
        self.note(hash);
        self.votes.add(hash);
    }

    #[inline(always)]
    fn gap(&mut self, _: &[u8]) {}
}

/// The hash of a short piece of bytes, each or-ed with its byte of `fold`: 0x20 makes ASCII letters lower case.
///
/// Loads overlap where the length is no multiple of eight, so that nothing is copied and no byte is read alone.
#[inline(always)]
pub fn hash_bytes(bytes: &[u8], fold: u64) -> u64 {
    const K1: u64 = 0x9E37_79B9_7F4A_7C15;
    const K2: u64 = 0xE703_7ED1_A0B4_28DB;
    let len = bytes.len();
    let (low, high) = match len {
        0 => return K2,
        1..4 => {
            let at = |index: usize| u64::from(bytes.get(index).copied().unwrap_or(0));
            ((at(0) | at(len / 2) << 8 | at(len - 1) << 16) | fold, 0)
        }
        4..8 => (u64::from(u32_at(bytes, 0)) | fold, u64::from(u32_at(bytes, len - 4)) | fold),
        8..=16 => (u64_at(bytes, 0) | fold, u64_at(bytes, len - 8) | fold),
        _ => return hash_long(bytes, fold),
    };
    mix((low ^ K1.wrapping_mul(len as u64)).wrapping_mul(K2) ^ high.wrapping_mul(K1).rotate_left(32))
}

/// As [`hash_bytes`], for more than 16 bytes.
fn hash_long(bytes: &[u8], fold: u64) -> u64 {
    let mut hash = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let word = match chunk.len() {
            8 => u64_at(chunk, 0),
            _ => u64_at(bytes, bytes.len() - 8),
        };
        hash = mix(hash ^ (word | fold)).rotate_left(17);
    }
    mix(hash)
}

#[inline(always)]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|slice| slice.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[inline(always)]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|slice| slice.try_into().ok()).map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Fingerprint {
        let mut fingerprinter = Fingerprinter::default();
        for chunk in chunks {
            fingerprinter.push(chunk);
        }
        fingerprinter.finish()
    }

    /// Words that do not repeat, so that each change has its place.
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
    fn chunk_boundaries_are_invisible_in_long_texts() {
        for bytes in [FULL - 1, FULL + BLOCK, 3 * FULL + 77, 17 * FULL] {
            let text = long_text(bytes);
            let whole = fingerprint([&text[..]]);
            for chunk in [1_000, 65_536] {
                assert_eq!(fingerprint(text.chunks(chunk)), whole, "{bytes} bytes in chunks of {chunk}");
            }
        }
    }

    #[test]
    fn a_question_after_a_long_document_is_always_read() {
        for bytes in (FULL - 100..10 * FULL).step_by(61_113) {
            let document = long_text(bytes);
            let ask = |question: &'static str| fingerprint([&document[..], question.as_bytes()]);
            let (cost, author) = (ask("\nWhat does it cost in total?"), ask("\nWho wrote it, and for whom?"));
            assert!(!cost.is_same(author), "after {bytes} bytes");
            assert_eq!(cost, ask("\nWhat does it cost in total?"));
        }
    }

    #[test]
    fn the_same_holds_where_the_question_is_a_part_of_its_own() {
        let ask = |question: &str| {
            let mut fingerprinter = Fingerprinter::default();
            for part in [&long_text(2 * FULL + 3 * BLOCK), question.as_bytes()] {
                fingerprinter.push(part);
                fingerprinter.part();
            }
            fingerprinter.finish()
        };
        assert!(!ask("What does it cost?").is_same(ask("Who wrote it?")));
    }

    #[test]
    fn text_after_a_large_image_is_read_in_full() {
        let ask = |detail: &str| {
            let mut fingerprinter = Fingerprinter::default();
            fingerprinter.opaque(&vec![7; 3 * FULL + 3 * BLOCK]);
            fingerprinter.push(format!("{detail} {}", String::from_utf8_lossy(&long_text(4 * BLOCK))).as_bytes());
            fingerprinter.finish()
        };
        assert!(!ask("In the first picture").is_same(ask("In the second one")));
    }
}
