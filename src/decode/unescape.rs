//! JSON string escapes to UTF-8, piece by piece.
//!
//! Long pieces without escapes are passed on as they stand in the body; only what stands around escapes is gathered. A lone surrogate
//! becomes U+FFFD. An escape that JSON does not know is an error: the text is not what its sender meant.

use memchr::memchr;

use super::json::Malformed;

/// Escapes are gathered with what stands between them into pieces of this size: text full of `\\n` has one every few words.
const GATHER: usize = 1024;

/// Passes the text of a JSON string on in pieces.
pub fn unescape(mut raw: &[u8], mut piece: impl FnMut(&[u8])) -> Result<(), Malformed> {
    if memchr(b'\\', raw).is_none() {
        if !raw.is_empty() {
            piece(raw);
        }
        return Ok(());
    }
    let mut gather = Gather { bytes: [0; GATHER], len: 0, piece };
    while let Some(at) = memchr(b'\\', raw) {
        let (plain, escaped) = raw.split_at(at);
        gather.add(plain);
        let (character, len) = escape(escaped).ok_or(Malformed)?;
        gather.add(character.encode_utf8(&mut [0; 4]).as_bytes());
        raw = escaped.get(len..).unwrap_or_default();
    }
    gather.add(raw);
    gather.flush();
    Ok(())
}

/// Small pieces to larger ones.
struct Gather<F> {
    bytes: [u8; GATHER],
    len: usize,
    piece: F,
}

impl<F: FnMut(&[u8])> Gather<F> {
    #[inline(always)]
    fn add(&mut self, text: &[u8]) {
        if self.len + text.len() > GATHER {
            self.flush();
        }
        match self.bytes.get_mut(self.len..self.len + text.len()) {
            Some(room) => {
                room.copy_from_slice(text);
                self.len += text.len();
            }
            None => (self.piece)(text),
        }
    }

    fn flush(&mut self) {
        if self.len > 0 {
            (self.piece)(self.bytes.get(..self.len).unwrap_or_default());
            self.len = 0;
        }
    }
}

/// The character that the escape at the start of `text` stands for, and the escape's length.
fn escape(text: &[u8]) -> Option<(char, usize)> {
    let simple = match text.get(1)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'u' => return unicode(text),
        _ => return None,
    };
    Some((simple, 2))
}

/// `\u` and four digits, or two of these that make one character.
fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let first = code_unit(text)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 6));
    }
    let second = text.get(6..).and_then(code_unit).filter(|unit| (0xDC00..0xE000).contains(unit));
    match second {
        Some(second) if first < 0xDC00 => {
            let character = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            Some((char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER), 12))
        }
        _ => Some((char::REPLACEMENT_CHARACTER, 6)),
    }
}

fn code_unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | (digit as char).to_digit(16)?))
}
