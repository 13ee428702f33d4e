//! What UUIDs and timestamps look like: patterns of fixed shape, read byte by byte.
//!
//! Asked only where a word begins like one of them, which is rare. Each must end where the word ends: a part of a longer
//! word is none.

/// The length of a UUID at the start of `rest`, whose first run is `run`.
pub fn uuid(rest: &[u8], run: &[u8]) -> Option<usize> {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    if run.len() != 8 {
        return None;
    }
    let mut reader = Reader { rest, at: 0 };
    for (index, &digits) in GROUPS.iter().enumerate() {
        if index > 0 {
            reader.byte(|byte| byte == b'-')?;
        }
        reader.count(digits, |byte| byte.is_ascii_hexdigit())?;
    }
    reader.ends_word().then_some(reader.at)
}

/// The length of an ISO date, or date and time, at the start of `rest`, whose first run is `run`.
pub fn timestamp(rest: &[u8], run: &[u8]) -> Option<usize> {
    if run.len() != 4 {
        return None;
    }
    let mut reader = Reader { rest, at: 0 };
    reader.digits(4)?;
    reader.byte(|byte| byte == b'-')?;
    reader.digits(2)?;
    reader.byte(|byte| byte == b'-')?;
    reader.digits(2)?;
    if reader.ends_word() {
        return Some(reader.at);
    }
    reader.byte(|byte| byte == b'T' || byte == b't')?;
    reader.digits(2)?;
    reader.byte(|byte| byte == b':')?;
    reader.digits(2)?;
    let minutes = Some(reader);
    let seconds = minutes.and_then(|reader| reader.then(|seconds| seconds.part(b":", 2)));
    let fraction = seconds.and_then(|reader| reader.then(Reader::fraction));
    // The longest reading that ends where the word ends.
    [fraction, seconds, minutes].into_iter().flatten().find_map(|reader| {
        let zoned = reader.then(Reader::zone).filter(Reader::ends_word);
        zoned.or(Some(reader)).filter(Reader::ends_word).map(|reader| reader.at)
    })
}

/// A position in bytes, with the few patterns that ids and timestamps are made of.
#[derive(Clone, Copy)]
struct Reader<'a> {
    rest: &'a [u8],
    at: usize,
}

impl Reader<'_> {
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

    /// One of these bytes, then this many digits.
    fn part(&mut self, separators: &[u8], digits: usize) -> Option<()> {
        self.byte(|byte| separators.contains(&byte))?;
        self.digits(digits)
    }

    /// `.123`, up to nine digits.
    fn fraction(&mut self) -> Option<()> {
        self.byte(|byte| byte == b'.' || byte == b',')?;
        let rest = self.rest.get(self.at..)?;
        let digits = rest.iter().take(9).take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        (digits > 0).then_some(())
    }

    /// `Z`, `+05`, `+0530` or `+05:30`.
    fn zone(&mut self) -> Option<()> {
        if self.byte(|byte| byte == b'Z' || byte == b'z').is_some() {
            return Some(());
        }
        self.part(b"+-", 2)?;
        let hours = *self;
        let minutes = hours.then(|reader| reader.part(b":", 2)).or_else(|| hours.then(|reader| reader.digits(2)));
        *self = minutes.filter(Reader::ends_word).unwrap_or(hours);
        Some(())
    }

    /// Where the reader is once `part` has been taken, if it can be.
    fn then(mut self, part: impl FnOnce(&mut Self) -> Option<()>) -> Option<Self> {
        part(&mut self).map(|()| self)
    }

    fn ends_word(&self) -> bool {
        !self.rest.get(self.at).is_some_and(u8::is_ascii_alphanumeric)
    }
}
