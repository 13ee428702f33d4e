//! Tokens to a fingerprint, with a counter for each of the 64 bits and a set for what has been seen.

use std::collections::HashSet;

use agent_kill_switch::detect::fingerprint::{Fingerprint, hash_bytes};
use agent_kill_switch::detect::simhash::{SimHash, mix};

use super::normalise::{Token, tokens};

/// What stands for numbers, timestamps and ids.
const NUMBER: u64 = 0x3C79_AC49_2BA7_B653;
const TIMESTAMP: u64 = 0x1C69_B3F7_4AC4_AE35;
const ID: u64 = 0xD1B5_4A32_D192_ED03;
/// Words after which a number says nothing.
const COUNTED: [&str; 3] = ["id", "attempt", "retry"];
/// Words after which what has been seen is forgotten for the first time; then after twice as many each time.
const FIRST_WINDOW: u32 = 1024;

/// Votes so far.
pub struct Counters {
    votes: [i64; 64],
    seen: HashSet<u64>,
    window: u32,
    left: u32,
    previous: u64,
    digest: u64,
    distinct_words: u32,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            votes: [0; 64],
            seen: HashSet::new(),
            window: FIRST_WINDOW,
            left: FIRST_WINDOW,
            previous: 0,
            digest: 0,
            distinct_words: 0,
        }
    }
}

impl Counters {
    /// Takes a text.
    pub fn text(&mut self, text: &str) {
        for token in tokens(text) {
            match token {
                Token::Word(word) => {
                    let hash = hash_bytes(word.as_bytes(), 0);
                    self.note(hash);
                    self.distinct_words += u32::from(self.add(hash));
                }
                Token::Number { digits, plain } => {
                    let says_nothing = COUNTED.iter().any(|word| hash_bytes(word.as_bytes(), 0) == self.previous);
                    self.note(if plain && !says_nothing { hash_bytes(digits.as_bytes(), 0) } else { NUMBER });
                    self.add(NUMBER);
                }
                Token::Timestamp => self.both(TIMESTAMP),
                Token::Id => self.both(ID),
                Token::Gap(_) => {}
            }
        }
    }

    /// Takes what is no text, as one word.
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.both(hash_bytes(bytes, 0));
    }

    /// The fingerprint.
    pub fn finish(self) -> Fingerprint {
        let bit = |(bit, votes): (usize, &i64)| u64::from(*votes > 0) << bit;
        Fingerprint {
            simhash: SimHash(self.votes.iter().enumerate().map(bit).sum()),
            digest: (mix(self.digest) >> 32) as u32,
            informative: self.distinct_words >= 3,
        }
    }

    fn both(&mut self, hash: u64) {
        self.note(hash);
        self.add(hash);
    }

    fn note(&mut self, hash: u64) {
        self.digest = (self.digest.rotate_left(5) ^ hash).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    /// Takes a word and the pair that it makes with the one before; whether the word was new.
    fn add(&mut self, word: u64) -> bool {
        if self.left == 0 {
            self.seen.clear();
            self.window *= 2;
            self.left = self.window;
        }
        self.left -= 1;
        let is_new = self.vote(word, 2);
        self.vote(mix(self.previous.rotate_left(23) ^ word), 1);
        self.previous = word;
        is_new
    }

    fn vote(&mut self, feature: u64, weight: i64) -> bool {
        let is_new = self.seen.insert(feature >> 49);
        if is_new {
            for (bit, votes) in self.votes.iter_mut().enumerate() {
                *votes += if feature >> bit & 1 == 1 { weight } else { -weight };
            }
        }
        is_new
    }
}
