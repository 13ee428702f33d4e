//! SimHash: a 64-bit hash of words that differs in few bits between similar texts.
//!
//! The features of a text are its *distinct* words (weight 2) and its *distinct* pairs of neighbouring words (weight 1);
//! the first word forms a pair with the start of the text. Counting features as often as they occur fails on long texts,
//! where a few frequent words outvote all others: of 22 million pairs of different texts, it put 78 % of those at 60 KB
//! within 5 bits of each other. Counting distinct features put none there, at any length.
//!
//! The hash of each feature votes on 64 bits ([`votes`](super::votes) counts them). A bitmap, not a set, tells which
//! features are distinct: a feature whose slot is taken does not vote. The bitmap is cleared after 1,024 words, and then
//! after twice as many each time, so that long texts keep voting. Two texts that are compared lose the same features.

use super::hash::{append, hash_pair};
use super::votes::{BATCH, Votes, majority};

/// A 64-bit SimHash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SimHash(pub u64);

impl SimHash {
    /// Returns in how many of the 64 bits the two differ.
    pub fn distance(self, other: Self) -> u32 {
        (self.0 ^ other.0).count_ones()
    }

    /// Returns whether the two texts count as similar.
    pub fn is_similar(self, other: Self) -> bool {
        self.distance(other) < SIMILAR_BELOW
    }
}

/// Two texts are similar if their hashes differ in fewer bits than this.
pub const SIMILAR_BELOW: u32 = 3;

/// How many words pass before the bitmap is cleared for the first time. A multiple of the batch.
const FIRST_WINDOW: usize = 16 * BATCH;
/// The size of the bitmap in 64-bit words: 32,768 slots in 4 KB.
const BITMAP_WORDS: usize = 512;

/// Computes a SimHash. Words are gathered into batches before they vote, so that the loop over a batch has no branch and
/// keeps its state in registers.
#[derive(Clone, Debug)]
pub struct Accumulator {
    /// The latest words: a batch, and the words that may come before it votes.
    latest: [u64; 2 * BATCH],
    /// How many words there were.
    count: usize,
    /// How many of them have voted; a multiple of the batch.
    voted: usize,
    /// The last word that has voted; 0 at the start.
    previous: u64,
    /// Hash of the sequence of words that have voted.
    order: u64,
    words: Votes,
    pairs: Votes,
    seen: SeenFeatures,
    until_clear: usize,
    window: usize,
}

impl Default for Accumulator {
    fn default() -> Self {
        Self {
            latest: [0; 2 * BATCH],
            count: 0,
            voted: 0,
            previous: 0,
            order: 0,
            words: Votes::default(),
            pairs: Votes::default(),
            seen: SeenFeatures::default(),
            until_clear: FIRST_WINDOW,
            window: FIRST_WINDOW,
        }
    }
}

impl Accumulator {
    /// Takes the hash of the next word. [`settle`](Self::settle) must be called after at most [`BATCH`] words; calling it
    /// for each word would slow down the loop that finds them.
    #[inline(always)]
    pub fn gather(&mut self, word: u64) {
        if let Some(place) = self.latest.get_mut(self.count % (2 * BATCH)) {
            *place = word;
        }
        self.count = self.count.wrapping_add(1);
    }

    /// Returns whether a batch of words is waiting to vote.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.waiting() >= BATCH
    }

    /// Lets a batch vote, if one is waiting.
    #[inline(always)]
    pub fn settle(&mut self) {
        if self.is_due() {
            self.vote(BATCH);
        }
    }

    /// Returns how many words there were.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the words after the first `count`, as far as they are still kept: the latest batch and those after it.
    pub fn since(&self, count: usize) -> impl Iterator<Item = u64> {
        (count..self.count).filter_map(|at| self.latest.get(at % (2 * BATCH)).copied())
    }

    /// Returns the hash of the latest word; 0 if there is none.
    pub fn latest(&self) -> u64 {
        self.since(self.count.saturating_sub(1)).next().unwrap_or_default()
    }

    fn waiting(&self) -> usize {
        self.count.wrapping_sub(self.voted)
    }

    /// Returns the SimHash of all words and the hash of their sequence, and starts anew.
    pub fn finish(&mut self) -> (SimHash, u64) {
        self.vote(self.waiting());
        let fingerprint = (SimHash(majority(&mut self.words, &mut self.pairs)), self.order);
        match (self.words.voters(), self.pairs.voters()) {
            // A short text has set few bits, which are cleared one by one.
            (Some(words), Some(pairs)) => words.chain(pairs).for_each(|feature| self.seen.forget(feature)),
            _ => self.seen.clear(),
        }
        self.words.clear();
        self.pairs.clear();
        (self.count, self.voted) = (0, 0);
        self.previous = 0;
        self.order = 0;
        self.window = FIRST_WINDOW;
        self.until_clear = FIRST_WINDOW;
        fingerprint
    }

    /// Lets the next `count` words and their pairs vote, unless they have voted before.
    #[inline(never)] // V8 compiles a hot loop better if it is not part of a larger function
    fn vote(&mut self, count: usize) {
        if self.until_clear == 0 {
            self.seen.clear();
            self.window = self.window.saturating_mul(2);
            self.until_clear = self.window;
        }
        self.until_clear -= count;
        let (batches, _) = self.latest.as_chunks::<BATCH>();
        let batch = batches.get(self.voted / BATCH % 2).and_then(|batch| batch.get(..count)).unwrap_or_default();
        let (mut previous, mut order) = (self.previous, self.order);
        let (mut words, mut pairs) = (self.words.next(), self.pairs.next());
        for &word in batch {
            let pair = hash_pair(previous, word);
            // Always put; a feature that is not new is overwritten by the next one.
            self.words.put(words, word);
            words = words.plus(self.seen.one_if_new(word));
            self.pairs.put(pairs, pair);
            pairs = pairs.plus(self.seen.one_if_new(pair));
            order = append(order, word);
            previous = word;
        }
        (self.previous, self.order) = (previous, order);
        self.voted = self.voted.wrapping_add(count);
        self.words.count(words);
        self.pairs.count(pairs);
    }
}

/// The bitmap of features that have been seen. The highest bits of a feature are the number of its bit.
#[derive(Clone, Debug)]
struct SeenFeatures([u64; BITMAP_WORDS]);

impl Default for SeenFeatures {
    fn default() -> Self {
        Self([0; BITMAP_WORDS])
    }
}

impl SeenFeatures {
    fn clear(&mut self) {
        self.0.fill(0);
    }

    fn forget(&mut self, feature: u64) {
        if let Some(word) = self.0.get_mut((feature >> 55) as usize) {
            *word = 0;
        }
    }

    /// Marks a feature as seen. Returns 1 if its bit was not set before, otherwise 0: a number instead of a branch, which
    /// the processor could not predict.
    #[inline(always)]
    fn one_if_new(&mut self, feature: u64) -> usize {
        let Some(word) = self.0.get_mut((feature >> 55) as usize) else { return 0 };
        let (before, slot) = (*word, 1u64.wrapping_shl((feature >> 49) as u32));
        *word = before | slot;
        usize::from(before & slot == 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fingerprint::hash::mix;
    use crate::fingerprint::naive::simhash::Counters;

    fn add(accumulator: &mut Accumulator, word: u64) {
        accumulator.gather(word);
        accumulator.settle();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn bit_sliced_counting_agrees_with_the_naive_counters(seed: u64, count in 0u64..4000, vocabulary in 1u64..3000) {
            let (mut accumulator, mut counters) = (Accumulator::default(), Counters::default());
            for word in (0..count).map(|i| mix(1 + mix(seed ^ i) % vocabulary)) {
                add(&mut accumulator, word);
                counters.add(word);
            }
            prop_assert_eq!(accumulator.finish().0, counters.finish().simhash);
            prop_assert_eq!(accumulator.finish(), (SimHash(0), 0), "starts anew");
        }
    }

    #[test]
    fn finish_clears_the_bitmap_whatever_the_length() {
        let mut accumulator = Accumulator::default();
        for (vocabulary, count) in (1..30).flat_map(|vocabulary| (0..400).map(move |count| (vocabulary, count))) {
            for at in 0..count {
                add(&mut accumulator, mix(1 + mix(at) % vocabulary));
            }
            accumulator.finish();
            assert!(accumulator.seen.0.iter().all(|word| *word == 0), "{count} words of {vocabulary}");
        }
    }

    #[test]
    fn hashes_that_differ_in_two_bits_are_similar_and_in_three_are_not() {
        assert!(SimHash(0).is_similar(SimHash(3)));
        assert!(!SimHash(0).is_similar(SimHash(7)));
    }
}
