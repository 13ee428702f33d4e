//! Volatile text to canonical tokens, in one streaming pass.
//!
//! Two texts that differ only in case, white space, numbers, timestamps and ids give the same tokens. The text is cut
//! into *words*: runs of ASCII letters and digits, and runs of other letters; characters of scripts that are written
//! without spaces are words of their own. A word is at most [`WORD_MAX`] bytes, longer runs are cut there. Then, first
//! match wins:
//!
//! | token | what it stands for |
//! |---|---|
//! | `<ID>` | a UUID |
//! | `<TS>` | an ISO date, or date and time (`2024-01-15`, `2024-01-15T10:30:00.123+05:00`) |
//! | `<NUM>` | digits, with `.` or `,` groups (`3.14`, `1,234`, `10.0.0.1`); `0x` and hex digits |
//! | `<ID>` | 7 or more hex digits that mix digits and letters; 16 or more characters with two separate groups of digits |
//! | words | all else: letters as they are, groups of digits inside as `<NUM>` (`v2` is `v<NUM>`) |
//!
//! Nothing is built: tokens go to a [`Sink`] as slices of the input. How the input is cut into chunks is invisible: a
//! token is only decided when the [`LOOK_AHEAD`] bytes after its start are at hand, or the text has ended.
//!
//! Known inaccuracy: a hexadecimal word with a digit in it (`facade1`) is taken for an id, as is a long identifier with
//! two numbers in it (`Base64EncoderForUtf8`). `2024-01-15 10:30` is a date and two numbers, not one timestamp.

use super::stamps::{timestamp, uuid};
use crate::scan::lanes::{Kinds, Lanes};

/// The longest word; longer runs are cut at this many bytes.
pub const WORD_MAX: usize = 64;
/// What must be visible from a token's start to decide it: a number and the group after it are the longest.
const LOOK_AHEAD: usize = 2 * WORD_MAX + 4;
/// Chunks are gathered into blocks of this size, so that many small ones cost no more than a large one.
const BLOCK: usize = 4096;
/// Bytes behind a block that are loaded with its last word, and taken for nothing.
const PADDING: usize = 64 + SHORT;

/// What stands for volatile text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// `<TS>`
    Timestamp,
    /// `<ID>`
    Id,
    /// An operator's own, by its index.
    Custom(u8),
}

/// Where the tokens of a normalised text go.
pub trait Sink {
    /// Letters. ASCII words arrive in the case they were written in, others lowercased.
    fn word(&mut self, word: Word<'_>);
    /// Digits. `Plain` ones may be what the text is about, the others are labels and measurements.
    fn number(&mut self, digits: &[u8], kind: Number);
    /// Volatile text that is not a number.
    fn placeholder(&mut self, placeholder: Placeholder);
    /// What stands between tokens: white space, punctuation, invalid UTF-8.
    fn gap(&mut self, bytes: &[u8]);
    /// Comes after every few of the others, 64 bytes of text at most: the time for what would be in the way of the loop
    /// that finds words.
    #[inline(always)]
    fn pause(&mut self) {}
}

/// A word and how to fold its case.
#[derive(Clone, Copy, Debug)]
pub enum Word<'a> {
    /// ASCII letters in any case: `byte | 0x20` folds them.
    Ascii(&'a [u8]),
    /// Already lowercased.
    Folded(&'a [u8]),
    /// At most sixteen ASCII letters, as they are and already folded, the first in the lowest byte and zeros after the
    /// last: most words are short, and were loaded into a register to find their end.
    Short(&'a [u8], (u64, u64)),
}

/// What a number is, judged by how it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// A whole number of up to four digits that stands free: a count, a percentage, a line, an exit code.
    Plain,
    /// Long, with a fraction, or attached to a name (`#7`, `req-7`, `15ms`): an id, a time, a measurement.
    Label,
}

const DIGIT: u8 = 1;
const HEX_LETTER: u8 = 2;
const LETTER: u8 = 4;
const OTHER: u8 = 8;

/// What each byte may be part of; 0 is a gap.
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
                0x80.. => OTHER,
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

/// The streaming pass. Feed it with [`push`](Self::push), end it with [`finish`](Self::finish).
#[derive(Clone, Debug)]
pub struct Normaliser {
    block: Box<[u8; BLOCK + PADDING]>,
    filled: usize,
    scanner: Scanner,
}

/// What of the pass is not text.
#[derive(Clone, Copy, Debug)]
struct Scanner {
    before: Before,
}

/// What stood right before the position that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// A gap, or nothing.
    Gap,
    /// A number that `.5` or `,000` may continue.
    Number,
    /// Any other token.
    Token,
    /// One of `#-_`, which tie a number to a name.
    Tie,
}

impl Default for Normaliser {
    fn default() -> Self {
        Self { block: Box::new([0; BLOCK + PADDING]), filled: 0, scanner: Scanner { before: Before::Gap } }
    }
}

impl Normaliser {
    /// Takes the next chunk of the text.
    pub fn push(&mut self, mut chunk: &[u8], sink: &mut impl Sink) {
        while !chunk.is_empty() {
            let (now, later) = chunk.split_at(chunk.len().min(BLOCK - self.filled));
            let end = self.filled + now.len();
            if let Some(room) = self.block.get_mut(self.filled..end) {
                room.copy_from_slice(now);
            }
            self.filled = end;
            if end == BLOCK {
                let done = self.scanner.scan(&self.block[..], BLOCK, BLOCK - LOOK_AHEAD, sink);
                self.block.copy_within(done..BLOCK, 0);
                self.filled -= done;
            }
            chunk = later;
        }
    }

    /// Says that the text has ended. The normaliser is as new afterwards.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        if self.filled == 0 {
            self.scanner.before = Before::Gap;
            return;
        }
        self.block.get_mut(self.filled..self.filled + PADDING).unwrap_or_default().fill(0);
        self.scanner.scan(&self.block[..], self.filled, self.filled, sink);
        self.filled = 0;
        self.scanner.before = Before::Gap;
    }
}

impl Scanner {
    /// Emits every token that begins before `decidable` and returns how many bytes that took. The text has `len` bytes,
    /// and behind it stands [`PADDING`].
    #[inline(never)] // a hot loop of its own: V8 compiles it better than inlined into a larger function
    fn scan(&mut self, padded: &[u8], len: usize, decidable: usize, sink: &mut impl Sink) -> usize {
        let text = padded.get(..len).unwrap_or_default();
        let mut at = 0;
        while at < decidable {
            at += self.plain(padded.get(at..).unwrap_or_default(), len - at, decidable - at, sink);
            if at < decidable {
                at += self.step(text.get(at..).unwrap_or_default(), sink);
                sink.pause();
            }
        }
        at.min(len)
    }

    /// Takes words of letters alone and the gaps between them, which is what most text is made of, until anything else
    /// comes. Returns how many bytes that took.
    #[inline(always)]
    fn plain(&mut self, padded: &[u8], len: usize, decidable: usize, sink: &mut impl Sink) -> usize {
        if self.before == Before::Number {
            return 0;
        }
        let mut at = 0;
        while at < decidable
            && let Some(rest) = padded.get(at..)
            && let Some(ahead) = rest.first_chunk()
        {
            let taken = plain_words(ahead, len - at, sink);
            sink.pause();
            at += taken;
            if taken < 64 - SHORT {
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
            // `.5` or `,000` right after a number belongs to it and says nothing new.
            return len;
        }
        match rest.first().map_or(0, |&byte| class(byte)) {
            0 => self.gap(rest, sink),
            _ => self.token(rest, sink),
        }
    }

    fn gap(&mut self, rest: &[u8], sink: &mut impl Sink) -> usize {
        // Bounded, so that a long gap cannot run past what is decidable by more than a word.
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
            0 => self.other(rest, sink),
            _ if kinds & DIGIT == 0 && !(len == 8 && kinds == HEX_LETTER) => {
                sink.word(Word::Ascii(run));
                self.before = Before::Token;
                len
            }
            _ => self.with_digits(rest, run, kinds, sink),
        }
    }

    /// A run that holds a digit, or that may begin a UUID.
    fn with_digits(&mut self, rest: &[u8], run: &[u8], kinds: u8, sink: &mut impl Sink) -> usize {
        if let Some(len) = uuid(rest, run) {
            return self.placeholder(Placeholder::Id, len, sink);
        }
        if kinds == DIGIT {
            if let Some(len) = timestamp(rest, run) {
                return self.placeholder(Placeholder::Timestamp, len, sink);
            }
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

    fn placeholder(&mut self, placeholder: Placeholder, len: usize, sink: &mut impl Sink) -> usize {
        sink.placeholder(placeholder);
        self.before = Before::Token;
        len
    }

    /// A number, with the first of the groups that may follow it, since they decide what kind it is.
    fn number(&mut self, rest: &[u8], run: &[u8], sink: &mut impl Sink) -> usize {
        let free = self.before == Before::Gap && run.len() <= 4;
        let more = rest.get(run.len()..).and_then(number_group);
        let tied = matches!(rest.get(run.len()), Some(b'-' | b'_'));
        let kind = if free && more.is_none() && !tied { Number::Plain } else { Number::Label };
        sink.number(run, kind);
        self.before = Before::Number;
        run.len()
    }

    /// Letters, ideographs, symbols and white space beyond ASCII.
    fn other(&mut self, rest: &[u8], sink: &mut impl Sink) -> usize {
        let run = rest.iter().take(WORD_MAX).take_while(|&&byte| class(byte) == OTHER).count();
        let whole = whole_characters(rest.get(..run).unwrap_or_default(), run == WORD_MAX);
        let mut rest = whole;
        while let Some(first) = rest.first_chunk() {
            if is_ideograph(first) {
                sink.word(Word::Folded(first));
                rest = rest.get(3..).unwrap_or_default();
                continue;
            }
            let (mixed, after) = rest.split_at(up_to_ideograph(rest));
            letters(mixed, sink);
            rest = after;
        }
        letters(rest, sink);
        self.before = Before::Gap;
        whole.len()
    }
}

/// Letters and what is between them, but no ideographs.
fn letters(text: &[u8], sink: &mut impl Sink) {
    if text.is_empty() {
        return;
    }
    let mut word = Lowercase::default();
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match script(character) {
                Script::Spaced => word.push(character),
                Script::Unspaced => {
                    word.flush(sink);
                    word.push(character);
                    word.flush(sink);
                }
                Script::None => {
                    word.flush(sink);
                    sink.gap(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        if !chunk.invalid().is_empty() {
            word.flush(sink);
            sink.gap(chunk.invalid());
        }
    }
    word.flush(sink);
}

/// The longest word that is taken in one load.
const SHORT: usize = 16;

/// Takes the words of letters in the first 64 bytes, and what is between them, up to the first that is not whole or not
/// short, that a digit or a letter beyond ASCII stands next to, or that may begin a UUID. Returns how many bytes that
/// took. The text has `len` bytes; what is behind it is padding.
#[inline(always)]
fn plain_words(ahead: &[u8; PADDING], len: usize, sink: &mut impl Sink) -> usize {
    let Some(kinds) = Kinds::at_start_of(ahead) else { return 0 };
    let mut starts = kinds.letters & !(kinds.letters << 1);
    let mut ends = !kinds.letters & kinds.letters << 1;
    // A hyphen eight bytes after the start of a word: that may be a UUID, and hardly ever is anything else.
    let stops = kinds.others | (starts << 8 & ends & kinds.hyphens);
    // Only those before the first stop.
    ends &= stops.wrapping_sub(1) & !stops;
    // Known before the words are taken, so that the next 64 bytes need not wait for them.
    let whole = u64::MAX.checked_shr(ends.leading_zeros()).unwrap_or(0);
    let next = (starts & !whole | kinds.others).trailing_zeros() as usize;
    let mut taken = 0;
    while ends != 0 {
        let start = starts.trailing_zeros() as usize;
        let end = ends.trailing_zeros() as usize;
        let Some(bytes) = ahead.get(start..).and_then(Lanes::at_start_of) else { break };
        let letters = end.wrapping_sub(start);
        sink.gap(ahead.get(taken..start).unwrap_or_default());
        if letters > SHORT {
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

/// What a gap that ends with this byte is to a number after it.
fn after_gap(last: Option<&u8>) -> Before {
    match last {
        Some(b'#' | b'-' | b'_') => Before::Tie,
        _ => Before::Gap,
    }
}

/// Cuts a character that the word limit would split in two off the end.
fn whole_characters(run: &[u8], cut: bool) -> &[u8] {
    let is_start = |byte: &u8| byte & 0xC0 != 0x80;
    match run.iter().rposition(is_start) {
        Some(last) if cut && last > 0 && std::str::from_utf8(run.get(last..).unwrap_or_default()).is_err() => {
            run.get(..last).unwrap_or_default()
        }
        _ => run,
    }
}

/// Whether this is one of the characters that are most of what is Chinese, Japanese and Korean. They are three bytes
/// each, there is no case, and each is a word as it stands: nothing needs to be decoded.
#[inline(always)]
fn is_ideograph(&[first, second, third]: &[u8; 3]) -> bool {
    let bytes = u32::from(first) << 16 | u32::from(second) << 8 | u32::from(third);
    // From U+3040 to U+9FFF, and from U+AC00 to U+D7A3: UTF-8 has them in the same order.
    matches!(bytes, 0xE3_81_80..=0xE9_BF_BF | 0xEA_B0_80..=0xED_9E_A3) && bytes & 0x00_C0_C0 == 0x00_80_80
}

/// How many bytes stand before the next of them. Its first byte can be no other character's second, so that no character
/// is cut.
fn up_to_ideograph(text: &[u8]) -> usize {
    text.windows(3).position(|bytes| bytes.first_chunk().is_some_and(is_ideograph)).unwrap_or(text.len())
}

/// How a script separates its words.
enum Script {
    /// By spaces: letters join to words.
    Spaced,
    /// Not at all: each character is a word.
    Unspaced,
    /// Not a letter.
    None,
}

fn script(character: char) -> Script {
    match character {
        '\u{2000}'..='\u{2BFF}' | '\u{3000}'..='\u{303F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FF00}'..='\u{FF0F}' => {
            Script::None
        }
        _ if character.is_whitespace() || character.is_control() => Script::None,
        '\u{E00}'.. => Script::Unspaced,
        _ if character.is_alphanumeric() => Script::Spaced,
        _ => Script::None,
    }
}

/// One lowercased word of non-ASCII letters. Lowercasing can lengthen it: what does not fit is dropped.
struct Lowercase {
    bytes: [u8; 2 * WORD_MAX],
    len: usize,
}

impl Default for Lowercase {
    fn default() -> Self {
        Self { bytes: [0; 2 * WORD_MAX], len: 0 }
    }
}

impl Lowercase {
    fn push(&mut self, character: char) {
        for lower in character.to_lowercase() {
            let end = self.len + lower.len_utf8();
            if let Some(space) = self.bytes.get_mut(self.len..end) {
                lower.encode_utf8(space);
                self.len = end;
            }
        }
    }

    fn flush(&mut self, sink: &mut impl Sink) {
        if self.len > 0 {
            sink.word(Word::Folded(self.bytes.get(..self.len).unwrap_or_default()));
            self.len = 0;
        }
    }
}

/// The length of `.5` or `,000` at the start of `rest`: a separator and a run of digits and nothing else.
fn number_group(rest: &[u8]) -> Option<usize> {
    if !matches!(rest.first(), Some(b'.' | b',')) {
        return None;
    }
    let run = rest.iter().skip(1).take(WORD_MAX).take_while(|byte| byte.is_ascii_digit()).count();
    let ends = run == WORD_MAX || !rest.get(1 + run).is_some_and(u8::is_ascii_alphanumeric);
    (run > 0 && ends).then_some(1 + run)
}

/// `0x` and hex digits.
fn is_hex_number(run: &[u8]) -> bool {
    matches!(run, [b'0', b'x' | b'X', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit))
}

/// A word that identifies rather than says: see the table above.
fn is_id(run: &[u8], kinds: u8) -> bool {
    let hex = kinds == DIGIT | HEX_LETTER && run.len() >= 7;
    let groups =
        || run.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()).filter(|piece| is_digits(piece)).count();
    hex || (run.len() >= 16 && groups() >= 2)
}

fn is_digits(piece: &[u8]) -> bool {
    piece.first().is_some_and(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ideographs_are_known_by_their_bytes() {
        for character in '\u{800}'..='\u{FFFF}' {
            let mut bytes = [0; 3];
            character.encode_utf8(&mut bytes);
            let expected = matches!(character, '\u{3040}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}');
            assert_eq!(is_ideograph(&bytes), expected, "{character}");
        }
        for bytes in
            [[0xE4, 0xB8, 0x20], [0xE4, 0x20, 0x80], [0xE4, 0xB8, 0xE4], [0xE4, 0xC0, 0x80], [0xF0, 0x9F, 0x98]]
        {
            assert!(!is_ideograph(&bytes) && std::str::from_utf8(&bytes).is_err(), "{bytes:x?}");
        }
    }
}
