//! The fingerprint with a counter for each of the 64 bits and a set of the features that have been seen.

use std::collections::HashSet;

use super::normalise::{Token, plain, tokens};
use crate::fingerprint::Fingerprint;
use crate::fingerprint::hash::{append, hash_bytes, hash_pair, hash_word, mix};
use crate::fingerprint::simhash::SimHash;

/// The hashes that stand for numbers, timestamps and ids.
const NUMBER: u64 = 0x3C79_AC49_2BA7_B653;
const TIMESTAMP: u64 = 0x1C69_B3F7_4AC4_AE35;
const ID: u64 = 0xD1B5_4A32_D192_ED03;
/// Words after which the value of a number does not matter.
const LABEL_WORDS: [&str; 3] = ["id", "attempt", "retry"];
/// How many words pass before the set of seen features is cleared for the first time; then twice as many each time.
const FIRST_WINDOW: u32 = 1024;

/// The votes on each bit, and what else a fingerprint is made of.
pub struct Counters {
    votes: [i64; 64],
    seen: HashSet<u64>,
    window: u32,
    left: u32,
    previous: u64,
    order: u64,
    numbers: u64,
    words: HashSet<u64>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            votes: [0; 64],
            seen: HashSet::new(),
            window: FIRST_WINDOW,
            left: FIRST_WINDOW,
            previous: 0,
            order: 0,
            numbers: 0,
            words: HashSet::new(),
        }
    }
}

impl Counters {
    /// Takes a text.
    pub fn text(&mut self, text: &str) {
        let text = plain(text);
        for token in tokens(&text) {
            match token {
                Token::Word(word) => {
                    let hash = hash_word(&word);
                    self.words.insert(hash);
                    self.add(hash);
                }
                Token::Number { digits, is_value } => {
                    let is_label = LABEL_WORDS.iter().any(|word| hash_word(word) == self.previous);
                    if is_value && !is_label {
                        self.numbers = append(self.numbers, hash_bytes(digits.as_bytes()));
                    }
                    self.add(NUMBER);
                }
                Token::Timestamp => self.add(TIMESTAMP),
                Token::Id => self.add(ID),
                Token::Gap(_) => {}
            }
        }
    }

    /// Takes data that is not text, as a single word.
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.add(hash_bytes(bytes));
    }

    /// Returns the fingerprint.
    pub fn finish(self) -> Fingerprint {
        let bit = |(bit, votes): (usize, &i64)| u64::from(*votes > 0) << bit;
        Fingerprint {
            simhash: SimHash(self.votes.iter().enumerate().map(bit).sum()),
            digest: (mix(append(self.order, self.numbers)) >> 32) as u32,
            informative: self.words.len() >= 3,
            failing: false,
        }
    }

    /// Takes the hash of a word, and the pair that it forms with the word before.
    pub fn add(&mut self, word: u64) {
        if self.left == 0 {
            self.seen.clear();
            self.window *= 2;
            self.left = self.window;
        }
        self.left -= 1;
        self.vote(word, 2);
        self.vote(hash_pair(self.previous, word), 1);
        self.order = append(self.order, word);
        self.previous = word;
    }

    fn vote(&mut self, feature: u64, weight: i64) {
        if self.seen.insert(feature >> 49) {
            for (bit, votes) in self.votes.iter_mut().enumerate() {
                *votes += if feature >> bit & 1 == 1 { weight } else { -weight };
            }
        }
    }
}
