//! Counts the votes on 64 bits in bit-sliced counters: plane `k` holds bit `k` of all 64 counters.
//!
//! A vector holds two such sets of counters, one for even and one for odd features; they are added up at the end.
//! Carry-save adders take sixteen features at once. Their carry waits for a second one, and the two together make a carry
//! for the next plane. So each plane is updated half as often as the one below it, and when that happens does not depend
//! on the features. This takes about five instructions per feature; 64 separate counters take sixty.

use std::ops::{BitAnd, BitOr, BitXor};

use crate::scan::lanes::Lanes;

/// The most features that may be put between two calls of [`Votes::count`].
pub const BATCH: usize = 64;
/// The size of the ring of features: room for a batch and for what is left over from the one before.
const RING: usize = 2 * BATCH;
/// How many features the adders take at once.
const GROUP: usize = 16;
/// How many planes there are above the adders: enough for billions of votes.
const PLANES: usize = 29;

/// 64 counters, and the features that have not been counted yet.
#[derive(Clone, Debug)]
pub struct Votes {
    ring: [u64; RING],
    /// How many votes there are. Those of complete groups are counted, the others are still in the ring.
    total: usize,
    ones: Lanes,
    twos: Lanes,
    fours: Lanes,
    /// The planes from the eights up.
    higher: [Plane; PLANES],
}

/// One plane of the counters, and a carry that waits for a second one. In plane `k` a carry is waiting if bit `k` of the
/// number of groups is set; otherwise `waiting` has no meaning.
#[derive(Clone, Copy, Debug)]
struct Plane {
    sum: Lanes,
    waiting: Lanes,
}

impl Default for Votes {
    fn default() -> Self {
        let zero = zero();
        let higher = [Plane { sum: zero, waiting: zero }; PLANES];
        Self { ring: [0; RING], total: 0, ones: zero, twos: zero, fours: zero, higher }
    }
}

/// A position in the ring of features.
#[derive(Clone, Copy)]
pub struct Place(usize);

impl Place {
    /// Returns the position `count` further on.
    #[inline(always)]
    pub fn plus(self, count: usize) -> Self {
        Self((self.0 + count) % RING)
    }
}

impl Votes {
    /// Returns where the next feature goes.
    #[inline(always)]
    pub fn next(&self) -> Place {
        Place(self.total % RING)
    }

    /// Puts a feature into the ring.
    #[inline(always)]
    pub fn put(&mut self, place: Place, feature: u64) {
        if let Some(slot) = self.ring.get_mut(place.0) {
            *slot = feature;
        }
    }

    /// Counts the features before `end`, of which at most a batch may be new. Features that do not fill a group are counted
    /// later.
    #[inline(always)]
    pub fn count(&mut self, end: Place) {
        let counted = self.total / GROUP;
        self.total += end.0.wrapping_sub(self.total) % RING;
        for group in counted..self.total / GROUP {
            self.add(group);
        }
    }

    /// Returns all features that have voted, if the ring still holds them. A full ring does not: its first feature may have
    /// been overwritten by one that was put but not counted.
    pub fn voters(&self) -> Option<impl Iterator<Item = u64>> {
        self.ring.get(..self.total).filter(|voters| voters.len() < RING).map(|voters| voters.iter().copied())
    }

    /// Forgets all votes.
    pub fn clear(&mut self) {
        (self.ones, self.twos) = (zero(), zero());
        for plane in self.higher.iter_mut().take(bits(self.total)) {
            plane.sum = zero();
        }
        // Not next to the other two: the compiler would call `memory.fill` for three in a row, which takes longer.
        self.fours = zero();
        self.total = 0;
    }

    /// Counts the features of the last, incomplete group. After that, [`clear`](Self::clear) must come first.
    fn close(&mut self) {
        let left = self.total % GROUP;
        if left > 0 {
            let start = self.total % RING;
            // A feature of zero votes for nothing.
            self.ring.get_mut(start..start + GROUP - left).unwrap_or_default().fill(0);
            self.add(self.total / GROUP);
        }
    }

    /// Adds the group with this number to the counters.
    #[inline(always)]
    fn add(&mut self, group: usize) {
        let (groups, _) = self.ring.as_chunks::<GROUP>();
        let Some(features) = groups.get(group % (RING / GROUP)) else { return };
        let pair = |number| pair(features, number);
        let (ones, twos_a) = full_add(self.ones, pair(0), pair(1));
        let (ones, twos_b) = full_add(ones, pair(2), pair(3));
        let (twos, fours_a) = full_add(self.twos, twos_a, twos_b);
        let (ones, twos_a) = full_add(ones, pair(4), pair(5));
        let (ones, twos_b) = full_add(ones, pair(6), pair(7));
        let (twos, fours_b) = full_add(twos, twos_a, twos_b);
        let (fours, mut carry) = full_add(self.fours, fours_a, fours_b);
        (self.ones, self.twos, self.fours) = (ones, twos, fours);
        for (number, plane) in self.higher.iter_mut().enumerate() {
            if group >> number & 1 == 0 {
                plane.waiting = carry;
                return;
            }
            (plane.sum, carry) = full_add(plane.sum, plane.waiting, carry);
        }
    }

    fn sums(&self) -> Sums<'_> {
        Sums { votes: self, plane: 0, carry: zero(), set_carry: 0 }
    }
}

/// Returns the planes of the counters from the lowest up, with the waiting carries and the two sets added up.
struct Sums<'a> {
    votes: &'a Votes,
    plane: usize,
    carry: Lanes,
    /// The carry of adding the two sets.
    set_carry: u64,
}

impl Sums<'_> {
    #[inline(always)]
    fn next(&mut self) -> u64 {
        let sum = match self.plane {
            0 => self.votes.ones,
            1 => self.votes.twos,
            2 => self.votes.fours,
            plane => self.higher(plane - 3),
        };
        self.plane += 1;
        let (even, odd) = sum.halves();
        let sum;
        (sum, self.set_carry) = full_add(even, odd, self.set_carry);
        sum
    }

    #[inline(always)]
    fn higher(&mut self, number: usize) -> Lanes {
        let Some(plane) = self.votes.higher.get(number) else { return self.carry };
        let waits = self.votes.total.div_ceil(GROUP) >> number & 1 == 1;
        let sum;
        (sum, self.carry) = full_add(plane.sum, if waits { plane.waiting } else { zero() }, self.carry);
        sum
    }
}

#[inline(always)]
fn zero() -> Lanes {
    Lanes::from_halves(0, 0)
}

/// Returns two neighbouring features.
#[inline(always)]
fn pair(features: &[u64; GROUP], number: usize) -> Lanes {
    let (pairs, _) = features.as_chunks();
    pairs.get(number).map_or(zero(), |&[low, high]| Lanes::from_halves(low, high))
}

#[inline(always)]
fn full_add<T>(a: T, b: T, c: T) -> (T, T)
where
    T: Copy + BitAnd<Output = T> + BitOr<Output = T> + BitXor<Output = T>,
{
    let half = a ^ b;
    (half ^ c, (a & b) | (half & c))
}

/// Returns how many bits a number has.
fn bits(number: usize) -> usize {
    (usize::BITS - number.leading_zeros()) as usize
}

/// Returns the bits for which more than half of the weight voted: `2 * words + pairs > total / 2`, for all 64 at once.
/// Both must be cleared afterwards.
pub fn majority(words: &mut Votes, pairs: &mut Votes) -> u64 {
    words.close();
    pairs.close();
    let total = 2 * words.total + pairs.total;
    let half = total / 2;
    let (mut words, mut pairs) = (words.sums(), pairs.sums());
    let (mut doubled, mut carry, mut above) = (0, 0, 0);
    // From the lowest plane up: a higher plane overrides the lower ones unless it is equal to the bit of `half`.
    for plane in 0..bits(total) {
        let sum;
        (sum, carry) = full_add(doubled, pairs.next(), carry);
        doubled = words.next();
        above = if half >> plane & 1 == 1 { above & sum } else { above | sum };
    }
    above
}
