//! Fingerprints: what is kept of a text, and how it is computed.
//!
//! [`Fingerprinter`] takes a text in chunks. It decides which parts of a long text are read (`sample`), replaces what
//! operators' `patterns` match, cuts the text into tokens (`normalise`), hashes them (`hash`) and lets them vote on the
//! bits of a `simhash`. Every byte of a request passes through here, so this code is written for speed; `naive` is the
//! same computation written for clarity, and the tests compare the two.

pub mod display;
pub mod hash;
pub mod naive;
pub mod normalise;
pub mod patterns;
pub mod simhash;

mod dates;
mod features;
mod fingerprinter;
mod invisible;
mod months;
mod sample;
mod script;
mod stamps;
mod votes;

pub use fingerprinter::Fingerprinter;
pub use hash::hash_bytes;

use simhash::SimHash;

/// What is kept of a text.
///
/// The SimHash tells whether two texts are similar, the digest whether they are the same. Both are computed from the same
/// tokens, with one difference: in the digest, numbers that stand alone keep their value. "12 tests failed" and "7 tests
/// failed" are similar, but an agent that gets from one to the other has made progress. Numbers that only label do not
/// count: "attempt 3" says nothing that "attempt 2" did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    /// Similar texts differ in few bits of it.
    pub simhash: SimHash,
    /// A hash of all tokens in their order.
    pub digest: u32,
    /// Whether the text has enough distinct words to identify anything.
    pub informative: bool,
    /// Whether the text is the result of a tool that failed. The text is the same with and without this.
    pub failing: bool,
}

impl Fingerprint {
    /// Returns whether the two texts are similar.
    pub fn is_similar(self, other: Self) -> bool {
        self.simhash.is_similar(other.simhash)
    }

    /// Returns whether the two texts are the same except for volatile parts such as timestamps.
    pub fn is_same(self, other: Self) -> bool {
        self.digest == other.digest && self.is_similar(other)
    }
}
