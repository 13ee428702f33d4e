//! JSON numbers as doubles, and doubles as an operator reads them.
//!
//! Without core's `str::parse::<f64>` and `Display for f64`, which with their tables would be a twelfth of a module
//! that reads and shows a handful of numbers. This is the plain arithmetic. What a person writes takes one exact
//! multiplication or division; anything else, such as a computed threshold of seventeen digits, is divided bit by bit,
//! which is slow and exact.
//!
//! Digits beyond the nineteenth are dropped: seventeen tell any double from its neighbours. A number that is written
//! with more may be read as the neighbour of the double nearest to it.

use std::cmp::Ordering;

/// A number as it is written: `digits` times ten to the power of `exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    digits: u64,
    exponent: i32,
}

/// No number. Where it stops being one: at the byte that does not fit, or at the text's end where more is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit(pub usize);

/// From here on, another digit may not fit.
const FULL: u64 = 10_u64.pow(18);
/// Below this a double holds every whole number.
const EXACT_DIGITS: u64 = 1 << 53;
/// Up to this, a double holds the power of ten.
const EXACT_POWER: u32 = 22;
/// Beyond these powers a number is larger than any double, or smaller, whatever its digits.
const POWERS: std::ops::RangeInclusive<i32> = -344..=308;

impl Decimal {
    /// The number that `text` is.
    pub fn of(text: &[u8]) -> Option<Self> {
        let (number, len) = Self::at_start_of(text).ok()?;
        (len == text.len()).then_some(number)
    }

    /// The number that `text` begins with, and its length.
    pub fn at_start_of(text: &[u8]) -> Result<(Self, usize), Misfit> {
        let negative = text.first() == Some(&b'-');
        let mut number = Self { negative, digits: 0, exponent: 0 };
        let mut at = usize::from(negative);
        let whole = digits(text, at)?;
        if whole.len() > 1 && whole.first() == Some(&b'0') {
            return Err(Misfit(at + 1));
        }
        number.push(whole, 0);
        at += whole.len();
        if text.get(at) == Some(&b'.') {
            let fraction = digits(text, at + 1)?;
            number.push(fraction, 1);
            at += 1 + fraction.len();
        }
        if let Some(b'e' | b'E') = text.get(at) {
            let sign = text.get(at + 1).filter(|byte| b"+-".contains(byte));
            at += 1 + usize::from(sign.is_some());
            let power = digits(text, at)?;
            number.scale(power, sign == Some(&b'-'));
            at += power.len();
        }
        Ok((number, at))
    }

    /// Takes in more digits, each of which moves the point by so many places.
    fn push(&mut self, digits: &[u8], places: i32) {
        for digit in digits {
            if self.digits < FULL {
                self.digits = 10 * self.digits + u64::from(value(*digit));
                self.exponent = self.exponent.saturating_sub(places);
            } else {
                self.exponent = self.exponent.saturating_add(1 - places);
            }
        }
    }

    fn scale(&mut self, power: &[u8], down: bool) {
        let append = |power: i32, digit: &u8| power.saturating_mul(10).saturating_add(value(*digit).into());
        let power = power.iter().fold(0, append);
        self.exponent = self.exponent.saturating_add(if down { -power } else { power });
    }

    /// The nearest double, of two as near the even one. Nothing where it would be infinite.
    pub fn nearest(self) -> Option<f64> {
        let power = self.exponent.unsigned_abs();
        let size = if self.digits == 0 || self.exponent < *POWERS.start() {
            0.0
        } else if self.exponent > *POWERS.end() {
            return None;
        } else if self.digits < EXACT_DIGITS && power <= EXACT_POWER {
            let scale = (0..power).fold(1.0, |scale, _| scale * 10.0);
            let digits = self.digits as f64;
            if self.exponent < 0 { digits / scale } else { digits * scale }
        } else {
            self.divided()
        };
        size.is_finite().then_some(if self.negative { -size } else { size })
    }

    /// The nearest double, by long division: as many bits as a double has, and the remainder says how to round.
    fn divided(self) -> f64 {
        let (mut over, mut under) = (Natural::new(self.digits), Natural::new(1));
        let scaled = if self.exponent < 0 { &mut under } else { &mut over };
        (0..self.exponent.unsigned_abs()).for_each(|_| scaled.multiply(10));

        let highest = normalise(&mut over, &mut under);
        let lowest = LOWEST_BIT.max(highest - 52);
        if highest > HIGHEST_BIT {
            return f64::INFINITY;
        }
        if highest < LOWEST_BIT - 1 {
            return 0.0;
        }
        let mut bits = 0;
        for _ in lowest..=highest {
            let one = over.compare(&under).is_ge();
            if one {
                over.subtract(&under);
            }
            bits = 2 * bits + u64::from(one);
            over.multiply(2);
        }
        let up = match over.compare(&under) {
            Ordering::Less => 0,
            Ordering::Equal => bits & 1,
            Ordering::Greater => 1,
        };
        // The highest bit, which a double does not keep, adds one to the exponent; numbers too small to have it have 0.
        let exponent = u64::from(lowest.abs_diff(LOWEST_BIT));
        f64::from_bits((exponent << 52) + bits + up)
    }
}

/// Doubles either number until `over / under` is at least 1 and below 2, and returns the power of two that it then lacks:
/// what its highest bit stands for.
fn normalise(over: &mut Natural, under: &mut Natural) -> i32 {
    let mut power = 0;
    while over.compare(under).is_ge() {
        under.multiply(2);
        power += 1;
    }
    while over.compare(under).is_lt() {
        over.multiply(2);
        power -= 1;
    }
    power
}

/// What the lowest bit of the smallest double stands for, as a power of two.
const LOWEST_BIT: i32 = -1074;
/// What the highest bit of the largest double stands for.
const HIGHEST_BIT: i32 = 1023;

/// The digits of `text` from `start` on, of which there must be one.
fn digits(text: &[u8], start: usize) -> Result<&[u8], Misfit> {
    let rest = text.get(start..).unwrap_or_default();
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest.get(..len).filter(|digits| !digits.is_empty()).ok_or(Misfit(start))
}

fn value(digit: u8) -> u8 {
    digit.wrapping_sub(b'0')
}

/// The whole number that `text` is in JSON: digits and nothing else, and no zero before others.
pub fn whole(text: &[u8]) -> Option<u64> {
    Decimal::of(text)?;
    of_digits(text)
}

/// The number that digits are. Nothing where there are none, where there is anything else, or where it is too large.
pub fn of_digits(text: &[u8]) -> Option<u64> {
    let append = |number: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| value(*byte))?;
        number.checked_mul(10)?.checked_add(digit.into())
    };
    if text.is_empty() { None } else { text.iter().try_fold(0, append) }
}

/// A number in as few digits as tell it from its neighbours: `8`, `2.5`, `1e+300`.
pub fn shown(number: f64) -> String {
    match serde_json::to_string(&number) {
        Ok(text) if number.is_finite() => text.strip_suffix(".0").map(str::to_owned).unwrap_or(text),
        _ if number.is_nan() => "NaN".to_owned(),
        _ => if number > 0.0 { "inf" } else { "-inf" }.to_owned(),
    }
}

/// A whole number of any size: its digits to the base 2^32, the lowest first and the highest not 0.
struct Natural(Vec<u32>);

impl Natural {
    fn new(number: u64) -> Self {
        let mut natural = Self(vec![number as u32, (number >> 32) as u32]);
        natural.trim();
        natural
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn multiply(&mut self, factor: u32) {
        let mut carry = 0;
        for digit in &mut self.0 {
            carry += u64::from(*digit) * u64::from(factor);
            *digit = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Takes a number off that is not larger.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (digit, other) in self.0.iter_mut().zip(other.0.iter().chain(std::iter::repeat(&0))) {
            let (once, first) = digit.overflowing_sub(*other);
            let (twice, second) = once.overflowing_sub(borrow.into());
            *digit = twice;
            borrow = first || second;
        }
        self.trim();
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Option<f64> {
        Decimal::of(text.as_bytes())?.nearest()
    }

    /// What core makes of it; its grammar is wider than JSON's, but not of what the tests give it.
    fn oracle(text: &str) -> Option<f64> {
        text.parse().ok().filter(|number: &f64| number.is_finite())
    }

    const EDGES: &str = "
        0 -0 0.0 0e999999999999 7 -1 10.0 0.1 7.25 -4.35 2.5e-3 1E+2 5.0e-1 6.02214076e23 0.30000000000000004
        9007199254740992 9007199254740993 9007199254740995 18446744073709551615 123456789012345678901234567890
        1e22 1e23 8.5e22 1e308 1e309 1e99999999999 17976931348623157e292 9999999999999999999e307
        1.7976931348623157e308 1.7976931348623158e308 1.7976931348623159e308
        2.2250738585072014e-308 2.2250738585072011e-308 4.9e-324 5e-324 2e-324 1e-323 1.5e-323
        2.4703282292062327e-324 2.4703282292062328e-324 1e-340 1234567890123456789e-343 1e-99999999999";

    #[test]
    fn numbers_at_the_edges_of_doubles_are_read_as_core_reads_them() {
        for text in EDGES.split_ascii_whitespace() {
            assert_eq!(read(text).map(f64::to_bits), oracle(text).map(f64::to_bits), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_number_is_refused_where_it_goes_wrong() {
        let cases = ["", "+1", ".5", "x", "NaN"].map(|text| (text, 0)).into_iter();
        let cases = cases.chain(["-", "01", "--1"].map(|text| (text, 1)));
        let cases = cases.chain(["-00", "1.", "1.e3", "1e"].map(|text| (text, 2)));
        for (text, at) in cases.chain(["1e+", "1e+x"].map(|text| (text, 3))) {
            assert_eq!(Decimal::at_start_of(text.as_bytes()), Err(Misfit(at)), "{text:?}");
        }
        for text in ["1 ", "1x", "0x10", "1.5.5", "1e3e3", "1_000"] {
            assert_eq!(Decimal::of(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn whole_numbers_fill_64_bits_and_have_no_other_form() {
        let cases =
            [("0", Some(0)), ("7", Some(7)), ("18446744073709551615", Some(u64::MAX)), ("18446744073709551616", None)];
        for (text, number) in cases {
            assert_eq!(whole(text.as_bytes()), number, "{text}");
        }
        for text in ["", "-0", "-1", "1.0", "1e3", "007", "7 "] {
            assert_eq!(whole(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn a_number_is_shown_without_what_it_does_not_need() {
        let cases = [
            (8.0, "8"),
            (2.5, "2.5"),
            (-1.0, "-1"),
            (0.0, "0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e300, "1e+300"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (number, text) in cases {
            assert_eq!(shown(number), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn every_double_is_read_as_it_was_written(bits: u64) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite());
            for text in [serde_json::to_string(&number).unwrap(), format!("{number:e}"), shown(number)] {
                prop_assert_eq!(read(&text).map(f64::to_bits), Some(bits), "{}", text);
            }
        }

        #[test]
        fn every_threshold_is_read_as_the_sidecar_wrote_it(number in 0.0..400.0) {
            prop_assert_eq!(read(&serde_json::to_string(&number).unwrap()), Some(number));
        }

        #[test]
        fn up_to_nineteen_digits_are_read_as_core_reads_them(digits in 0..FULL * 10, exponent in -400..400) {
            let text = format!("{digits}e{exponent}");
            prop_assert_eq!(read(&text), oracle(&text), "{}", text);
        }

        #[test]
        fn texts_like_numbers_are_taken_as_serde_json_takes_them(text in "-?[0-9]{0,3}[.]?[0-9]{0,3}[eE]?[-+]?[0-9]{0,3}[ x]?") {
            let strict = serde_json::from_str::<f64>(&text).ok().filter(|_| !text.ends_with(' '));
            prop_assert_eq!(read(&text).is_some(), strict.is_some(), "{}", text);
            let strict = serde_json::from_str::<u64>(&text).ok().filter(|_| !text.ends_with(' '));
            prop_assert_eq!(whole(text.as_bytes()), strict, "{}", text);
        }
    }
}
