//! Cuts a text into tokens, with placeholders in place of what changes from call to call.
//!
//! Two texts that differ only in case, white space, numbers, timestamps and ids have the same tokens. Characters that
//! nobody sees, such as a zero-width space, are removed first, so that they cannot split a word, and the digits of
//! other scripts become ASCII digits (see `invisible`).
//!
//! The text is cut into *words*: runs of ASCII letters and digits, and runs of other letters. In scripts that are written
//! without spaces, each character is a word. A word has at most [`WORD_MAX`] bytes; longer runs are cut there. A word then
//! becomes one of these tokens; the first row that matches decides:
//!
//! | token | what it stands for |
//! |---|---|
//! | `<ID>` | a UUID |
//! | `<TS>` | an ISO date, or date and time (`2024-01-15`, `2024-01-15T10:30:00.123+05:00`); dates and times as people write them (`4 mars 2026`, `Mar 4, 2026 3:20 PM`, `2026年3月4日`, `15:20:33`; see `dates`) |
//! | `<NUM>` | digits, with `.` or `,` groups (`3.14`, `1,234`, `10.0.0.1`); `0x` and hex digits |
//! | `<ID>` | 7 or more hex digits that mix digits and letters; 16 or more characters with two separate groups of digits |
//! | words | everything else: letters in lower case, groups of digits inside as `<NUM>` (`v2` is `v<NUM>`) |
//!
//! No text is built: tokens go to a [`Sink`] as slices of the input. How the input is cut into chunks does not matter: a
//! token is decided only when the [`LOOK_AHEAD`] bytes after its start are known, or the text has ended.
//!
//! Known inaccuracies: a hexadecimal word with a digit in it (`facade1`) is taken for an id, and so is a long identifier
//! with two numbers in it (`Base64EncoderForUtf8`). A line and a column (`line 10:20`) look like a time.

use super::dates::{day_first, local_stamp, month_first};
use super::invisible::{remove_invisible, undecided};
use super::months::begins_like_month;
use super::script::non_ascii_words;
use super::stamps::{timestamp, uuid};
use crate::scan::lanes::{ByteKinds, Lanes, at_least};

/// The length of the longest word, in bytes.
pub const WORD_MAX: usize = 64;
/// How many bytes from a token's start are needed to decide it. The longest case is a number with the group after it.
const LOOK_AHEAD: usize = 2 * WORD_MAX + 4;
/// Chunks are collected in a buffer of this size, so that many small ones cost no more than a large one.
const BUFFER_BYTES: usize = 4096;
/// How many bytes after the text may be loaded along with its last word. They are never part of a token.
const PADDING: usize = 64 + SHORT_WORD_MAX;
/// The length of the longest word that is loaded at once.
const SHORT_WORD_MAX: usize = 16;

/// A token that replaces volatile text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// `<TS>`.
    Timestamp,
    /// `<ID>`.
    Id,
    /// The placeholder of an operator's pattern, by the index of the pattern.
    Custom(u8),
}

/// Receives the tokens of a normalised text.
pub trait Sink {
    /// Takes a word.
    fn word(&mut self, word: Word<'_>);
    /// Takes a number.
    fn number(&mut self, digits: &[u8], kind: Number);
    /// Takes volatile text that is not a number.
    fn placeholder(&mut self, placeholder: Placeholder);
    /// Takes what is between tokens: white space, punctuation, invalid UTF-8.
    fn gap(&mut self, bytes: &[u8]);
    /// Called after at most 64 bytes of text. Work that would slow down the loop that finds words belongs here.
    #[inline(always)]
    fn pause(&mut self) {}
}

/// A word, in one of three forms.
#[derive(Clone, Copy, Debug)]
pub enum Word<'a> {
    /// ASCII letters in any case; `byte | 0x20` makes them lower case.
    Ascii(&'a [u8]),
    /// Letters in lower case, not all of them ASCII.
    Lowercase(&'a [u8]),
    /// At most sixteen ASCII letters in any case, and the same letters in lower case as two numbers: the first letter in
    /// the lowest byte, zeros after the last. Most words are short, and finding their end has loaded them anyway.
    Short(&'a [u8], (u64, u64)),
}

/// What a number probably is, judged by its length and by what is next to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// A whole number of up to four digits that stands alone: a count, a percentage, a line, an exit code. Its value may
    /// be what the text is about.
    Value,
    /// A number that is long, has a fraction or is attached to a name (`#7`, `req-7`, `15ms`): an id, a time, a
    /// measurement.
    Label,
}

const DIGIT: u8 = 1;
const HEX_LETTER: u8 = 2;
const LETTER: u8 = 4;
const NON_ASCII: u8 = 8;

/// The class of each byte; 0 is a gap.
static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        #[allow(clippy::indexing_slicing)] // `byte` is below 256
        {
            table[byte] = match byte as u8 {
                b'0'..=b'9' => DIGIT,
                b'a'..=b'f' | b'A'..=b'F' => HEX_LETTER,
                b'g'..=b'z' | b'G'..=b'Z' => LETTER,
                0x80.. => NON_ASCII,
                _ => 0,
            };
        }
        byte += 1;
    }
    table
}

fn class(byte: u8) -> u8 {
    CLASS.get(byte as usize).copied().unwrap_or(0)
}

/// Cuts a text that comes in chunks into tokens.
#[derive(Clone, Debug)]
pub struct Normaliser {
    buffer: Box<[u8; BUFFER_BYTES + PADDING]>,
    filled: usize,
    /// How many bytes at the start of the buffer are known to contain no invisible characters.
    visible: usize,
    scanner: Scanner,
}

/// Finds the tokens. Separate from the buffer, so that both can be borrowed.
#[derive(Clone, Copy, Debug)]
struct Scanner {
    before: Before,
}

/// What is right before the current position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// A gap, or the start of the text.
    Gap,
    /// A number that `.5` or `,000` may continue.
    Number,
    /// Any other token.
    Token,
    /// A gap that ends with `#`, `-` or `_`, which attach a number to a name.
    Tie,
    /// A gap that ends with `:` or `.`, after which no time begins: `main.rs:12:34` is a line and a column.
    Joint,
}

impl Default for Normaliser {
    fn default() -> Self {
        let scanner = Scanner { before: Before::Gap };
        Self { buffer: Box::new([0; BUFFER_BYTES + PADDING]), filled: 0, visible: 0, scanner }
    }
}

impl Normaliser {
    /// Takes the next chunk of the text.
    pub fn push(&mut self, mut chunk: &[u8], sink: &mut impl Sink) {
        while !chunk.is_empty() {
            let (now, later) = chunk.split_at(chunk.len().min(BUFFER_BYTES - self.filled));
            let end = self.filled + now.len();
            if let Some(room) = self.buffer.get_mut(self.filled..end) {
                room.copy_from_slice(now);
            }
            self.filled = end;
            if end == BUFFER_BYTES {
                self.remove_invisible();
            }
            // Otherwise there is room again.
            if self.filled == BUFFER_BYTES {
                let done = self.scanner.scan(&self.buffer[..], self.visible, self.visible - LOOK_AHEAD, sink);
                self.buffer.copy_within(done..BUFFER_BYTES, 0);
                self.filled -= done;
                self.visible -= done;
            }
            chunk = later;
        }
    }

    /// Removes the invisible characters of what has been added to the buffer. The first bytes of one whose end has not
    /// arrived yet are looked at again later.
    #[inline(never)] // compiled once, and not into every function that ends a text
    fn remove_invisible(&mut self) {
        let Some(added) = self.buffer.get_mut(self.visible..self.filled) else { return };
        let undecided = undecided(added);
        self.filled = self.visible + remove_invisible(added);
        self.visible = self.filled - undecided;
    }

    /// Ends the text. The normaliser is ready for the next one.
    #[inline(always)]
    pub fn finish(&mut self, sink: &mut impl Sink) {
        if self.filled > 0 {
            self.remove_invisible();
        }
        if self.filled == 0 {
            self.scanner.before = Before::Gap;
            return;
        }
        self.buffer.get_mut(self.filled..self.filled + PADDING).unwrap_or_default().fill(0);
        self.scanner.scan(&self.buffer[..], self.filled, self.filled, sink);
        (self.filled, self.visible) = (0, 0);
        self.scanner.before = Before::Gap;
    }
}

impl Scanner {
    /// Passes on every token that begins before `decidable`, and returns how many bytes that took. `padded` holds `len`
    /// bytes of text and then [`PADDING`].
    #[inline(never)] // V8 compiles a hot loop better if it is not part of a larger function
    fn scan(&mut self, padded: &[u8], len: usize, decidable: usize, sink: &mut impl Sink) -> usize {
        let text = padded.get(..len).unwrap_or_default();
        let mut at = 0;
        while at < decidable {
            at += self.short_words(padded.get(at..).unwrap_or_default(), len - at, decidable - at, sink);
            if at < decidable {
                at += self.step(text.get(at..).unwrap_or_default(), sink);
                sink.pause();
            }
        }
        at.min(len)
    }

    /// Takes short words of ASCII letters and the gaps between them, which is most of a text, until anything else comes.
    /// Returns how many bytes that took.
    #[inline(always)]
    fn short_words(&mut self, padded: &[u8], len: usize, decidable: usize, sink: &mut impl Sink) -> usize {
        if self.before == Before::Number {
            return 0;
        }
        let mut at = 0;
        while at < decidable
            && let Some(rest) = padded.get(at..)
            && let Some(ahead) = rest.first_chunk()
        {
            let taken = short_words_ahead(ahead, len - at, sink);
            sink.pause();
            at += taken;
            if taken < 64 - SHORT_WORD_MAX {
                break;
            }
        }
        if let Some(last) = at.checked_sub(1) {
            self.before = after_gap(padded.get(last));
        }
        at
    }

    /// Takes one token or gap.
    #[inline(never)] // so that the loop around it stays small
    fn step(&mut self, rest: &[u8], sink: &mut impl Sink) -> usize {
        if self.before == Before::Number
            && let Some(len) = number_group(rest)
        {
            // `.5` or `,000` right after a number belongs to the number.
            return len;
        }
        match rest.first().map_or(0, |&byte| class(byte)) {
            0 => self.gap(rest, sink),
            _ => self.token(rest, sink),
        }
    }

    fn gap(&mut self, rest: &[u8], sink: &mut impl Sink) -> usize {
        // Limited, so that a long gap cannot go further past what is decidable than a word can.
        let rest = rest.get(..WORD_MAX).unwrap_or(rest);
        let len = rest.iter().position(|&byte| class(byte) != 0).unwrap_or(rest.len());
        let bytes = rest.get(..len).unwrap_or_default();
        self.before = after_gap(bytes.last());
        sink.gap(bytes);
        len
    }

    /// Takes a token of any kind.
    fn token(&mut self, rest: &[u8], sink: &mut impl Sink) -> usize {
        let longest = rest.get(..WORD_MAX).unwrap_or(rest);
        let mut kinds = 0;
        let ends = |&byte: &u8| {
            let kind = class(byte);
            let is_word = kind & (DIGIT | HEX_LETTER | LETTER) != 0;
            kinds |= if is_word { kind } else { 0 };
            !is_word
        };
        let len = longest.iter().position(ends).unwrap_or(longest.len());
        let run = longest.get(..len).unwrap_or_default();
        match kinds {
            0 => self.non_ascii(rest, sink),
            _ if kinds & DIGIT == 0 && !(len == 8 && kinds == HEX_LETTER) => {
                if let Some(len) = month_first(rest, run) {
                    return self.placeholder(Placeholder::Timestamp, len, sink);
                }
                sink.word(Word::Ascii(run));
                self.before = Before::Token;
                len
            }
            _ => self.with_digits(rest, run, kinds, sink),
        }
    }

    /// Takes a run that contains a digit, or that may be the start of a UUID.
    fn with_digits(&mut self, rest: &[u8], run: &[u8], kinds: u8, sink: &mut impl Sink) -> usize {
        if let Some(len) = uuid(rest, run) {
            return self.placeholder(Placeholder::Id, len, sink);
        }
        let may_be_time = matches!(self.before, Before::Gap | Before::Tie);
        let stamp = match kinds {
            DIGIT => timestamp(rest, run).or_else(|| local_stamp(rest, run.len(), may_be_time)),
            // `4th March 2026`
            _ if run.len() <= 4 && matches!(run.last().map(|last| last | 0x20), Some(b't' | b'd' | b'h')) => {
                day_first(rest, run.len())
            }
            _ => None,
        };
        if let Some(len) = stamp {
            return self.placeholder(Placeholder::Timestamp, len, sink);
        }
        if kinds == DIGIT {
            return self.number(rest, run, sink);
        }
        if is_hex_number(run) {
            sink.number(run, Number::Label);
            self.before = Before::Token;
            return run.len();
        }
        if is_id(run, kinds) {
            return self.placeholder(Placeholder::Id, run.len(), sink);
        }
        for piece in run.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
            if piece.first().is_some_and(u8::is_ascii_digit) {
                sink.number(piece, Number::Label);
            } else {
                sink.word(Word::Ascii(piece));
            }
        }
        self.before = Before::Token;
        run.len()
    }

    #[inline(never)] // compiled once, and not for each of the callers
    fn placeholder(&mut self, placeholder: Placeholder, len: usize, sink: &mut impl Sink) -> usize {
        sink.placeholder(placeholder);
        // Some dates end with a character that is not part of a word in ASCII.
        self.before = if placeholder == Placeholder::Timestamp { Before::Gap } else { Before::Token };
        len
    }

    /// Takes the digits of a number. What follows them decides which kind of number it is.
    fn number(&mut self, rest: &[u8], run: &[u8], sink: &mut impl Sink) -> usize {
        let stands_alone = matches!(self.before, Before::Gap | Before::Joint) && run.len() <= 4;
        let more = rest.get(run.len()..).and_then(number_group);
        let tied = matches!(rest.get(run.len()), Some(b'-' | b'_'));
        let kind = if stands_alone && more.is_none() && !tied { Number::Value } else { Number::Label };
        sink.number(run, kind);
        self.before = Before::Number;
        run.len()
    }

    /// Takes a run of bytes beyond ASCII.
    fn non_ascii(&mut self, rest: &[u8], sink: &mut impl Sink) -> usize {
        let run = match rest.first_chunk() {
            Some(longest) => at_least(longest, 0x80).trailing_ones() as usize,
            None => rest.iter().take_while(|&&byte| class(byte) == NON_ASCII).count(),
        };
        let len = non_ascii_words(rest.get(..run).unwrap_or_default(), sink);
        self.before = Before::Gap;
        len
    }
}

/// Takes the words of ASCII letters in the first 64 bytes and the gaps between them. Stops at a word that is not complete,
/// not short, next to a digit or a byte beyond ASCII, or possibly the start of a UUID or a date. Returns how many bytes were
/// taken.
/// The text has `len` bytes; what comes after it is padding.
#[inline(always)]
fn short_words_ahead(ahead: &[u8; PADDING], len: usize, sink: &mut impl Sink) -> usize {
    let Some(kinds) = ByteKinds::at_start_of(ahead) else { return 0 };
    let mut starts = kinds.letters & !(kinds.letters << 1);
    let mut ends = !kinds.letters & kinds.letters << 1;
    // A hyphen eight bytes after the start of a word may belong to a UUID, and is rare otherwise.
    let stops = kinds.digits_or_non_ascii | (starts << 8 & ends & kinds.hyphens);
    // Keeps only the ends before the first stop.
    ends &= stops.wrapping_sub(1) & !stops;
    if may_be_date(ahead, starts, ends) {
        ends &= !(1 << 63 >> ends.leading_zeros());
    }
    // Computed before the words are taken, so that the processor can start with the next 64 bytes.
    let whole = u64::MAX.checked_shr(ends.leading_zeros()).unwrap_or(0);
    let next = (starts & !whole | kinds.digits_or_non_ascii).trailing_zeros() as usize;
    let mut taken = 0;
    while ends != 0 {
        let start = starts.trailing_zeros() as usize;
        let end = ends.trailing_zeros() as usize;
        let Some(bytes) = ahead.get(start..).and_then(Lanes::at_start_of) else { break };
        let letters = end.wrapping_sub(start);
        sink.gap(ahead.get(taken..start).unwrap_or_default());
        if letters > SHORT_WORD_MAX {
            return start;
        }
        sink.word(Word::Short(ahead.get(start..end).unwrap_or_default(), bytes.folded(letters as u32)));
        taken = end;
        starts &= starts - 1;
        ends &= ends - 1;
    }
    sink.gap(ahead.get(taken..next.min(len)).unwrap_or_default());
    next
}

/// Returns whether the last of the words that end at `ends` may be the first word of a date: a digit comes at most three
/// bytes after it, and it begins like a month.
#[inline(always)]
fn may_be_date(ahead: &[u8; PADDING], starts: u64, ends: u64) -> bool {
    let Some(end) = ends.checked_ilog2() else { return false };
    let after = ahead.get(end as usize..).and_then(<[u8]>::first_chunk);
    if !after.is_some_and(|after| has_digit(*after)) {
        return false;
    }
    let before = starts & ((1 << end) - 1);
    let start = before.checked_ilog2().unwrap_or(0);
    ahead.get(start as usize..end as usize).is_some_and(begins_like_month)
}

/// Returns whether one of four bytes is a digit. Looks at all of them at once, because a branch for each would often be
/// mispredicted.
#[inline(always)]
fn has_digit(bytes: [u8; 4]) -> bool {
    // A digit becomes a number below ten, and subtracting ten from it sets its highest bit. A borrow may set the highest bit
    // of other bytes, too, but only digits cause one.
    let values = u32::from_le_bytes(bytes) ^ 0x3030_3030;
    values.wrapping_sub(0x0A0A_0A0A) & !values & 0x8080_8080 != 0
}

/// Returns what the last byte of a gap means for a number after it.
fn after_gap(last: Option<&u8>) -> Before {
    match last {
        Some(b'#' | b'-' | b'_') => Before::Tie,
        Some(b':' | b'.') => Before::Joint,
        _ => Before::Gap,
    }
}

/// Returns the length of a group such as `.5` or `,000` at the start of `rest`: a separator and digits, with no letter
/// after them.
fn number_group(rest: &[u8]) -> Option<usize> {
    if !matches!(rest.first(), Some(b'.' | b',')) {
        return None;
    }
    let run = rest.iter().skip(1).take(WORD_MAX).take_while(|byte| byte.is_ascii_digit()).count();
    let ends = run == WORD_MAX || !rest.get(1 + run).is_some_and(u8::is_ascii_alphanumeric);
    (run > 0 && ends).then_some(1 + run)
}

/// Returns whether a run is `0x` followed by hex digits.
fn is_hex_number(run: &[u8]) -> bool {
    matches!(run, [b'0', b'x' | b'X', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Returns whether a run is an id, by the rules of the table in the module's documentation.
fn is_id(run: &[u8], kinds: u8) -> bool {
    let hex = kinds == DIGIT | HEX_LETTER && run.len() >= 7;
    let groups =
        || run.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()).filter(|piece| is_digits(piece)).count();
    hex || (run.len() >= 16 && groups() >= 2)
}

fn is_digits(piece: &[u8]) -> bool {
    piece.first().is_some_and(u8::is_ascii_digit)
}
