//! Classifies many bytes at once.
//!
//! The result is a mask with one bit per byte; the lowest bit belongs to the first byte. wasm32 with simd128 and x86_64
//! use vector instructions, other targets a loop over the bytes. The tests compare the vector code with that loop.

use std::ops::{BitAnd, BitOr, BitXor};

/// Sixteen bytes of a text, or any other 128 bits, in a vector register.
#[derive(Clone, Copy, Debug)]
pub struct Lanes(vector::Vector);

impl Lanes {
    /// Puts two numbers side by side.
    #[inline(always)]
    pub fn from_halves(low: u64, high: u64) -> Self {
        Self(vector::from_halves(low, high))
    }

    /// Returns the lower and the higher 64 bits.
    #[inline(always)]
    pub fn halves(self) -> (u64, u64) {
        vector::halves(self.0)
    }

    /// Loads the first sixteen bytes of `text`, if it has that many.
    #[inline(always)]
    pub fn at_start_of(text: &[u8]) -> Option<Self> {
        text.first_chunk().map(|bytes| Self(load(bytes)))
    }

    /// Loads the last sixteen bytes of `text`, if it has that many.
    #[inline(always)]
    pub fn at_end_of(text: &[u8]) -> Option<Self> {
        text.last_chunk().map(|bytes| Self(load(bytes)))
    }

    /// Returns the mask of the bytes that equal `byte`.
    #[inline(always)]
    pub fn equal(self, byte: u8) -> u32 {
        vector::equal(self.0, byte)
    }

    /// Returns the first `len` bytes with bit 5 set, which makes ASCII letters lower case, followed by zeros.
    #[inline(always)]
    pub fn folded(self, len: u32) -> (u64, u64) {
        let folded = self | Self(load(&[0x20; 16]));
        KEEP_FIRST
            .get(len as usize)
            .map_or(folded, |&kept| folded & Self::from_halves(kept as u64, (kept >> 64) as u64))
            .halves()
    }
}

/// For each number of bytes, a mask that keeps that many. A table, since computing a mask takes five instructions.
static KEEP_FIRST: [u128; 17] = keep_first_masks();

const fn keep_first_masks() -> [u128; 17] {
    let mut masks = [0; 17];
    let mut len = 1;
    while len <= 16 {
        #[allow(clippy::indexing_slicing)] // `len` is at most 16
        {
            masks[len] = u128::MAX >> (128 - 8 * len);
        }
        len += 1;
    }
    masks
}

impl BitAnd for Lanes {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Self(vector::and(self.0, other.0))
    }
}

impl BitOr for Lanes {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(vector::or(self.0, other.0))
    }
}

impl BitXor for Lanes {
    type Output = Self;

    #[inline(always)]
    fn bitxor(self, other: Self) -> Self {
        Self(vector::xor(self.0, other.0))
    }
}

/// The masks of 64 bytes that tell words from what is between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteKinds {
    /// ASCII letters.
    pub letters: u64,
    /// ASCII digits and all bytes beyond ASCII.
    pub digits_or_non_ascii: u64,
    /// `-`.
    pub hyphens: u64,
}

impl ByteKinds {
    /// Classifies the first 64 bytes of `text`, if it has that many.
    #[inline(always)]
    pub fn at_start_of(text: &[u8]) -> Option<Self> {
        let parts = quarters(text.first_chunk()?);
        Some(Self {
            letters: mask(parts, vector::letters),
            digits_or_non_ascii: mask(parts, vector::digits_or_non_ascii),
            hyphens: mask(parts, |part| vector::equal(part, b'-')),
        })
    }
}

/// Returns whether no byte is beyond ASCII.
#[inline(always)]
pub fn is_ascii(bytes: &[u8; 64]) -> bool {
    let [a, b, c, d] = quarters(bytes);
    vector::at_least(vector::or(vector::or(a, b), vector::or(c, d)), 0x80) == 0
}

/// Returns the mask of the bytes that are not below `lowest`, which must not be zero.
#[inline(always)]
pub fn at_least(bytes: &[u8; 64], lowest: u8) -> u64 {
    mask(quarters(bytes), |part| vector::at_least(part, lowest))
}

/// Returns the mask of the bytes that equal `byte`.
#[inline(always)]
pub fn equal(bytes: &[u8; 64], byte: u8) -> u64 {
    mask(quarters(bytes), |part| vector::equal(part, byte))
}

/// Returns the mask of the places at which `first` has the byte `a` and `second` has the byte `b`. There are usually none,
/// which is found out first.
#[inline(always)]
pub fn equal_pairs([first, second]: [&[u8; 64]; 2], [a, b]: [u8; 2]) -> u64 {
    let pairs = |one, other| vector::and(vector::equal_lanes(one, a), vector::equal_lanes(other, b));
    let ([c, d, e, f], [g, h, i, j]) = (quarters(first), quarters(second));
    let [c, d, e, f] = [pairs(c, g), pairs(d, h), pairs(e, i), pairs(f, j)];
    if vector::bits(vector::or(vector::or(c, d), vector::or(e, f))) == 0 {
        return 0;
    }
    mask([c, d, e, f], vector::bits)
}

/// Returns the mask of the bytes that equal one of these four.
#[inline(always)]
pub fn equal_to_any(bytes: &[u8; 64], [a, b, c, d]: [u8; 4]) -> u64 {
    let parts = quarters(bytes);
    let equal = |byte| mask(parts, |part| vector::equal(part, byte));
    equal(a) | equal(b) | equal(c) | equal(d)
}

/// Loads 64 bytes. Written out, because a compiler that saves space leaves a loop of four rounds as it is.
#[inline(always)]
fn quarters(bytes: &[u8; 64]) -> [vector::Vector; 4] {
    match bytes.as_chunks() {
        ([a, b, c, d], _) => [load(a), load(b), load(c), load(d)],
        _ => [load(&[0; 16]); 4],
    }
}

/// Joins the masks of the four parts of 64 bytes.
#[inline(always)]
fn mask([a, b, c, d]: [vector::Vector; 4], of_part: impl Fn(vector::Vector) -> u32) -> u64 {
    u64::from(of_part(a) | of_part(b) << 16) | u64::from(of_part(c) | of_part(d) << 16) << 32
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod vector {
    use std::arch::wasm32::{
        i8x16_add, i8x16_bitmask, i8x16_lt, i8x16_splat, u8x16_eq, u8x16_splat, u64x2, u64x2_extract_lane,
    };
    pub use std::arch::wasm32::{v128 as Vector, v128_and as and, v128_or as or, v128_xor as xor};

    #[inline(always)]
    pub fn from_halves(low: u64, high: u64) -> Vector {
        u64x2(low, high)
    }

    #[inline(always)]
    pub fn halves(lanes: Vector) -> (u64, u64) {
        (u64x2_extract_lane::<0>(lanes), u64x2_extract_lane::<1>(lanes))
    }

    #[inline(always)]
    pub fn equal_lanes(lanes: Vector, byte: u8) -> Vector {
        u8x16_eq(lanes, u8x16_splat(byte))
    }

    #[inline(always)]
    pub fn bits(lanes: Vector) -> u32 {
        u32::from(i8x16_bitmask(lanes))
    }

    #[inline(always)]
    pub fn equal(lanes: Vector, byte: u8) -> u32 {
        bits(equal_lanes(lanes, byte))
    }

    #[inline(always)]
    pub fn letters(lanes: Vector) -> u32 {
        u32::from(i8x16_bitmask(below(or(lanes, u8x16_splat(0x20)), b'a', 26)))
    }

    #[inline(always)]
    pub fn digits_or_non_ascii(lanes: Vector) -> u32 {
        u32::from(i8x16_bitmask(or(lanes, below(lanes, b'0', 10))))
    }

    #[inline(always)]
    pub fn at_least(lanes: Vector, lowest: u8) -> u32 {
        u32::from(i8x16_bitmask(below(lanes, lowest, 0_u8.wrapping_sub(lowest))))
    }

    /// Finds the bytes from `first` to `first + count - 1`. They are moved to the lowest signed values and compared as
    /// signed numbers, since V8 takes one instruction for a signed comparison and four for an unsigned one.
    #[inline(always)]
    fn below(lanes: Vector, first: u8, count: u8) -> Vector {
        let moved = i8x16_add(lanes, i8x16_splat(0x80_u8.wrapping_sub(first).cast_signed()));
        i8x16_lt(moved, i8x16_splat(0x80_u8.wrapping_add(count).cast_signed()))
    }
}

#[cfg(target_arch = "x86_64")]
mod vector {
    #![allow(unsafe_code)] // the intrinsics used take no pointers, and every x86_64 has SSE2

    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_and_si128, _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_cvtsi128_si64, _mm_movemask_epi8,
        _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8, _mm_unpackhi_epi64, _mm_xor_si128,
    };

    pub type Vector = __m128i;

    #[inline(always)]
    pub fn from_halves(low: u64, high: u64) -> Vector {
        // SAFETY: every x86_64 has SSE2.
        unsafe { _mm_set_epi64x(high.cast_signed(), low.cast_signed()) }
    }

    #[inline(always)]
    pub fn halves(lanes: Vector) -> (u64, u64) {
        // SAFETY: as above.
        unsafe {
            let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(lanes, lanes));
            (_mm_cvtsi128_si64(lanes).cast_unsigned(), high.cast_unsigned())
        }
    }

    #[inline(always)]
    pub fn and(a: Vector, b: Vector) -> Vector {
        // SAFETY: as above.
        unsafe { _mm_and_si128(a, b) }
    }

    #[inline(always)]
    pub fn or(a: Vector, b: Vector) -> Vector {
        // SAFETY: as above.
        unsafe { _mm_or_si128(a, b) }
    }

    #[inline(always)]
    pub fn xor(a: Vector, b: Vector) -> Vector {
        // SAFETY: as above.
        unsafe { _mm_xor_si128(a, b) }
    }

    #[inline(always)]
    pub fn equal_lanes(lanes: Vector, byte: u8) -> Vector {
        // SAFETY: as above.
        unsafe { _mm_cmpeq_epi8(lanes, _mm_set1_epi8(byte.cast_signed())) }
    }

    #[inline(always)]
    pub fn bits(lanes: Vector) -> u32 {
        // SAFETY: as above.
        unsafe { _mm_movemask_epi8(lanes).cast_unsigned() }
    }

    #[inline(always)]
    pub fn equal(lanes: Vector, byte: u8) -> u32 {
        bits(equal_lanes(lanes, byte))
    }

    #[inline(always)]
    pub fn letters(lanes: Vector) -> u32 {
        // SAFETY: as above.
        unsafe { _mm_movemask_epi8(below(or(lanes, _mm_set1_epi8(0x20)), b'a', 26)).cast_unsigned() }
    }

    #[inline(always)]
    pub fn digits_or_non_ascii(lanes: Vector) -> u32 {
        // SAFETY: as above.
        unsafe { _mm_movemask_epi8(or(lanes, below(lanes, b'0', 10))).cast_unsigned() }
    }

    #[inline(always)]
    pub fn at_least(lanes: Vector, lowest: u8) -> u32 {
        // SAFETY: as above.
        unsafe { _mm_movemask_epi8(below(lanes, lowest, 0_u8.wrapping_sub(lowest))).cast_unsigned() }
    }

    /// Finds the bytes from `first` to `first + count - 1`. SSE2 only compares signed numbers, so they are moved to the
    /// lowest signed values first.
    #[inline(always)]
    fn below(lanes: Vector, first: u8, count: u8) -> Vector {
        let to_lowest = 0x80_u8.wrapping_sub(first).cast_signed();
        let limit = 0x80_u8.wrapping_add(count).cast_signed();
        // SAFETY: as above.
        unsafe { _mm_cmplt_epi8(_mm_add_epi8(lanes, _mm_set1_epi8(to_lowest)), _mm_set1_epi8(limit)) }
    }
}

#[cfg(not(any(all(target_arch = "wasm32", target_feature = "simd128"), target_arch = "x86_64")))]
use scalar as vector;

/// The same functions, one byte at a time.
#[cfg(any(test, not(any(all(target_arch = "wasm32", target_feature = "simd128"), target_arch = "x86_64"))))]
mod scalar {
    pub type Vector = [u8; 16];

    pub fn from_halves(low: u64, high: u64) -> Vector {
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }

    pub fn halves(lanes: Vector) -> (u64, u64) {
        super::halves(&lanes)
    }

    pub fn and(a: Vector, b: Vector) -> Vector {
        (u128::from_le_bytes(a) & u128::from_le_bytes(b)).to_le_bytes()
    }

    pub fn or(a: Vector, b: Vector) -> Vector {
        (u128::from_le_bytes(a) | u128::from_le_bytes(b)).to_le_bytes()
    }

    pub fn xor(a: Vector, b: Vector) -> Vector {
        (u128::from_le_bytes(a) ^ u128::from_le_bytes(b)).to_le_bytes()
    }

    pub fn equal_lanes(lanes: Vector, byte: u8) -> Vector {
        lanes.map(|one| if one == byte { u8::MAX } else { 0 })
    }

    pub fn bits(lanes: Vector) -> u32 {
        mask(lanes, |one| one >= 0x80)
    }

    pub fn equal(lanes: Vector, byte: u8) -> u32 {
        bits(equal_lanes(lanes, byte))
    }

    pub fn letters(lanes: Vector) -> u32 {
        mask(lanes, |one| one.is_ascii_alphabetic())
    }

    #[cfg(test)]
    pub fn folded(lanes: Vector, len: u8) -> (u64, u64) {
        let mut places = 0..len;
        super::halves(&lanes.map(|byte| if places.next().is_some() { byte | 0x20 } else { 0 }))
    }

    pub fn digits_or_non_ascii(lanes: Vector) -> u32 {
        mask(lanes, |one| one.is_ascii_digit() || !one.is_ascii())
    }

    pub fn at_least(lanes: Vector, lowest: u8) -> u32 {
        mask(lanes, |one| one >= lowest)
    }

    fn mask(lanes: Vector, is: impl Fn(u8) -> bool) -> u32 {
        lanes.iter().enumerate().fold(0, |mask, (lane, &byte)| mask | u32::from(is(byte)) << lane)
    }
}

#[inline(always)]
fn load(bytes: &[u8; 16]) -> vector::Vector {
    let (low, high) = halves(bytes);
    vector::from_halves(low, high)
}

/// Returns the first and the last eight bytes as little-endian numbers.
#[inline(always)]
pub const fn halves(bytes: &[u8; 16]) -> (u64, u64) {
    let whole = u128::from_le_bytes(*bytes);
    (whole as u64, (whole >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_operations_agree_with_the_scalar_code() {
        let numbers = [0, 1, 0x8000_0000_0000_0001, 0x0123_4567_89AB_CDEF, !0];
        let pairs = || numbers.iter().flat_map(|&low| numbers.map(|high| (low, high)));
        for ((a, b), (c, d)) in pairs().flat_map(|one| pairs().map(move |other| (one, other))) {
            let (fast, fast_other) = (Lanes::from_halves(a, b), Lanes::from_halves(c, d));
            let (slow, slow_other) = (scalar::from_halves(a, b), scalar::from_halves(c, d));
            assert_eq!((fast.halves(), scalar::halves(slow)), ((a, b), (a, b)));
            assert_eq!((fast & fast_other).halves(), scalar::halves(scalar::and(slow, slow_other)));
            assert_eq!((fast | fast_other).halves(), scalar::halves(scalar::or(slow, slow_other)));
            assert_eq!((fast ^ fast_other).halves(), scalar::halves(scalar::xor(slow, slow_other)));
        }
    }

    #[test]
    fn every_byte_in_every_lane_is_classified_as_by_the_scalar_code() {
        for byte in 0..=255u8 {
            let bytes: [u8; 64] = std::array::from_fn(|at| byte.wrapping_add((at as u8).wrapping_mul(29)));
            let mut kinds = ByteKinds { letters: 0, digits_or_non_ascii: 0, hyphens: 0 };
            for (part, sixteen) in bytes.as_chunks().0.iter().enumerate() {
                let lanes = *sixteen;
                kinds.letters |= u64::from(scalar::letters(lanes)) << (16 * part);
                kinds.digits_or_non_ascii |= u64::from(scalar::digits_or_non_ascii(lanes)) << (16 * part);
                kinds.hyphens |= u64::from(scalar::equal(lanes, b'-')) << (16 * part);
            }
            assert_eq!(ByteKinds::at_start_of(&bytes), Some(kinds));
            for lowest in 1..=255 {
                let slow = |part: &[u8; 16]| u64::from(scalar::at_least(*part, lowest));
                let masks = bytes.as_chunks().0.iter().map(slow);
                assert_eq!(at_least(&bytes, lowest), masks.rev().fold(0, |above, mask| above << 16 | mask));
            }
            let later = bytes.map(|byte| byte.rotate_left(3));
            for other in [byte, byte.rotate_left(3), 0] {
                let places = (0..64).filter(|&at| bytes[at] == byte && later[at] == other);
                let slow = places.fold(0, |mask, at| mask | 1 << at);
                assert_eq!(equal_pairs([&bytes, &later], [byte, other]), slow);
            }
            let slow = (0..64).filter(|&at| bytes[at] == byte).fold(0, |mask, at| mask | 1 << at);
            assert_eq!(equal(&bytes, byte), slow);
            for sixteen in bytes.windows(16).filter_map(|window| window.first_chunk()) {
                let (fast, slow) = (Lanes::at_start_of(sixteen), *sixteen);
                assert_eq!(fast.map(|fast| fast.equal(byte)), Some(scalar::equal(slow, byte)));
                for len in 0..=16 {
                    assert_eq!(fast.map(|fast| fast.folded(len)), Some(scalar::folded(slow, len as u8)));
                }
            }
        }
        assert!(Lanes::at_start_of(&[b'a'; 15]).is_none() && ByteKinds::at_start_of(&[b'a'; 63]).is_none());
    }
}
