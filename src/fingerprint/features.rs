//! Tokens to a fingerprint: words vote for the SimHash, and numbers also enter the digest.

use super::Fingerprint;
use super::hash::{append, hash_ascii, hash_bytes, hash_short, mix};
use super::normalise::{Number, Placeholder, Sink, Word};
use super::simhash::Accumulator;

/// A text with fewer distinct words than this identifies nothing: "ok", "done", an empty output.
const INFORMATIVE_WORDS: usize = 3;

/// The hashes of `id`, `attempt` and `retry`. A number after one of them only labels or counts, so its value is ignored.
const LABEL_WORDS: [u64; 3] =
    [hash_short((0x6469, 0)), hash_short((0x0074_706D_6574_7461, 0)), hash_short((0x0079_7274_6572, 0))];

/// The hashes that stand for numbers, timestamps, ids and operators' patterns.
const NUMBER: u64 = 0x3C79_AC49_2BA7_B653;
const TIMESTAMP: u64 = 0x1C69_B3F7_4AC4_AE35;
const ID: u64 = 0xD1B5_4A32_D192_ED03;
const CUSTOM: u64 = 0xABC9_8388_FB8F_AC03;

/// Collects what a fingerprint is made of.
#[derive(Clone, Debug, Default)]
pub struct Features {
    votes: Accumulator,
    /// Hash of the sequence of those numbers whose value matters.
    numbers: u64,
    /// The first distinct words; no more than are needed to tell whether the text is informative.
    distinct: [u64; INFORMATIVE_WORDS],
    distinct_count: usize,
    /// How many of the votes have been looked at for distinct words.
    noted: usize,
}

impl Features {
    /// Returns the fingerprint, and starts anew.
    pub fn finish(&mut self) -> Fingerprint {
        self.note_words();
        let (simhash, order) = self.votes.finish();
        let numbers = std::mem::take(&mut self.numbers);
        let distinct = std::mem::take(&mut self.distinct_count);
        self.noted = 0;
        Fingerprint {
            simhash,
            digest: (mix(append(order, numbers)) >> 32) as u32,
            informative: distinct == INFORMATIVE_WORDS,
            failing: false,
        }
    }

    /// Adds a vote that does not count as a word.
    pub fn add_non_word(&mut self, hash: u64) {
        self.note_words();
        self.votes.gather(hash);
        self.noted = self.votes.count();
    }

    /// Looks for distinct words among the latest votes, unless enough have been found.
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

impl Sink for Features {
    #[inline(always)]
    fn word(&mut self, word: Word<'_>) {
        let hash = match word {
            Word::Short(_, folded) => hash_short(folded),
            Word::Ascii(bytes) => hash_ascii(bytes),
            Word::Lowercase(bytes) => hash_bytes(bytes),
        };
        self.votes.gather(hash);
    }

    fn number(&mut self, digits: &[u8], kind: Number) {
        if kind == Number::Value && !LABEL_WORDS.contains(&self.votes.latest()) {
            self.numbers = append(self.numbers, hash_bytes(digits));
        }
        self.add_non_word(NUMBER);
    }

    fn placeholder(&mut self, placeholder: Placeholder) {
        let hash = match placeholder {
            Placeholder::Timestamp => TIMESTAMP,
            Placeholder::Id => ID,
            Placeholder::Custom(index) => mix(CUSTOM ^ u64::from(index)),
        };
        self.add_non_word(hash);
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
