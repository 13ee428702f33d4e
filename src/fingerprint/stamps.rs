//! Recognises UUIDs and ISO timestamps. `dates` recognises dates and times in other forms.
//!
//! They are matched byte by byte, and only where a word begins like one of them, which is rare. Each must end where the
//! word ends.

use super::dates::with_time;

/// Returns the length of a UUID at the start of `rest`, whose first run is `run`.
pub fn uuid(rest: &[u8], run: &[u8]) -> Option<usize> {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    if run.len() != 8 {
        return None;
    }
    let mut matcher = Matcher { rest, at: 0 };
    for (index, &digits) in GROUPS.iter().enumerate() {
        if index > 0 {
            matcher.byte(|byte| byte == b'-')?;
        }
        matcher.count(digits, |byte| byte.is_ascii_hexdigit())?;
    }
    matcher.ends_word().then_some(matcher.at)
}

/// Returns the length of an ISO date, or date and time (also with a space between the two), at the start of `rest`, whose
/// first run is `run`.
pub fn timestamp(rest: &[u8], run: &[u8]) -> Option<usize> {
    if run.len() != 4 {
        return None;
    }
    let mut matcher = Matcher { rest, at: 0 };
    matcher.digits(4)?;
    matcher.byte(|byte| byte == b'-')?;
    matcher.digits(2)?;
    matcher.byte(|byte| byte == b'-')?;
    matcher.digits(2)?;
    if matcher.ends_word() {
        return Some(with_time(rest, matcher.at));
    }
    matcher.byte(|byte| byte == b'T' || byte == b't')?;
    matcher.digits(2)?;
    matcher.byte(|byte| byte == b':')?;
    matcher.digits(2)?;
    let minutes = Some(matcher);
    let seconds = minutes.and_then(|matcher| matcher.then(|seconds| seconds.part(b":", 2)));
    let fraction = seconds.and_then(|matcher| matcher.then(Matcher::fraction));
    // The longest match that ends where the word ends.
    [fraction, seconds, minutes].into_iter().flatten().find_map(|matcher| {
        let zoned = matcher.then(Matcher::zone).filter(Matcher::ends_word);
        zoned.or(Some(matcher)).filter(Matcher::ends_word).map(|matcher| matcher.at)
    })
}

/// Matches the parts of ids and timestamps, one after the other.
#[derive(Clone, Copy)]
struct Matcher<'a> {
    rest: &'a [u8],
    at: usize,
}

impl Matcher<'_> {
    fn byte(&mut self, accept: impl Fn(u8) -> bool) -> Option<()> {
        let byte = self.rest.get(self.at)?;
        accept(*byte).then(|| self.at += 1)
    }

    fn count(&mut self, count: usize, accept: impl Fn(u8) -> bool) -> Option<()> {
        let bytes = self.rest.get(self.at..self.at + count)?;
        bytes.iter().all(|byte| accept(*byte)).then(|| self.at += count)
    }

    fn digits(&mut self, count: usize) -> Option<()> {
        self.count(count, |byte| byte.is_ascii_digit())
    }

    /// Matches one of these separators and then this many digits.
    fn part(&mut self, separators: &[u8], digits: usize) -> Option<()> {
        self.byte(|byte| separators.contains(&byte))?;
        self.digits(digits)
    }

    /// Matches a fraction such as `.123`, of up to nine digits.
    fn fraction(&mut self) -> Option<()> {
        self.byte(|byte| byte == b'.' || byte == b',')?;
        let rest = self.rest.get(self.at..)?;
        let digits = rest.iter().take(9).take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        (digits > 0).then_some(())
    }

    /// Matches a time zone: `Z`, `+05`, `+0530` or `+05:30`.
    fn zone(&mut self) -> Option<()> {
        if self.byte(|byte| byte == b'Z' || byte == b'z').is_some() {
            return Some(());
        }
        self.part(b"+-", 2)?;
        let hours = *self;
        let minutes = hours.then(|matcher| matcher.part(b":", 2)).or_else(|| hours.then(|matcher| matcher.digits(2)));
        *self = minutes.filter(Matcher::ends_word).unwrap_or(hours);
        Some(())
    }

    /// Returns the matcher after `part`, if `part` matches.
    fn then(mut self, part: impl FnOnce(&mut Self) -> Option<()>) -> Option<Self> {
        part(&mut self).map(|()| self)
    }

    fn ends_word(&self) -> bool {
        !self.rest.get(self.at).is_some_and(u8::is_ascii_alphanumeric)
    }
}
