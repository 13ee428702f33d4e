//! Votes on 64 bits, counted bit-sliced: plane `k` holds bit `k` of 64 counters side by side.
//!
//! Two sets of counters stand next to each other in a vector, one for every other feature, and are added up at the end.
//! Carry-save adders take sixteen features at once. A carry beyond them waits for a second one, and only the two together
//! make one for the next plane: each plane is touched half as often as the one below it, and when does not depend on
//! the features. All in all it is about five instructions for a feature where 64 separate counters take sixty.

use std::ops::{BitAnd, BitOr, BitXor};

use crate::scan::lanes::Lanes;

/// The most features that are put between two times of counting.
pub const BATCH: usize = 64;
/// Places of features: a batch, and what the one before has left over.
const RING: usize = 2 * BATCH;
/// Features taken by the adders at once.
const BLOCK: usize = 16;
/// Planes of carries from a block: enough for billions of votes.
const PLANES: usize = 29;

/// 64 counters, and the features that are not counted yet.
#[derive(Clone, Debug)]
pub struct Votes {
    ring: [u64; RING],
    /// All votes so far. Those of whole blocks are counted, the others in the ring.
    total: usize,
    ones: Lanes,
    twos: Lanes,
    fours: Lanes,
    /// From the eights up.
    higher: [Plane; PLANES],
}

/// One plane of the counters, and the carry that waits for another: a valid one wherever the number of blocks has a 1.
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

/// Where in the ring a feature goes.
#[derive(Clone, Copy)]
pub struct Place(usize);

impl Place {
    /// This many further.
    #[inline(always)]
    pub fn plus(self, count: usize) -> Self {
        Self((self.0 + count) % RING)
    }
}

impl Votes {
    /// Where the next feature goes.
    #[inline(always)]
    pub fn next(&self) -> Place {
        Place(self.total % RING)
    }

    /// Puts a feature into its place.
    #[inline(always)]
    pub fn put(&mut self, place: Place, feature: u64) {
        if let Some(slot) = self.ring.get_mut(place.0) {
            *slot = feature;
        }
    }

    /// Counts all features before this place, a batch of new ones at most. What makes no whole block is left for later.
    #[inline(always)]
    pub fn count(&mut self, end: Place) {
        let counted = self.total / BLOCK;
        self.total += end.0.wrapping_sub(self.total) % RING;
        for block in counted..self.total / BLOCK {
            self.add(block);
        }
    }

    /// All that have voted, if the ring still holds them. A full one does not: what is put and not counted has taken the
    /// place of the first.
    pub fn voters(&self) -> Option<impl Iterator<Item = u64>> {
        self.ring.get(..self.total).filter(|voters| voters.len() < RING).map(|voters| voters.iter().copied())
    }

    /// Forgets all votes.
    pub fn clear(&mut self) {
        (self.ones, self.twos, self.fours) = (zero(), zero(), zero());
        for plane in self.higher.iter_mut().take(bits(self.total)) {
            plane.sum = zero();
        }
        self.total = 0;
    }

    /// Counts what is left over, too. No more may be put after that, until all is cleared.
    fn close(&mut self) {
        let left = self.total % BLOCK;
        if left > 0 {
            let start = self.total % RING;
            // Zeros vote for nothing.
            self.ring.get_mut(start..start + BLOCK - left).unwrap_or_default().fill(0);
            self.add(self.total / BLOCK);
        }
    }

    /// Adds a block, by its number, to the counters.
    #[inline(always)]
    fn add(&mut self, block: usize) {
        let (blocks, _) = self.ring.as_chunks::<BLOCK>();
        let Some(features) = blocks.get(block % (RING / BLOCK)) else { return };
        let [a, b, c, d, e, f, g, h] = pairs(features);
        let (ones, twos_a) = full_add(self.ones, a, b);
        let (ones, twos_b) = full_add(ones, c, d);
        let (twos, fours_a) = full_add(self.twos, twos_a, twos_b);
        let (ones, twos_a) = full_add(ones, e, f);
        let (ones, twos_b) = full_add(ones, g, h);
        let (twos, fours_b) = full_add(twos, twos_a, twos_b);
        let (fours, mut carry) = full_add(self.fours, fours_a, fours_b);
        (self.ones, self.twos, self.fours) = (ones, twos, fours);
        for (number, plane) in self.higher.iter_mut().enumerate() {
            if block >> number & 1 == 0 {
                plane.waiting = carry;
                return;
            }
            (plane.sum, carry) = full_add(plane.sum, plane.waiting, carry);
        }
    }

    fn sums(&self) -> Sums<'_> {
        Sums { votes: self, plane: 0, carry: zero(), between: 0 }
    }
}

/// The planes of the counters, from the lowest up, with what waits added to them and both sets added up.
struct Sums<'a> {
    votes: &'a Votes,
    plane: usize,
    carry: Lanes,
    /// The carry between the two sets.
    between: u64,
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
        (sum, self.between) = full_add(even, odd, self.between);
        sum
    }

    #[inline(always)]
    fn higher(&mut self, number: usize) -> Lanes {
        let Some(plane) = self.votes.higher.get(number) else { return self.carry };
        let waits = self.votes.total.div_ceil(BLOCK) >> number & 1 == 1;
        let sum;
        (sum, self.carry) = full_add(plane.sum, if waits { plane.waiting } else { zero() }, self.carry);
        sum
    }
}

#[inline(always)]
fn zero() -> Lanes {
    Lanes::of(0, 0)
}

/// Features two by two.
#[inline(always)]
fn pairs(features: &[u64; BLOCK]) -> [Lanes; BLOCK / 2] {
    let (pairs, _) = features.as_chunks();
    std::array::from_fn(|at| pairs.get(at).map_or(zero(), |&[low, high]| Lanes::of(low, high)))
}

#[inline(always)]
fn full_add<T>(a: T, b: T, c: T) -> (T, T)
where
    T: Copy + BitAnd<Output = T> + BitOr<Output = T> + BitXor<Output = T>,
{
    let half = a ^ b;
    (half ^ c, (a & b) | (half & c))
}

/// How many bits a number has.
fn bits(number: usize) -> usize {
    (usize::BITS - number.leading_zeros()) as usize
}

/// The bits for which more than half of the weight voted: `2 * words + pairs > total / 2`, all 64 at once. Both are to
/// be cleared afterwards.
pub fn majority(words: &mut Votes, pairs: &mut Votes) -> u64 {
    words.close();
    pairs.close();
    let total = 2 * words.total + pairs.total;
    let half = total / 2;
    let (mut words, mut pairs) = (words.sums(), pairs.sums());
    let (mut doubled, mut carry, mut above) = (0, 0, 0);
    // From the lowest plane up: the higher one decides, and where it is equal the lower ones did.
    for plane in 0..bits(total) {
        let sum;
        (sum, carry) = full_add(doubled, pairs.next(), carry);
        doubled = words.next();
        above = if half >> plane & 1 == 1 { above & sum } else { above | sum };
    }
    above
}
