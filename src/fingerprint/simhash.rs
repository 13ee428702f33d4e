//! Tokens to a 64-bit fingerprint: similar texts lie few bits apart.
//!
//! Features are the *distinct* words (weight 2) and the *distinct* pairs of neighbouring words (weight 1), the beginning
//! of the text being the first word's neighbour. Counting
//! features as often as they occur is blind on long texts, where a few frequent words outvote all others: of 22 million
//! pairs of different texts it put 78 % of those at 60 KB within 5 bits; this scheme put none there at any length.
//!
//! Each feature's hash votes on 64 bits ([`votes`](super::votes) counts them). Distinctness is a bitmap, not a set: a
//! feature whose slot is taken is lost. It is cleared after 1,024 words, then after twice as many each time, so that long
//! texts keep voting. Both sides of a comparison lose the same features.

use super::votes::{BATCH, Votes, majority};

/// A 64-bit SimHash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SimHash(pub u64);

impl SimHash {
    /// In how many of the 64 bits the two differ.
    pub fn distance(self, other: Self) -> u32 {
        (self.0 ^ other.0).count_ones()
    }

    /// Whether the two texts count as similar.
    pub fn is_similar(self, other: Self) -> bool {
        self.distance(other) < SIMILAR_BELOW
    }
}

/// Fingerprints fewer bits apart than this are similar.
pub const SIMILAR_BELOW: u32 = 3;

/// Words in the first window of distinctness: whole batches.
const FIRST_WINDOW: usize = 16 * BATCH;
/// Slots of the bitmap: 32,768, in 4 KB.
const SLOT_WORDS: usize = 512;

/// Counts votes until [`finish`](Self::finish). Words are gathered before they vote, so that the loop over them has
/// no branch in it and keeps its state in registers.
#[derive(Clone, Debug)]
pub struct Accumulator {
    /// The latest words: a batch, and as many again that may come before it votes.
    latest: [u64; 2 * BATCH],
    /// Words so far.
    count: usize,
    /// Those of them that have voted: whole batches.
    voted: usize,
    /// The last word that has voted; 0 at the beginning.
    previous: u64,
    /// Identifies all words that have voted, in their order.
    order: u64,
    words: Votes,
    pairs: Votes,
    seen: Seen,
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
            seen: Seen::default(),
            until_clear: FIRST_WINDOW,
            window: FIRST_WINDOW,
        }
    }
}

impl Accumulator {
    /// Takes the hash of the next word.
    pub fn add(&mut self, word: u64) {
        self.gather(word);
        self.settle();
    }

    /// Takes the hash of the next word, and leaves the rest to [`settle`](Self::settle), which is to be called after at
    /// most [`BATCH`] words. A call of it for each would be in the way of the loop that finds them.
    #[inline(always)]
    pub fn gather(&mut self, word: u64) {
        if let Some(place) = self.latest.get_mut(self.count % (2 * BATCH)) {
            *place = word;
        }
        self.count = self.count.wrapping_add(1);
    }

    /// Whether there is a batch that has not voted.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.waiting() >= BATCH
    }

    /// Lets a batch vote, if there is one.
    #[inline(always)]
    pub fn settle(&mut self) {
        if self.is_due() {
            self.vote(BATCH);
        }
    }

    /// How many words there were.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The words after the first so many. Only the latest are kept: a batch of them, and those that wait to be one.
    pub fn since(&self, count: usize) -> impl Iterator<Item = u64> {
        (count..self.count).filter_map(|at| self.latest.get(at % (2 * BATCH)).copied())
    }

    /// The hash of the latest word; 0 before the first.
    pub fn latest(&self) -> u64 {
        self.since(self.count.saturating_sub(1)).next().unwrap_or_default()
    }

    fn waiting(&self) -> usize {
        self.count.wrapping_sub(self.voted)
    }

    /// The fingerprint of all words so far, and a hash that identifies them in their order. The accumulator is as new
    /// afterwards.
    pub fn finish(&mut self) -> (SimHash, u64) {
        self.vote(self.waiting());
        let fingerprint = (SimHash(majority(&mut self.words, &mut self.pairs)), self.order);
        match (self.words.voters(), self.pairs.voters()) {
            // A short text has taken few of the slots.
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

    /// Lets so many words and their pairs vote, those that are new.
    #[inline(never)] // as the scanner
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
            let pair = pair(previous, word);
            // Put in any case: what is not new is overwritten by the next one.
            self.words.put(words, word);
            words = words.plus(self.seen.one_if_new(word));
            self.pairs.put(pairs, pair);
            pairs = pairs.plus(self.seen.one_if_new(pair));
            order = follow(order, word);
            previous = word;
        }
        (self.previous, self.order) = (previous, order);
        self.voted = self.voted.wrapping_add(count);
        self.words.count(words);
        self.pairs.count(pairs);
    }
}

/// Which features have been seen: a bit for each slot, and the highest bits of a feature are its slot.
#[derive(Clone, Debug)]
struct Seen([u64; SLOT_WORDS]);

impl Default for Seen {
    fn default() -> Self {
        Self([0; SLOT_WORDS])
    }
}

impl Seen {
    fn clear(&mut self) {
        self.0.fill(0);
    }

    fn forget(&mut self, feature: u64) {
        if let Some(word) = self.0.get_mut((feature >> 55) as usize) {
            *word = 0;
        }
    }

    /// Takes a feature's slot: 1 where it was free, else 0. No branch, since it could not be foreseen.
    #[inline(always)]
    fn one_if_new(&mut self, feature: u64) -> usize {
        let Some(word) = self.0.get_mut((feature >> 55) as usize) else { return 0 };
        let (before, slot) = (*word, 1u64.wrapping_shl((feature >> 49) as u32));
        *word = before | slot;
        usize::from(before & slot == 0)
    }
}

/// The hash of two neighbouring words. Theirs are well mixed, so that little is left to do.
#[inline(always)]
pub fn pair(first: u64, second: u64) -> u64 {
    (first.rotate_left(23) ^ second).wrapping_mul(0x9FB2_1C65_1E98_DF25)
}

/// The hash of a sequence that another value follows.
#[inline(always)]
pub fn follow(sequence: u64, value: u64) -> u64 {
    (sequence.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Spreads every bit over all others.
#[inline(always)]
pub const fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 32)).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    hash = (hash ^ (hash >> 29)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use proptest::prelude::*;

    /// The same scheme with 64 counters and a set.
    fn naive(words: &[u64]) -> SimHash {
        let mut counters = [0i64; 64];
        let mut seen = HashSet::new();
        let mut window = 1024;
        let mut left = window;
        let mut previous = 0u64;
        for &word in words {
            if left == 0 {
                seen.clear();
                window *= 2;
                left = window;
            }
            left -= 1;
            for (feature, weight) in [(word, 2), (pair(previous, word), 1)] {
                if seen.insert(feature >> 49) {
                    for (bit, counter) in counters.iter_mut().enumerate() {
                        *counter += if feature >> bit & 1 == 1 { weight } else { -weight };
                    }
                }
            }
            previous = word;
        }
        SimHash(counters.iter().enumerate().fold(0, |hash, (bit, &counter)| hash | u64::from(counter > 0) << bit))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn bit_sliced_counting_agrees_with_counters(seed in any::<u64>(), count in 0usize..4000, vocabulary in 1u64..3000) {
            let words: Vec<u64> = (0..count as u64).map(|i| mix(1 + mix(seed ^ i) % vocabulary)).collect();
            let mut accumulator = Accumulator::default();
            for &word in &words {
                accumulator.add(word);
            }
            prop_assert_eq!(accumulator.finish().0, naive(&words));
            prop_assert_eq!(accumulator.finish(), (SimHash(0), 0), "as new afterwards");
        }
    }

    #[test]
    fn no_slot_stays_taken_whatever_the_length() {
        let mut accumulator = Accumulator::default();
        for (vocabulary, count) in (1..30).flat_map(|vocabulary| (0..400).map(move |count| (vocabulary, count))) {
            for at in 0..count {
                accumulator.add(mix(1 + mix(at) % vocabulary));
            }
            accumulator.finish();
            assert!(accumulator.seen.0.iter().all(|word| *word == 0), "{count} words of {vocabulary}");
        }
    }

    #[test]
    fn distance_counts_the_bits_that_differ_and_is_symmetric() {
        for (a, b, distance) in [(1, 2, 2), (1, 3, 1), (0, 15, 4), (0, u64::MAX, 64), (7, 7, 0)] {
            assert_eq!(SimHash(a).distance(SimHash(b)), distance);
            assert_eq!(SimHash(b).distance(SimHash(a)), distance);
        }
        assert!(SimHash(0).is_similar(SimHash(3)));
        assert!(!SimHash(0).is_similar(SimHash(7)));
    }
}
