//! Tells quickly whether a text may contain a loop that the finder would find.
//!
//! The finder hashes every word, which takes more than twice as long as computing the fingerprint of a text. A text that is
//! known as a whole can be sampled instead. In a loop, any few bytes come again one period later, and so does what
//! follows them. So it is enough to look at a few *landmarks*, and to search for each of them a limited number of bytes
//! ahead, its *reach*. This takes about one instruction per byte.
//!
//! A landmark with reach `R` serves the loops with periods from `R / 2` to `R` bytes. Such a loop has ten rounds, which are
//! more than `5 R` bytes. So there must be one every `2.6 R` bytes: it is at the beginning of the loop, it comes again
//! within the next `R` bytes, and the `R` bytes after that are in the loop as well. Therefore every landmark has the
//! shortest reach, every second one twice that, every fourth one four times that, and so on, up to a ninth of the text.
//!
//! A yes only means that the finder must read the text. A no is certain if all rounds are about equally long: white space
//! may differ from round to round, as long as no round is a tenth longer than the others. The text may contain the escapes
//! of JSON strings, provided that they are used consistently.

use super::{MIN_ROUNDS, MIN_WORDS};
use crate::scan::lanes::{at_least, equal, equal_pairs};

/// The length of the shortest loop: at least half of its words have two letters, and there is white space between them.
const LOOP_BYTES_MIN: usize = MIN_WORDS as usize * 5 / 2 - 1;
/// The distance between landmarks. This, twice the shortest reach and the 56 bytes in which a landmark may begin are less
/// than the shortest loop.
const SPACING: usize = 250;
/// The shortest reach.
const REACH_MIN: usize = 96;
/// The distance at which the search for a landmark begins. Shorter periods have a multiple between this and the shortest
/// reach. What remains of the shortest reach is searched at once.
const DISTANCE_MIN: usize = REACH_MIN - 64;
/// How often the reach can be doubled. Enough for texts of 50 MB.
const DOUBLINGS_MAX: u32 = 16;

/// Returns whether the text may contain a loop.
pub fn may_repeat(text: &[u8]) -> bool {
    if text.len() < LOOP_BYTES_MIN {
        return false;
    }
    let reach_max = REACH_MIN.max(text.len() / (MIN_ROUNDS as usize - 1));
    let mut sampler = Sampler { text, effort: text.len() / 4 };
    (0..text.len() / SPACING).any(|number| {
        let reach = REACH_MIN << number.trailing_zeros().min(DOUBLINGS_MAX);
        sampler.repeats_at(number * SPACING, reach.min(reach_max))
    })
}

/// A few bytes of a text that contain no white space.
struct Landmark {
    /// Where it begins in the 64 bytes from which it was chosen.
    at: usize,
    /// How many bytes it has.
    len: usize,
}

impl Landmark {
    /// Chooses the first eight bytes without white space. If there are none, chooses four.
    #[inline(always)]
    fn choose(bytes: &[u8; 64]) -> Option<Self> {
        let backslashes = equal(bytes, b'\\');
        // The letter after a backslash may make it white space. There may be a backslash before the first byte.
        let dark = at_least(bytes, b' ' + 1) & !(backslashes | backslashes << 1 | 1);
        let pairs = dark & dark >> 1;
        let fours = pairs & pairs >> 2;
        let eights = fours & fours >> 4;
        let (starts, len) = if eights == 0 { (fours, 4) } else { (eights, 8) };
        (starts != 0).then(|| Self { at: starts.trailing_zeros() as usize, len })
    }
}

struct Sampler<'a> {
    text: &'a [u8],
    /// How many comparisons of eight bytes are left. This bounds the time for texts such as long rows of dashes, in which a
    /// landmark is found everywhere.
    effort: usize,
}

impl Sampler<'_> {
    /// Returns whether the landmark near `at` comes again within its reach, with the same words after it. Also returns true
    /// if this is not known.
    fn repeats_at(&mut self, at: usize, reach: usize) -> bool {
        let Some(near) = self.text.get(at..).and_then(<[u8]>::first_chunk) else { return false };
        let Some(landmark) = Landmark::choose(near) else { return true };
        let at = at + landmark.at;
        let wanted = self.bytes_at(at);
        let last = landmark.len - 1;
        let ends = [wanted as u8, (wanted >> (8 * last)) as u8];
        let ignored_bits = 64 - 8 * landmark.len as u32;
        let mut from = at + DISTANCE_MIN;
        while from < at + reach {
            let Some(blocks) = self.blocks_at(from, last) else { return false };
            let mut places = equal_pairs(blocks, ends);
            while places != 0 {
                let place = from + places.trailing_zeros() as usize;
                let is_same = (self.bytes_at(place) ^ wanted) << ignored_bits == 0;
                if is_same && self.has_same_words(at, place) {
                    return true;
                }
                places &= places - 1;
            }
            from += 64;
        }
        false
    }

    /// Returns the eight bytes at a place, with zeros after the end of the text.
    #[inline(always)]
    fn bytes_at(&self, at: usize) -> u64 {
        let rest = self.text.get(at..).unwrap_or_default();
        u64::from_le_bytes(rest.first_chunk().copied().unwrap_or_else(|| padded(rest)))
    }

    /// Returns the 64 bytes at `from`, and those `distance` bytes later. There are none at the end of the text, where a
    /// repetition would be too short in any case.
    #[inline(always)]
    fn blocks_at(&self, from: usize, distance: usize) -> Option<[&[u8; 64]; 2]> {
        let text = self.text.get(from..from + 64 + distance)?;
        Some([text.first_chunk()?, text.last_chunk()?])
    }

    /// Returns whether the text between two places comes again after the second one, apart from white space.
    #[inline(never)]
    fn has_same_words(&mut self, mut one: usize, mut other: usize) -> bool {
        let end = other.max(one + REACH_MIN);
        while one < end {
            if self.effort == 0 {
                return true;
            }
            self.effort -= 1;
            let same = (self.bytes_at(one) ^ self.bytes_at(other)).trailing_zeros() as usize / 8;
            (one, other) = (one + same, other + same);
            if same < 8 && one < end {
                // The difference may be in the letter after a backslash.
                let escape = usize::from(one > 0 && self.text.get(one - 1) == Some(&b'\\'));
                let after_space = (self.skip_space(one - escape), self.skip_space(other - escape));
                if after_space == (one - escape, other - escape) {
                    return false;
                }
                (one, other) = after_space;
            }
        }
        true
    }

    /// Returns where the white space at a place ends, whether it is escaped or not.
    fn skip_space(&self, mut at: usize) -> usize {
        loop {
            at += match self.text.get(at..) {
                Some([(..=b' '), ..]) => 1,
                Some([b'\\', b'n' | b't' | b'r' | b'b' | b'f', ..]) => 2,
                _ => return at,
            }
        }
    }
}

#[cold]
fn padded(bytes: &[u8]) -> [u8; 8] {
    let mut padded = [0; 8];
    padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    padded
}

#[cfg(test)]
mod tests;
