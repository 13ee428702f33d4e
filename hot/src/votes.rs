//! Votes on 64 bits, counted bit-sliced: plane `k` holds bit `k` of 64 counters side by side, and a carry-save adder
//! takes eight features at once, about seven instructions each where 64 separate counters take sixty.

/// Features gathered before they are counted.
pub const BATCH: usize = 64;
/// Bits of a counter: enough for a billion votes.
const PLANES: usize = 32;
/// Features taken by the adder at once.
const BLOCK: usize = 8;

/// 64 counters: bit `b` of `planes[k]` is bit `k` of counter `b`.
#[derive(Clone, Debug)]
pub struct Votes {
    batch: [u64; BATCH],
    planes: [u64; PLANES],
    total: usize,
}

impl Default for Votes {
    fn default() -> Self {
        Self { batch: [0; BATCH], planes: [0; PLANES], total: 0 }
    }
}

impl Votes {
    /// Puts a feature into its place in the batch.
    #[inline(always)]
    pub fn put(&mut self, place: usize, feature: u64) {
        if let Some(slot) = self.batch.get_mut(place % BATCH) {
            *slot = feature;
        }
    }

    /// Counts the first `count` features of the batch.
    #[inline(always)]
    pub fn count(&mut self, count: usize) {
        self.total += count;
        let end = count.next_multiple_of(BLOCK);
        // Zeros vote for nothing.
        self.batch.get_mut(count..end).unwrap_or_default().fill(0);
        let (blocks, _) = self.batch.as_chunks();
        for block in blocks.iter().take(end / BLOCK) {
            add(&mut self.planes, *block);
        }
    }

    /// All that have voted, as long as that was one batch.
    pub fn voters(&self) -> impl Iterator<Item = u64> {
        self.batch.iter().copied().take(self.total)
    }

    /// Forgets all votes.
    pub fn clear(&mut self) {
        self.planes = [0; PLANES];
        self.total = 0;
    }
}

#[inline(always)]
fn add(planes: &mut [u64; PLANES], [a, b, c, d, e, f, g, h]: [u64; BLOCK]) {
    let (one_a, two_a) = full_add(a, b, c);
    let (one_b, two_b) = full_add(d, e, f);
    let (one_c, two_c) = full_add(one_a, one_b, g);
    let (ones, two_d) = half_add(one_c, h);
    let (two_e, four_a) = full_add(two_a, two_b, two_c);
    let (twos, four_b) = half_add(two_e, two_d);
    let (fours, eights) = half_add(four_a, four_b);
    let [plane_0, plane_1, plane_2, plane_3, higher @ ..] = planes;
    let mut carry;
    (*plane_0, carry) = half_add(*plane_0, ones);
    (*plane_1, carry) = full_add(*plane_1, twos, carry);
    (*plane_2, carry) = full_add(*plane_2, fours, carry);
    (*plane_3, carry) = full_add(*plane_3, eights, carry);
    for plane in higher {
        if carry == 0 {
            return;
        }
        (*plane, carry) = half_add(*plane, carry);
    }
}

#[inline(always)]
fn half_add(a: u64, b: u64) -> (u64, u64) {
    (a ^ b, a & b)
}

#[inline(always)]
fn full_add(a: u64, b: u64, c: u64) -> (u64, u64) {
    let half = a ^ b;
    (half ^ c, (a & b) | (half & c))
}

/// The bits for which more than half of the weight voted: `2 * words + pairs > total / 2`, all 64 at once.
pub fn majority(words: &Votes, pairs: &Votes) -> u64 {
    let total = 2 * words.total + pairs.total;
    let half = total / 2;
    let mut carry = 0;
    let doubled = std::iter::once(&0).chain(&words.planes);
    let sums = doubled.zip(&pairs.planes).map(|(word, pair)| {
        let sum;
        (sum, carry) = full_add(*word, *pair, carry);
        sum
    });
    // From the lowest plane up: the higher one decides, and where it is equal the lower ones did.
    let used = (usize::BITS - total.leading_zeros()) as usize;
    sums.take(used).enumerate().fold(
        0,
        |above, (plane, sum)| {
            if half >> plane & 1 == 1 { above & sum } else { above | sum }
        },
    )
}
