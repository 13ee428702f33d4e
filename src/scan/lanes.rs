//! Many bytes at once: which of them are what, as a mask with one bit each, the first byte's the lowest.
//!
//! One vector on wasm32 with simd128 and on x86_64, a plain loop elsewhere; the loop is also what the tests compare with.

use std::ops::{BitAnd, BitOr, BitXor};

/// Lanes bytes of a text, or 128 bits.
#[derive(Clone, Copy, Debug)]
pub struct Lanes(vector::Vector);

impl Lanes {
    /// Two numbers, the first in the lower half.
    #[inline(always)]
    pub fn of(low: u64, high: u64) -> Self {
        Self(vector::of(low, high))
    }

    /// The two numbers.
    #[inline(always)]
    pub fn halves(self) -> (u64, u64) {
        vector::halves(self.0)
    }

    /// The bytes at the start of `text`, if there are as many.
    #[inline(always)]
    pub fn at_start_of(text: &[u8]) -> Option<Self> {
        text.first_chunk().map(|bytes| Self(vector::load(bytes)))
    }

    /// The bytes at the end of `text`, if there are as many.
    #[inline(always)]
    pub fn at_end_of(text: &[u8]) -> Option<Self> {
        text.last_chunk().map(|bytes| Self(vector::load(bytes)))
    }

    /// Which are this byte.
    #[inline(always)]
    pub fn equal(self, byte: u8) -> u32 {
        vector::equal(self.0, byte)
    }

    /// The first `len` bytes with bit 5 set, which folds the case of letters, and zeros after them: two numbers of eight.
    #[inline(always)]
    pub fn folded(self, len: u32) -> (u64, u64) {
        let folded = self | Self(vector::load(&[0x20; 16]));
        FIRST.get(len as usize).map_or(folded, |&kept| folded & Self::of(kept as u64, (kept >> 64) as u64)).halves()
    }
}

/// Ones in the first bytes, by how many. Loaded, since making them of a number takes five instructions.
static FIRST: [u128; 17] = firsts();

const fn firsts() -> [u128; 17] {
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

/// What 64 bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// ASCII letters.
    pub letters: u64,
    /// ASCII digits, and all beyond ASCII.
    pub others: u64,
    /// `-`
    pub hyphens: u64,
}

impl Kinds {
    /// Of the bytes at the start of `text`, if there are as many.
    #[inline(always)]
    pub fn at_start_of(text: &[u8]) -> Option<Self> {
        let (parts, _) = text.first_chunk::<64>()?.as_chunks();
        let none = Self { letters: 0, others: 0, hyphens: 0 };
        Some(parts.iter().rev().fold(none, |kinds, part| {
            let lanes = vector::load(part);
            Self {
                letters: kinds.letters << 16 | u64::from(vector::letters(lanes)),
                others: kinds.others << 16 | u64::from(vector::others(lanes)),
                hyphens: kinds.hyphens << 16 | u64::from(vector::equal(lanes, b'-')),
            }
        }))
    }
}

/// Which of 64 bytes are this one, above zero, or a higher one.
#[inline(always)]
pub fn at_least(bytes: &[u8; 64], lowest: u8) -> u64 {
    let (parts, _) = bytes.as_chunks();
    parts.iter().rev().fold(0, |mask, part| mask << 16 | u64::from(vector::at_least(vector::load(part), lowest)))
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod vector {
    use std::arch::wasm32::{
        i8x16_add, i8x16_bitmask, i8x16_lt, i8x16_splat, u8x16_eq, u8x16_splat, u64x2, u64x2_extract_lane,
    };
    pub use std::arch::wasm32::{v128 as Vector, v128_and as and, v128_or as or, v128_xor as xor};

    #[inline(always)]
    pub fn of(low: u64, high: u64) -> Vector {
        u64x2(low, high)
    }

    #[inline(always)]
    pub fn halves(lanes: Vector) -> (u64, u64) {
        (u64x2_extract_lane::<0>(lanes), u64x2_extract_lane::<1>(lanes))
    }

    #[inline(always)]
    pub fn load(bytes: &[u8; 16]) -> Vector {
        let (low, high) = super::halves(bytes);
        of(low, high)
    }

    #[inline(always)]
    pub fn equal(lanes: Vector, byte: u8) -> u32 {
        u32::from(i8x16_bitmask(u8x16_eq(lanes, u8x16_splat(byte))))
    }

    #[inline(always)]
    pub fn letters(lanes: Vector) -> u32 {
        u32::from(i8x16_bitmask(below(or(lanes, u8x16_splat(0x20)), b'a', 26)))
    }

    /// Digits, and all beyond ASCII.
    #[inline(always)]
    pub fn others(lanes: Vector) -> u32 {
        u32::from(i8x16_bitmask(or(lanes, below(lanes, b'0', 10))))
    }

    #[inline(always)]
    pub fn at_least(lanes: Vector, lowest: u8) -> u32 {
        u32::from(i8x16_bitmask(below(lanes, lowest, 0_u8.wrapping_sub(lowest))))
    }

    /// Which are one of the `count` bytes from `first` on. Signed, with the first moved to the lowest: V8 has one
    /// instruction for a signed comparison and four for an unsigned one.
    #[inline(always)]
    fn below(lanes: Vector, first: u8, count: u8) -> Vector {
        let moved = i8x16_add(lanes, i8x16_splat(0x80_u8.wrapping_sub(first).cast_signed()));
        i8x16_lt(moved, i8x16_splat(0x80_u8.wrapping_add(count).cast_signed()))
    }
}

#[cfg(target_arch = "x86_64")]
mod vector {
    #![allow(unsafe_code)] // calls of vector functions: none takes a pointer, and every x86_64 has SSE2

    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_and_si128, _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_cvtsi128_si64, _mm_movemask_epi8,
        _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8, _mm_unpackhi_epi64, _mm_xor_si128,
    };

    pub type Vector = __m128i;

    #[inline(always)]
    pub fn of(low: u64, high: u64) -> Vector {
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
    pub fn load(bytes: &[u8; 16]) -> Vector {
        let (low, high) = super::halves(bytes);
        of(low, high)
    }

    #[inline(always)]
    pub fn equal(lanes: Vector, byte: u8) -> u32 {
        // SAFETY: as above.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(lanes, _mm_set1_epi8(byte.cast_signed()))).cast_unsigned() }
    }

    #[inline(always)]
    pub fn letters(lanes: Vector) -> u32 {
        // SAFETY: as above.
        unsafe { _mm_movemask_epi8(below(or(lanes, _mm_set1_epi8(0x20)), b'a', 26)).cast_unsigned() }
    }

    /// Digits, and all beyond ASCII.
    #[inline(always)]
    pub fn others(lanes: Vector) -> u32 {
        // SAFETY: as above.
        unsafe { _mm_movemask_epi8(or(lanes, below(lanes, b'0', 10))).cast_unsigned() }
    }

    #[inline(always)]
    pub fn at_least(lanes: Vector, lowest: u8) -> u32 {
        // SAFETY: as above.
        unsafe { _mm_movemask_epi8(below(lanes, lowest, 0_u8.wrapping_sub(lowest))).cast_unsigned() }
    }

    /// Which are one of the `count` bytes from `first` on. Comparisons are signed here: the first is moved to the lowest.
    #[inline(always)]
    fn below(lanes: Vector, first: u8, count: u8) -> Vector {
        let to_lowest = 0x80_u8.wrapping_sub(first).cast_signed();
        let limit = 0x80_u8.wrapping_add(count).cast_signed();
        // SAFETY: as above.
        unsafe { _mm_cmplt_epi8(_mm_add_epi8(lanes, _mm_set1_epi8(to_lowest)), _mm_set1_epi8(limit)) }
    }
}

#[cfg(not(any(all(target_arch = "wasm32", target_feature = "simd128"), target_arch = "x86_64")))]
use plain as lanes;

/// What is meant, a byte at a time.
#[cfg(any(test, not(any(all(target_arch = "wasm32", target_feature = "simd128"), target_arch = "x86_64"))))]
mod plain {
    pub type Vector = [u8; 16];

    pub fn of(low: u64, high: u64) -> Vector {
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

    pub fn load(bytes: &[u8; 16]) -> Vector {
        *bytes
    }

    pub fn equal(lanes: Vector, byte: u8) -> u32 {
        mask(lanes, |one| one == byte)
    }

    pub fn letters(lanes: Vector) -> u32 {
        mask(lanes, |one| one.is_ascii_alphabetic())
    }

    #[cfg(test)]
    pub fn folded(lanes: Vector, len: u8) -> (u64, u64) {
        let mut places = 0..len;
        super::halves(&lanes.map(|byte| if places.next().is_some() { byte | 0x20 } else { 0 }))
    }

    pub fn others(lanes: Vector) -> u32 {
        mask(lanes, |one| one.is_ascii_digit() || !one.is_ascii())
    }

    pub fn at_least(lanes: Vector, lowest: u8) -> u32 {
        mask(lanes, |one| one >= lowest)
    }

    fn mask(lanes: Vector, is: impl Fn(u8) -> bool) -> u32 {
        lanes.iter().enumerate().fold(0, |mask, (lane, &byte)| mask | u32::from(is(byte)) << lane)
    }
}

/// The first eight bytes and the last eight, as numbers.
#[inline(always)]
pub const fn halves(bytes: &[u8; 16]) -> (u64, u64) {
    let whole = u128::from_le_bytes(*bytes);
    (whole as u64, (whole >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_two_numbers_say_what_the_numbers_say() {
        let numbers = [0, 1, 0x8000_0000_0000_0001, 0x0123_4567_89AB_CDEF, !0];
        let pairs = || numbers.iter().flat_map(|&low| numbers.map(|high| (low, high)));
        for ((a, b), (c, d)) in pairs().flat_map(|one| pairs().map(move |other| (one, other))) {
            let (fast, fast_other) = (Lanes::of(a, b), Lanes::of(c, d));
            let (slow, slow_other) = (plain::of(a, b), plain::of(c, d));
            assert_eq!((fast.halves(), plain::halves(slow)), ((a, b), (a, b)));
            assert_eq!((fast & fast_other).halves(), plain::halves(plain::and(slow, slow_other)));
            assert_eq!((fast | fast_other).halves(), plain::halves(plain::or(slow, slow_other)));
            assert_eq!((fast ^ fast_other).halves(), plain::halves(plain::xor(slow, slow_other)));
        }
    }

    #[test]
    fn vectors_say_of_every_byte_in_every_place_what_the_loop_says() {
        for byte in 0..=255u8 {
            let bytes: [u8; 64] = std::array::from_fn(|at| byte.wrapping_add((at as u8).wrapping_mul(29)));
            let mut kinds = Kinds { letters: 0, others: 0, hyphens: 0 };
            for (part, sixteen) in bytes.as_chunks().0.iter().enumerate() {
                let lanes = plain::load(sixteen);
                kinds.letters |= u64::from(plain::letters(lanes)) << (16 * part);
                kinds.others |= u64::from(plain::others(lanes)) << (16 * part);
                kinds.hyphens |= u64::from(plain::equal(lanes, b'-')) << (16 * part);
            }
            assert_eq!(Kinds::at_start_of(&bytes), Some(kinds));
            for lowest in 1..=255 {
                let slow = |part: &[u8; 16]| u64::from(plain::at_least(plain::load(part), lowest));
                let masks = bytes.as_chunks().0.iter().map(slow);
                assert_eq!(at_least(&bytes, lowest), masks.rev().fold(0, |above, mask| above << 16 | mask));
            }
            for sixteen in bytes.windows(16).filter_map(|window| window.first_chunk()) {
                let (fast, slow) = (Lanes::at_start_of(sixteen), plain::load(sixteen));
                assert_eq!(fast.map(|fast| fast.equal(byte)), Some(plain::equal(slow, byte)));
                for len in 0..=16 {
                    assert_eq!(fast.map(|fast| fast.folded(len)), Some(plain::folded(slow, len as u8)));
                }
            }
        }
        assert!(Lanes::at_start_of(&[b'a'; 15]).is_none() && Kinds::at_start_of(&[b'a'; 63]).is_none());
    }
}
