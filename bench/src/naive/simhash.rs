//! Computes a fingerprint from tokens, with a counter for each of the 64 bits and a set of the features seen.

use std::collections::HashSet;

use agent_kill_switch::fingerprint::naive::{Token, tokens};
use agent_kill_switch::fingerprint::simhash::{SimHash, follow, mix, pair};
use agent_kill_switch::fingerprint::{Fingerprint, hash_bytes, hash_word};

/// The hashes of numbers, timestamps and ids.
const NUMBER: u64 = 0x3C79_AC49_2BA7_B653;
const TIMESTAMP: u64 = 0x1C69_B3F7_4AC4_AE35;
const ID: u64 = 0xD1B5_4A32_D192_ED03;
/// Words after which a number is ignored.
const COUNTED: [&str; 3] = ["id", "attempt", "retry"];
/// After this many words the set is cleared for the first time, then after twice as many each time.
const FIRST_WINDOW: u32 = 1024;

/// Votes so far.
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
    pub fn text(&mut self, text: &str) {
        for token in tokens(text) {
            match token {
                Token::Word(word) => {
                    let hash = hash_word(&word);
                    self.words.insert(hash);
                    self.add(hash);
                }
                Token::Number { digits, plain } => {
                    let is_ignored = COUNTED.iter().any(|word| hash_word(word) == self.previous);
                    if plain && !is_ignored {
                        self.numbers = follow(self.numbers, hash_bytes(digits.as_bytes()));
                    }
                    self.add(NUMBER);
                }
                Token::Timestamp => self.add(TIMESTAMP),
                Token::Id => self.add(ID),
                Token::Gap(_) => {}
            }
        }
    }

    /// Adds anything that is not text as one word.
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.add(hash_bytes(bytes));
    }

    pub fn finish(self) -> Fingerprint {
        let bit = |(bit, votes): (usize, &i64)| u64::from(*votes > 0) << bit;
        Fingerprint {
            simhash: SimHash(self.votes.iter().enumerate().map(bit).sum()),
            digest: (mix(follow(self.order, self.numbers)) >> 32) as u32,
            informative: self.words.len() >= 3,
        }
    }

    /// Adds a word and the pair of the word before and this one.
    fn add(&mut self, word: u64) {
        if self.left == 0 {
            self.seen.clear();
            self.window *= 2;
            self.left = self.window;
        }
        self.left -= 1;
        self.vote(word, 2);
        self.vote(pair(self.previous, word), 1);
        self.order = follow(self.order, word);
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
