//! Recognises dates and times as people write them: `4 mars 2026`, `Mar 4, 2026 3:20 PM`, `04.03.2026`, `15:20:33`,
//! `2026年3月4日15时20分`.
//!
//! Everything here begins with a number of one, two or four digits, or with a month before a number, so most of a
//! text is never looked at. A date needs a year, or a time after it: `4 May` and `may 4` are left alone. A date may be
//! followed by a time, which then belongs to it.
//!
//! Known inaccuracies: `10:20` is taken for a time although it may be a line and a column, or a range, unless a `:` or a
//! `.` stands right before it. The names of weekdays and time zones stay words.

use super::months::{NAME_MAX, begins_like_month, is_month};

/// The units of dates and times in Chinese, Japanese and Korean, four for each of years, months, days, hours, minutes and
/// seconds. Each has three bytes.
static UNITS: &str = "年年年년月月月월日号號일时時点시分分分분秒秒秒초";
const YEARS: usize = 0;
const MONTHS: usize = 1;
const DAYS: usize = 2;
const HOURS: usize = 3;

/// Returns the length of a date or a time at the start of `rest`, which begins with a run of `digits` digits. `may_be_time`
/// tells whether a time may begin here.
#[inline(never)]
pub fn local_stamp(rest: &[u8], digits: usize, may_be_time: bool) -> Option<usize> {
    let mut cursor = Cursor { rest, at: 0 };
    let next = rest.get(digits).copied()?;
    let then_digit = rest.get(digits + 1).is_some_and(u8::is_ascii_digit);
    match (digits, next) {
        (1 | 2, b':') if may_be_time && then_digit => {
            if cursor.time() {
                Some(cursor.at)
            } else {
                None
            }
        }
        (2 | 4, b'.' | b'/') if then_digit => numeric(rest, digits, next),
        (1 | 2, b' ' | b'.' | b'-' | b'/') if !then_digit => day_first(rest, digits).or_else(|| units(rest, digits)),
        (1 | 2 | 4, b' ' | 0x80..) => units(rest, digits),
        _ => None,
    }
}

/// Returns the length of a date such as `4 mars 2026`, `4. März 2026`, `4 de marzo de 2026`, `4th of March, 2026` or
/// `04/Mar/2026`, whose first run has `run` bytes.
#[inline(never)]
pub fn day_first(rest: &[u8], run: usize) -> Option<usize> {
    let mut cursor = Cursor { rest, at: 0 };
    if !cursor.day() || cursor.at != run {
        return None;
    }
    let between = cursor.peek(0);
    let (word, joined) = if cursor.eat(b'-') || cursor.eat(b'/') {
        (cursor.letters(), cursor.eat(between))
    } else {
        cursor.eat(b'.');
        if !cursor.eat(b' ') {
            return None;
        }
        let _ = cursor.eat_word(b"of ") || cursor.eat_word(b"de ");
        let word = cursor.letters();
        cursor.eat(b'.');
        cursor.eat(b',');
        let joined = cursor.eat(b' ');
        let _ = cursor.eat_word(b"de ") || cursor.eat_word(b"del ");
        (word, joined)
    };
    if joined && cursor.year() && is_month(word) { cursor.end_of_date() } else { None }
}

/// Returns the length of a date such as `Mar 4, 2026`, `March 4th 2026` or `Mar  4 15:20:33` that begins with `word`.
#[inline(never)]
pub fn month_first(rest: &[u8], word: &[u8]) -> Option<usize> {
    let mut cursor = Cursor { rest, at: word.len() };
    if !begins_like_month(word) || !is_month(word) {
        return None;
    }
    cursor.eat(b'.');
    if !cursor.eat(b' ') {
        return None;
    }
    cursor.eat(b' ');
    if !cursor.day() {
        return None;
    }
    let day = cursor.at;
    cursor.eat(b',');
    if cursor.eat(b' ')
        && cursor.year()
        && let Some(len) = cursor.end_of_date()
    {
        return Some(len);
    }
    cursor.at = day;
    if cursor.time_after_date(1) { Some(cursor.at) } else { None }
}

/// Returns the length of a date such as `04.03.2026`, `04/03/2026`, `2026/03/04` or `2026.03.04`, whose first number has
/// `digits` digits.
#[inline(never)]
fn numeric(rest: &[u8], digits: usize, separator: u8) -> Option<usize> {
    let mut cursor = Cursor { rest, at: 0 };
    // Either the day or the month comes first, if the year does not.
    let (mut first, mut highest) = (1, 12);
    if digits == 2 {
        first = cursor.two_digits(31)?;
        highest = 31;
    } else if !cursor.year() {
        return None;
    }
    let joined = cursor.eat(separator);
    let second = cursor.two_digits(highest)?;
    if !joined || !cursor.eat(separator) {
        return None;
    }
    let third = if digits == 4 { cursor.two_digits(31)? } else { u32::from(cursor.year()) };
    if first == 0 || second == 0 || third == 0 || first.min(second) > 12 { None } else { cursor.end_of_date() }
}

/// Returns the length of a date or time of at least two numbers with units, such as `2026年3月4日15时20分` or
/// `3월 4일 15시 20분`, whose first number has `digits` digits.
#[inline(never)]
fn units(rest: &[u8], digits: usize) -> Option<usize> {
    let mut cursor = Cursor { rest, at: digits };
    let first = cursor.unit()?;
    if !matches!((digits, first), (4, YEARS) | (1 | 2, MONTHS | HOURS)) {
        return None;
    }
    let mut unit = first;
    let mut end = cursor.at;
    loop {
        cursor.eat(b' ');
        if cursor.number(2).0 == 0 || cursor.unit() != Some(unit + 1) {
            break;
        }
        unit += 1;
        end = cursor.at;
    }
    cursor.at = end;
    if unit == DAYS {
        cursor.time_after_date(0);
    }
    if unit == first { None } else { Some(cursor.at) }
}

/// Returns where a time ends that follows a date, or `date`, the end of the date, if none does.
#[inline(never)]
pub fn with_time(rest: &[u8], date: usize) -> usize {
    let mut cursor = Cursor { rest, at: date };
    cursor.time_after_date(1);
    cursor.at
}

/// A place in a text. A method that returns `false` leaves it anywhere, unless it says that it puts it back.
///
/// None of the methods is inlined: all of this is rare, and the module must stay small.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Returns the byte `ahead` places further on, or 0 after the end of the text.
    #[inline(never)]
    fn peek(&self, ahead: usize) -> u8 {
        self.rest.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Takes the next byte if it is this one.
    #[inline(never)]
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek(0) == byte;
        self.at += usize::from(found);
        found
    }

    /// Takes the next letter if it is this one, in either case.
    fn eat_letter(&mut self, letter: u8) -> bool {
        self.eat(letter) || self.eat(letter ^ 0x20)
    }

    /// Takes a word if it comes next.
    #[inline(never)]
    fn eat_word(&mut self, word: &[u8]) -> bool {
        let found = self.rest.get(self.at..).is_some_and(|rest| rest.starts_with(word));
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// Takes up to `most` digits, at most nine. Returns how many there were, and their value.
    #[inline(never)]
    fn number(&mut self, most: usize) -> (usize, u32) {
        let (mut digits, mut value) = (0, 0);
        while digits < most && self.peek(0).is_ascii_digit() {
            value = value * 10 + u32::from(self.peek(0) - b'0');
            self.at += 1;
            digits += 1;
        }
        (digits, value)
    }

    /// Takes two digits whose value is at most `highest`, and returns the value.
    #[inline(never)]
    fn two_digits(&mut self, highest: u32) -> Option<u32> {
        let (digits, value) = self.number(2);
        if digits == 2 && value <= highest { Some(value) } else { None }
    }

    /// Takes the day of a month, and the ending of an ordinal after it.
    #[inline(never)]
    fn day(&mut self) -> bool {
        let (_, value) = self.number(2);
        let ending = u16::from_be_bytes([self.peek(0) | 0x20, self.peek(1) | 0x20]);
        // The endings are `st`, `nd`, `rd` and `th`.
        if matches!(ending, 0x7374 | 0x6E64 | 0x7264 | 0x7468) {
            self.at += 2;
        }
        (1..=31).contains(&value)
    }

    /// Takes a year from 1900 to 2099.
    #[inline(never)]
    fn year(&mut self) -> bool {
        let (digits, value) = self.number(4);
        digits == 4 && (1900..2100).contains(&value)
    }

    /// Takes letters of any script, if they are not more than the name of a month can have.
    #[inline(never)]
    fn letters(&mut self) -> &'a [u8] {
        let start = self.at;
        while self.at < start + NAME_MAX && (self.peek(0).is_ascii_alphabetic() || self.peek(0) >= 0x80) {
            self.at += 1;
        }
        self.rest.get(start..self.at).unwrap_or_default()
    }

    /// Takes a unit of [`UNITS`], with or without a space before it, and returns its index.
    #[inline(never)]
    fn unit(&mut self) -> Option<usize> {
        self.eat(b' ');
        let unit = self.rest.get(self.at..self.at + 3)?;
        self.at += 3;
        let (mut index, mut at) = (0, 0);
        while let Some(known) = UNITS.as_bytes().get(at..at + 3) {
            if known == unit {
                return Some(index / 4);
            }
            index += 1;
            at += 3;
        }
        None
    }

    /// Takes a time after a date: after a comma, spaces (at least `spaces` and at most two), or a colon. Puts the cursor
    /// back if there is none.
    #[inline(never)]
    fn time_after_date(&mut self, spaces: usize) -> bool {
        let date = self.at;
        let joined = if spaces > 0 && self.eat(b':') {
            true
        } else {
            self.eat(b',');
            usize::from(self.eat(b' ')) + usize::from(self.eat(b' ')) >= spaces
        };
        if joined && self.time() {
            return true;
        }
        self.at = date;
        false
    }

    /// Takes the time after a date that ends here. Returns the length of both.
    #[inline(never)]
    fn end_of_date(&mut self) -> Option<usize> {
        if self.time_after_date(1) || self.ends() { Some(self.at) } else { None }
    }

    /// Takes a time. Without seconds it needs two digits for the hour, or `AM` or `PM`: `3:20` may be anything.
    #[inline(never)]
    fn time(&mut self) -> bool {
        let (digits, hour) = self.number(2);
        if digits == 0 || hour > 23 || !self.eat(b':') || self.two_digits(59).is_none() {
            return false;
        }
        let minutes = self.at;
        if self.eat(b':') && self.two_digits(60).is_some() {
            let seconds = self.at;
            if !((self.eat(b'.') || self.eat(b',')) && self.number(9).0 > 0) {
                self.at = seconds;
            }
            return self.half_of_day() || self.zone() || self.ends();
        }
        self.at = minutes;
        self.half_of_day() || (digits == 2 && self.ends())
    }

    /// Takes `AM` or `PM`, with or without a space and dots, at the end of a time. Puts the cursor back if there is none.
    #[inline(never)]
    fn half_of_day(&mut self) -> bool {
        let start = self.at;
        self.eat(b' ');
        if self.eat_letter(b'a') || self.eat_letter(b'p') {
            let dotted = self.eat(b'.');
            if self.eat_letter(b'm') && (!dotted || self.eat(b'.')) && self.ends() {
                return true;
            }
        }
        self.at = start;
        false
    }

    /// Takes `Z`, `+05`, `+0530` or `+05:30` at the end of a time. Puts the cursor back if there is none.
    #[inline(never)]
    fn zone(&mut self) -> bool {
        let start = self.at;
        if self.eat_letter(b'z') && self.ends() {
            return true;
        }
        if (self.eat(b'+') || self.eat(b'-')) && self.number(2).0 == 2 {
            let hours = self.at;
            self.eat(b':');
            if self.number(2).0 == 2 && self.ends() {
                return true;
            }
            self.at = hours;
            if self.ends() {
                return true;
            }
        }
        self.at = start;
        false
    }

    /// Returns whether a date or a time may end here: not before a letter or a digit, nor before a separator and a digit.
    #[inline(never)]
    fn ends(&self) -> bool {
        match self.peek(0) {
            b'.' | b':' | b',' => !self.peek(1).is_ascii_digit(),
            byte => !byte.is_ascii_alphanumeric(),
        }
    }
}
