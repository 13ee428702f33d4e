//! The hash functions of the fingerprint: of words, of other bytes, and of sequences of hashes.
//!
//! They are fast and spread their input well over 64 bits, but they are not cryptographic. Windows in shared data and the
//! naive SimHash depend on their values, so changing one of them changes every fingerprint.

use super::normalise::WORD_MAX;
use crate::scan::lanes::halves;

/// Returns the hash of a word in lower case. Equal to the hash that the normaliser's words get.
pub fn hash_word(word: &str) -> u64 {
    if word.is_ascii() { hash_ascii(word.as_bytes()) } else { hash_bytes(word.as_bytes()) }
}

/// Returns the hash of ASCII letters, ignoring their case.
pub(super) fn hash_ascii(letters: &[u8]) -> u64 {
    let mut folded = [0; WORD_MAX];
    folded.iter_mut().zip(letters).for_each(|(to, from)| *to = from | 0x20);
    match folded.first_chunk() {
        Some(first) if letters.len() <= 16 => hash_short(halves(first)),
        _ => hash_bytes(folded.get(..letters.len()).unwrap_or_default()),
    }
}

/// Returns the hash of one to sixteen letters in lower case, the first in the lowest byte and zeros after the last.
#[inline(always)]
pub(super) const fn hash_short((low, high): (u64, u64)) -> u64 {
    let hash = low.wrapping_mul(0x9FB2_1C65_1E98_DF25) ^ high.wrapping_mul(0xE703_7ED1_A0B4_28DB);
    let hash = (hash ^ (hash >> 29)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    hash ^ (hash >> 32)
}

/// Returns the hash of any bytes.
#[inline(always)]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    match *bytes {
        // Ideographs have three bytes, each of them is a word, and a text may consist of nothing else.
        [a, b, c] => mix(u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 3])),
        _ => hash_other(bytes),
    }
}

fn hash_other(bytes: &[u8]) -> u64 {
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
        // The two loads overlap if there are fewer than sixteen bytes, so that no byte is loaded alone.
        8..=16 => {
            let (low, high) = (u64_at(bytes, 0), u64_at(bytes, len - 8));
            mix((low ^ K1.wrapping_mul(len as u64)).wrapping_mul(K2) ^ high.wrapping_mul(K1).rotate_left(32))
        }
        _ => hash_long(bytes),
    }
}

/// Returns the hash of more than 16 bytes. An image has megabytes, so four words are hashed side by side: they do not
/// depend on each other, and the processor works on them at the same time.
fn hash_long(bytes: &[u8]) -> u64 {
    let mut lanes = [0x9E37_79B9_7F4A_7C15, 0xE703_7ED1_A0B4_28DB, 0x9FB2_1C65_1E98_DF25, 0xD6E8_FEB8_6659_FD93];
    let (blocks, rest) = bytes.as_chunks();
    for block in blocks {
        lanes = add(lanes, words(block));
    }
    let last = |from: usize| match rest.len().saturating_sub(from) {
        0 => 0,
        // Fewer than eight bytes are loaded together with those before them.
        left @ 1..8 => u64_at(bytes, bytes.len() - 8) >> (64 - 8 * left),
        _ => u64_at(rest, from),
    };
    lanes = add(lanes, [last(0), last(8), last(16), last(24)]);
    lanes.iter().fold(bytes.len() as u64, |hash, lane| mix(hash.rotate_left(17) ^ lane))
}

/// Written out, because a compiler that saves space leaves a loop of four rounds as it is.
#[inline(always)]
fn add([a, b, c, d]: [u64; 4], words: [u64; 4]) -> [u64; 4] {
    let one = |lane: u64, word: u64| (lane ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let [e, f, g, h] = words;
    [one(a, e), one(b, f), one(c, g), one(d, h)]
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

/// Returns the hash of two neighbouring words, given the hashes of both. These are well mixed already, so one
/// multiplication is enough.
#[inline(always)]
pub fn hash_pair(first: u64, second: u64) -> u64 {
    (first.rotate_left(23) ^ second).wrapping_mul(0x9FB2_1C65_1E98_DF25)
}

/// Returns the hash of a sequence with one more value at its end. The hash of the empty sequence is 0.
#[inline(always)]
pub fn append(sequence: u64, value: u64) -> u64 {
    (sequence.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Mixes a hash so that every bit of the input affects every bit of the result.
#[inline(always)]
pub const fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 32)).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    hash = (hash ^ (hash >> 29)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    hash ^ (hash >> 32)
}
