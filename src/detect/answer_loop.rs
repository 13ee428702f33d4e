//! Finds an answer in which the model repeats itself word for word, while the answer passes.
//!
//! The text comes in chunks of any size and is cut into words at white space; an ideograph begins a word of its own. If
//! every word equals the one `period` words before it, and this has held for [`MIN_ROUNDS`] rounds and [`MIN_WORDS`]
//! words, the model is in a loop. Words are compared exactly, with their digits, so the rows of a table and the items of a
//! list differ.
//!
//! Each word costs constant time. Two small tables hold the hashes of the latest words, and where each sequence of
//! sixteen words was last seen. The distance to that place is the only period that is tried, and the hashes then show
//! whether it holds. A table that looks up single words would not be enough: in "he said that she said" the distance to the
//! last "said" is not the period. The known inaccuracy: if the period itself contains the same sixteen words twice, the loop
//! may be found a round late.
//!
//! Code, tables and data may repeat legitimately, such as the empty rows of a form. Therefore a period that does not
//! consist of language (see [`Tally::is_language`]) must hold for [`MIN_WORDS_OTHER`] words, and one without any letters
//! is never a loop.
//!
//! A text that is known as a whole, such as an answer that is not streamed, is checked with [`may_repeat`] first. Almost
//! every text fails this check, which takes a small part of the time.

mod landmarks;

pub use landmarks::may_repeat;

use crate::fingerprint::hash::mix;
use crate::wire::Repetition;

/// How often the same words must come.
pub const MIN_ROUNDS: u32 = 10;
/// How many words all rounds together must have.
pub const MIN_WORDS: u32 = 200;
/// The same for periods that are not language.
pub const MIN_WORDS_OTHER: u32 = 1_000;
/// The longest period, in words.
pub const MAX_PERIOD: u32 = RECENT as u32 - LOOK_BACK;

/// How many words are remembered. A power of two.
const RECENT: usize = 1024;
/// How far the beginning of a repetition is looked for when its period becomes known. Longer than a sequence.
const LOOK_BACK: u32 = 64;
/// A sequence is hashed by shifting by so many bits for each word, so that the sixteenth word before is shifted out.
const SEQUENCE_SHIFT: u32 = 4;
/// Words are classified only after so many repeated ones, since most text never repeats that much.
const CLASSIFIED_FROM: u32 = 16;
/// How many different words of language a period must have.
const DISTINCT_WORDS: usize = 3;
/// The hash of an empty word.
const EMPTY: u64 = 0x9E37_79B9_7F4A_7C15;

/// Looks for a repetition in one text. Takes 4 KB from its first word on.
#[derive(Clone, Debug)]
pub struct RepetitionFinder {
    /// The hash of the word that is being read.
    word: u64,
    shape: Shape,
    memory: Option<Box<Memory>>,
    /// How many words have been read.
    count: u32,
    /// The hash of the latest words.
    sequence: u64,
    /// The distance at which words are compared; 0 if there is none.
    period: u32,
    /// How many words in a row were the same as the one a period before.
    run: u32,
    tally: Tally,
    found: Option<Repetition>,
}

impl Default for RepetitionFinder {
    fn default() -> Self {
        Self {
            word: EMPTY,
            shape: Shape::default(),
            memory: None,
            count: 0,
            sequence: 0,
            period: 0,
            run: 0,
            tally: Tally::default(),
            found: None,
        }
    }
}

/// What is remembered of the latest words. Hashes of 16 bits are enough: a false loop takes nine wrong matches in a row.
#[derive(Clone, Debug)]
struct Memory {
    /// The hash of each of the latest words, at its position modulo [`RECENT`].
    recent: [u16; RECENT],
    /// Where the sequence with this hash was last seen, modulo 2^16. Wrong if another sequence has the same hash.
    seen_at: [u16; RECENT],
}

impl Memory {
    fn word(&self, position: u32) -> u16 {
        self.recent.get(position as usize % RECENT).copied().unwrap_or(0)
    }

    /// Notes a word and the sequence that ends with it. Returns where the sequence was last seen.
    fn note(&mut self, position: u32, word: u16, sequence: u64) -> u16 {
        if let Some(place) = self.recent.get_mut(position as usize % RECENT) {
            *place = word;
        }
        let slot = (sequence.wrapping_mul(EMPTY) >> 32) as usize % RECENT;
        self.seen_at.get_mut(slot).map_or(0, |place| std::mem::replace(place, position as u16))
    }
}

impl RepetitionFinder {
    /// Takes the next chunk of the text.
    #[inline(never)] // so that it is compiled once
    pub fn push(&mut self, text: &[u8]) {
        if self.found.is_some() {
            return;
        }
        let mut word = self.word;
        for &byte in text {
            let is_space = byte <= b' ';
            if (is_space || is_ideograph(byte)) && word != EMPTY {
                self.word = word;
                self.end_word();
                word = EMPTY;
                if self.found.is_some() {
                    return;
                }
            }
            if !is_space {
                word = (word ^ u64::from(byte)).wrapping_mul(0x9FB2_1C65_1E98_DF25).rotate_left(23);
                if self.run >= CLASSIFIED_FROM {
                    self.shape.add(byte);
                }
            }
        }
        self.word = word;
    }

    /// Ends the word that is being read.
    #[inline(never)]
    pub fn end_word(&mut self) {
        if self.word == EMPTY || self.found.is_some() {
            return;
        }
        let hash = mix(self.word);
        let (word, position) = ((hash >> 48) as u16, self.count);
        self.word = EMPTY;
        self.count = position.wrapping_add(1);
        self.sequence = self.sequence << SEQUENCE_SHIFT ^ hash;
        let shape = std::mem::take(&mut self.shape);
        let new = || Box::new(Memory { recent: [0; RECENT], seen_at: [0; RECENT] });
        let memory = self.memory.get_or_insert_with(new);
        let seen_at = memory.note(position, word, self.sequence);
        let distance = u32::from((position as u16).wrapping_sub(seen_at));
        if self.period > 0 && memory.word(position.wrapping_sub(self.period)) == word {
            self.run += 1;
            if self.run > CLASSIFIED_FROM {
                self.tally.add(word, shape);
                // A wrong place in the table may have made a multiple of the period look like it.
                let is_part = distance > 0 && distance < self.period && self.period.is_multiple_of(distance);
                if is_part && repeated(memory, position, distance).1 == LOOK_BACK {
                    (self.period, self.run) = (distance, LOOK_BACK);
                }
                self.judge();
            }
            return;
        }
        (self.period, self.run) = repeated(memory, position, distance);
        self.tally = Tally::default();
    }

    /// The repetition, if there is one.
    pub fn found(&self) -> Option<Repetition> {
        self.found
    }

    fn judge(&mut self) {
        let words = self.run + self.period;
        let is_long = words >= MIN_WORDS.max(MIN_ROUNDS * self.period);
        if is_long && (self.tally.is_language() || (words >= MIN_WORDS_OTHER && self.tally.with_letters > 0)) {
            self.found = Some(Repetition { period: self.period, words });
        }
    }
}

/// Returns the distance, and how many words up to `position` are the same as those at that distance. Returns zeros if
/// none are, or if the distance is too long.
fn repeated(memory: &Memory, position: u32, distance: u32) -> (u32, u32) {
    if distance == 0 || distance > MAX_PERIOD {
        return (0, 0);
    }
    let most = LOOK_BACK.min(position.saturating_add(1).saturating_sub(distance));
    let is_same = |back: &u32| memory.word(position - back) == memory.word(position - back - distance);
    match (0..most).take_while(is_same).count() as u32 {
        0 => (0, 0),
        run => (distance, run),
    }
}

/// Whether the byte begins a character of Chinese or Japanese, whose words are not separated: U+3000 to U+9FFF.
fn is_ideograph(byte: u8) -> bool {
    (0xE3..=0xE9).contains(&byte)
}

/// What a word consists of.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    letters: u32,
    /// Whether it has digits or characters that only code and tables have.
    is_code: bool,
}

impl Shape {
    fn add(&mut self, byte: u8) {
        match byte {
            _ if is_ideograph(byte) => self.letters += 2,
            // The first bytes of letters beyond ASCII. Those of symbols, dashes and lines (0xE2) are not among them.
            b'a'..=b'z' | b'A'..=b'Z' | 0xC3..=0xE1 | 0xEA..=0xED => self.letters += 1,
            b'\'' | b'"' | b'.' | b',' | b':' | b'!' | b'?' | b'*' | b'-' | 0x80.. => {}
            _ => self.is_code = true,
        }
    }
}

/// What the repeated words are.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    words: u32,
    /// Words with at least two letters.
    with_letters: u32,
    /// Of these, words without digits and code.
    plain: u32,
    distinct: [Option<u16>; DISTINCT_WORDS],
}

impl Tally {
    fn add(&mut self, word: u16, shape: Shape) {
        self.words += 1;
        if shape.letters < 2 {
            return;
        }
        self.with_letters += 1;
        if shape.is_code {
            return;
        }
        self.plain += 1;
        for place in &mut self.distinct {
            if *place.get_or_insert(word) == word {
                break;
            }
        }
    }

    /// Whether the words are language: at least half of them are plain words, and three of those are different.
    fn is_language(&self) -> bool {
        self.plain * 2 >= self.words && self.distinct.iter().all(Option::is_some)
    }
}

#[cfg(test)]
pub(crate) mod tests;
