//! What is kept of a text: its SimHash, an exact digest, and whether it says enough to identify anything.
//!
//! The digest tells *the same* from *nearly the same*. It is taken of the same tokens, in order, with one difference:
//! plain numbers keep their value. "12 tests failed" and "7 tests failed" are similar to a SimHash, but an agent that
//! gets from one to the other has made progress. Numbers that are named as ids or attempts do not: "attempt 3" says
//! nothing that "attempt 2" did not.
//!
//! A text beyond about 100 KB is sampled: blocks of it, ever further apart, and its end, so that the cost of a megabyte
//! stays near that of a hundred kilobytes. The end matters more than its size says: a question stands after the
//! document that it is about. A change in what is skipped is not seen.
//!
//! Where blocks begin is counted in *steady* bytes, of which no number, timestamp or UUID is made. Counted in bytes, one
//! more digit near the start would move every block: up to 5 bits between texts that differ only in that number.

pub mod display;
pub mod naive;
pub mod normalise;
pub mod patterns;
pub mod simhash;

mod stamps;
#[cfg(test)]
mod tests;
mod votes;

use std::rc::Rc;

use crate::scan::Malformed;
use crate::scan::lanes::{at_least, halves};
use crate::scan::unescape::{rest_of_escape, unescape};
use normalise::{Normaliser, Number, Placeholder, Sink, WORD_MAX, Word};
use patterns::{GATHER_MAX, Part, Pattern, cut};
use simhash::{Accumulator, SimHash, follow, mix};

/// Steady bytes of a text that are always read: about 100 KB of English or code, 52 KB of Chinese, where every byte is.
const FULL: usize = 104 * BLOCK;
/// Beyond that, one block of this many steady bytes is read of every eight, then sixteen, then thirty-two blocks...
const BLOCK: usize = 512;
/// Steady bytes at the end of a text that are always read.
const END: usize = 512;
/// Bytes kept for it, which may hold fewer steady ones.
const END_BYTES: usize = 4096;
/// No more bytes than this are read, the end aside: what is all digits or capitals has no steady bytes to count.
const READ_MAX: usize = 512 * 1024;
/// Fewer distinct words than this identify nothing: "ok", "done", an empty output.
const INFORMATIVE_WORDS: usize = 3;

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
    /// Apart, since it is large, and a fingerprinter is passed from hand to hand.
    features: Box<Features>,
    /// Steady bytes so far, read or skipped.
    position: usize,
    /// Bytes read so far.
    read: usize,
    /// The end of what has been skipped since the last block: [`END_BYTES`], or some more.
    skipped: Vec<u8>,
    skipped_as: Spelling,
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
            return self.take_plain(chunk);
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

    /// Takes the next chunk of the text as it stands in a JSON string, escapes and all. What is skipped is not even
    /// unescaped.
    pub fn push_escaped(&mut self, raw: &[u8]) -> Result<(), Malformed> {
        if self.patterns.is_empty() && self.excerpt.len() >= self.excerpt_max {
            return self.take(raw, Spelling::Json);
        }
        unescape(raw, &mut |piece| self.push(piece))
    }

    /// Ends a part: what comes next is another text, not its continuation.
    pub fn part(&mut self) {
        self.cut();
        self.normaliser.finish(&mut *self.features);
        if !self.skipped.is_empty() {
            self.skip(b"\n", self.skipped_as);
        }
    }

    /// Takes what is not text, such as an image, as if it were one word.
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.part();
        // One word's worth: an image must not push the text after it into the part that is sampled.
        self.read += 1;
        self.features.other(hash_bytes(bytes));
        self.features.pause();
    }

    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.read == 0 && self.gathered.is_empty()
    }

    /// The fingerprint of all that was pushed. As new afterwards.
    pub fn finish(&mut self) -> Fingerprint {
        self.part();
        if !self.skipped.is_empty() {
            let end = end_of(&self.skipped);
            // Of an escape that the end begins within, nothing is known.
            if self.skipped_as.read(end, &mut self.normaliser, &mut self.features).is_err() {
                self.normaliser.push(end, &mut *self.features);
            }
            self.normaliser.finish(&mut *self.features);
            self.skipped.clear();
        }
        self.position = 0;
        self.read = 0;
        self.features.finish()
    }

    fn take_plain(&mut self, chunk: &[u8]) {
        // Only escapes can be malformed.
        let _ = self.take(chunk, Spelling::Plain);
    }

    fn take(&mut self, mut chunk: &[u8], spelling: Spelling) -> Result<(), Malformed> {
        while !chunk.is_empty() {
            let (is_read, wanted) = stretch(self.position);
            let room = READ_MAX.saturating_sub(self.read);
            let is_read = is_read && room > 0;
            let limit = if is_read { chunk.len().min(room) } else { chunk.len() };
            let (len, steady) = advance(chunk.get(..limit).unwrap_or_default(), wanted);
            let (now, later) = chunk.split_at(len + spelling.beyond(chunk, len));
            if is_read {
                spelling.read(now, &mut self.normaliser, &mut self.features)?;
                self.read += now.len();
                self.skipped.clear();
            } else {
                self.normaliser.finish(&mut *self.features);
                self.skip(now, spelling);
            }
            self.position += steady;
            chunk = later;
        }
        Ok(())
    }

    /// Keeps the end of what is skipped. Trimmed only now and then, so that small pieces cost no more than large ones.
    fn skip(&mut self, bytes: &[u8], spelling: Spelling) {
        self.skipped_as = spelling;
        self.skipped.extend_from_slice(last(bytes, END_BYTES));
        if self.skipped.len() > 2 * END_BYTES {
            self.skipped.drain(..self.skipped.len() - END_BYTES);
        }
    }

    fn cut(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let gathered = std::mem::take(&mut self.gathered);
        let patterns = Rc::clone(&self.patterns);
        cut(&patterns, &String::from_utf8_lossy(&gathered), |part| match part {
            Part::Text(text) => self.take_plain(text.as_bytes()),
            Part::Match(index) => {
                self.normaliser.finish(&mut *self.features);
                self.read += 1;
                self.features.placeholder(Placeholder::Custom(index));
                self.features.pause();
            }
        });
    }
}

/// How a text is written.
#[derive(Clone, Copy, Debug, Default)]
enum Spelling {
    /// As it is.
    #[default]
    Plain,
    /// As in a JSON string.
    Json,
}

impl Spelling {
    #[inline(always)]
    fn read(self, text: &[u8], normaliser: &mut Normaliser, features: &mut Features) -> Result<(), Malformed> {
        match self {
            Self::Plain => {
                normaliser.push(text, features);
                Ok(())
            }
            Self::Json => unescape(text, &mut |piece| normaliser.push(piece, features)),
        }
    }

    /// How many more bytes belong to the character that a cut would split.
    fn beyond(self, text: &[u8], cut: usize) -> usize {
        match self {
            Self::Plain => 0,
            Self::Json => rest_of_escape(text, cut),
        }
    }
}

/// Whether what comes at a position is read, and for how many steady bytes that holds.
fn stretch(position: usize) -> (bool, usize) {
    if position < FULL {
        return (true, FULL - position);
    }
    let stride = BLOCK << (position / FULL).ilog2().saturating_add(3);
    let within = (position - FULL) & (stride - 1);
    if within < BLOCK { (true, BLOCK - within) } else { (false, stride - within) }
}

/// Of this byte and all higher ones no number, timestamp or UUID is made: lower-case letters beyond `f`, and all beyond
/// ASCII. One comparison, since every byte of a text is asked.
const STEADY: u8 = b'g';

fn is_steady(byte: u8) -> bool {
    byte >= STEADY
}

/// How many bytes it takes to pass `wanted` steady ones, and how many were passed: fewer where the bytes end before.
fn advance(bytes: &[u8], wanted: usize) -> (usize, usize) {
    let (groups, rest) = bytes.as_chunks();
    let mut passed = 0;
    for (number, group) in groups.iter().enumerate() {
        let steady = at_least(group, STEADY);
        let count = steady.count_ones() as usize;
        if passed + count >= wanted {
            return (number * GROUP + nth(steady, wanted - passed), wanted);
        }
        passed += count;
    }
    let steady = steady_at_end(bytes, rest);
    let count = steady.count_ones() as usize;
    if passed + count >= wanted {
        return (bytes.len() - rest.len() + nth(steady, wanted - passed), wanted);
    }
    (bytes.len(), passed + count)
}

/// Bytes asked at once.
const GROUP: usize = 64;

/// Which of the last bytes are steady, fewer than a group of them.
fn steady_at_end(bytes: &[u8], rest: &[u8]) -> u64 {
    let mut padded = [0; GROUP];
    match bytes.last_chunk() {
        _ if rest.is_empty() => 0,
        Some(group) => at_least(group, STEADY) >> (GROUP - rest.len()),
        None => {
            padded.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            at_least(&padded, STEADY)
        }
    }
}

/// How many bytes it takes to pass the `nth` one of these, from 1.
fn nth(mut mask: u64, nth: usize) -> usize {
    for _ in 1..nth {
        mask &= mask.wrapping_sub(1);
    }
    mask.trailing_zeros() as usize + 1
}

/// The end of what was skipped, from a steady byte on.
fn end_of(skipped: &[u8]) -> &[u8] {
    let kept = last(skipped, END_BYTES);
    let start = kept.iter().enumerate().rev().filter(|(_, byte)| is_steady(**byte)).nth(END - 1);
    kept.get(start.map_or(0, |(index, _)| index)..).unwrap_or_default()
}

/// The last so many bytes, or all of fewer.
fn last(bytes: &[u8], count: usize) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(count)..).unwrap_or_default()
}

/// Tokens to votes and digest.
#[derive(Clone, Debug, Default)]
struct Features {
    votes: Accumulator,
    /// Identifies the values of plain numbers, in their order.
    numbers: u64,
    /// The first distinct words, as many as tell whether there are enough.
    distinct: [u64; INFORMATIVE_WORDS],
    distinct_count: usize,
    /// How many of the words were looked at for that, and of what votes beside them.
    noted: usize,
}

impl Features {
    fn finish(&mut self) -> Fingerprint {
        self.note_words();
        let (simhash, order) = self.votes.finish();
        let numbers = std::mem::take(&mut self.numbers);
        let distinct = std::mem::take(&mut self.distinct_count);
        self.noted = 0;
        Fingerprint {
            simhash,
            digest: (mix(follow(order, numbers)) >> 32) as u32,
            informative: distinct == INFORMATIVE_WORDS,
        }
    }

    /// Takes what votes, but is no word.
    fn other(&mut self, hash: u64) {
        self.note_words();
        self.votes.gather(hash);
        self.noted = self.votes.count();
    }

    /// Looks for distinct words among the latest, as long as there are not enough.
    #[inline(always)]
    fn note_words(&mut self) {
        if self.distinct_count < INFORMATIVE_WORDS {
            self.note_distinct();
        }
    }

    #[cold]
    fn note_distinct(&mut self) {
        for word in self.votes.since(self.noted) {
            let (known, free) = self.distinct.split_at_mut(self.distinct_count);
            let Some(slot) = free.first_mut() else { break };
            if !known.contains(&word) {
                *slot = word;
                self.distinct_count += 1;
            }
        }
        self.noted = self.votes.count();
    }
}

/// Words after which even a plain number only counts or labels: `id`, `attempt`, `retry`.
const COUNTED: [u64; 3] =
    [hash_short((0x6469, 0)), hash_short((0x0074_706D_6574_7461, 0)), hash_short((0x0079_7274_6572, 0))];
const NUMBER: u64 = 0x3C79_AC49_2BA7_B653;
const TIMESTAMP: u64 = 0x1C69_B3F7_4AC4_AE35;
const ID: u64 = 0xD1B5_4A32_D192_ED03;
const CUSTOM: u64 = 0xABC9_8388_FB8F_AC03;

impl Sink for Features {
    #[inline(always)]
    fn word(&mut self, word: Word<'_>) {
        let hash = match word {
            Word::Short(_, folded) => hash_short(folded),
            Word::Ascii(bytes) => hash_ascii(bytes),
            Word::Folded(bytes) => hash_bytes(bytes),
        };
        self.votes.gather(hash);
    }

    fn number(&mut self, digits: &[u8], kind: Number) {
        if kind == Number::Plain && !COUNTED.contains(&self.votes.latest()) {
            self.numbers = follow(self.numbers, hash_bytes(digits));
        }
        self.other(NUMBER);
    }

    fn placeholder(&mut self, placeholder: Placeholder) {
        let hash = match placeholder {
            Placeholder::Timestamp => TIMESTAMP,
            Placeholder::Id => ID,
            Placeholder::Custom(index) => mix(CUSTOM ^ u64::from(index)),
        };
        self.other(hash);
    }

    #[inline(always)]
    fn gap(&mut self, _: &[u8]) {}

    #[inline(always)]
    fn pause(&mut self) {
        if self.votes.is_due() {
            self.note_words();
            self.votes.settle();
        }
    }
}

/// The hash of a word in lower case, by whatever way it comes.
pub fn hash_word(word: &str) -> u64 {
    if word.is_ascii() { hash_ascii(word.as_bytes()) } else { hash_bytes(word.as_bytes()) }
}

/// The hash of ASCII letters, whatever their case.
fn hash_ascii(letters: &[u8]) -> u64 {
    let mut folded = [0; WORD_MAX];
    folded.iter_mut().zip(letters).for_each(|(to, from)| *to = from | 0x20);
    match folded.first_chunk() {
        Some(first) if letters.len() <= 16 => hash_short(halves(first)),
        _ => hash_bytes(folded.get(..letters.len()).unwrap_or_default()),
    }
}

/// The hash of one to sixteen letters, the first in the lowest byte and zeros after the last.
#[inline(always)]
const fn hash_short((low, high): (u64, u64)) -> u64 {
    let hash = low.wrapping_mul(0x9FB2_1C65_1E98_DF25) ^ high.wrapping_mul(0xE703_7ED1_A0B4_28DB);
    let hash = (hash ^ (hash >> 29)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    hash ^ (hash >> 32)
}

/// The hash of any bytes.
#[inline(always)]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    match *bytes {
        // An ideograph: there are many of them, and all are words.
        [a, b, c] => mix(u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 3])),
        _ => hash_any(bytes),
    }
}

fn hash_any(bytes: &[u8]) -> u64 {
    const K1: u64 = 0x9E37_79B9_7F4A_7C15;
    const K2: u64 = 0xE703_7ED1_A0B4_28DB;
    let len = bytes.len();
    match len {
        0 => K2,
        1..8 => {
            let mut padded = [0; 8];
            padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            mix(u64::from_le_bytes(padded) | (len as u64) << 56)
        }
        // Loads overlap where the length is no multiple of eight, so that no byte is read alone.
        8..=16 => {
            let (low, high) = (u64_at(bytes, 0), u64_at(bytes, len - 8));
            mix((low ^ K1.wrapping_mul(len as u64)).wrapping_mul(K2) ^ high.wrapping_mul(K1).rotate_left(32))
        }
        _ => hash_long(bytes),
    }
}

/// As [`hash_bytes`], for more than 16 bytes: an image is megabytes, so four words at once, which do not wait for each
/// other.
fn hash_long(bytes: &[u8]) -> u64 {
    const LANES: usize = 4;
    let mut lanes = [0x9E37_79B9_7F4A_7C15, 0xE703_7ED1_A0B4_28DB, 0x9FB2_1C65_1E98_DF25, 0xD6E8_FEB8_6659_FD93];
    let mut add = |words: &[u64; LANES]| {
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = (*lane ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        }
    };
    let (blocks, rest) = bytes.as_chunks::<{ 8 * LANES }>();
    for block in blocks {
        add(&words(block));
    }
    let mut last = [0; 8 * LANES];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    add(&words(&last));
    lanes.iter().fold(bytes.len() as u64, |hash, lane| mix(hash.rotate_left(17) ^ lane))
}

#[inline(always)]
fn words(block: &[u8; 32]) -> [u64; 4] {
    let (low, high) = block.split_at(16);
    [u64_at(low, 0), u64_at(low, 8), u64_at(high, 0), u64_at(high, 8)]
}

#[inline(always)]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|slice| slice.try_into().ok()).map_or(0, u64::from_le_bytes)
}
