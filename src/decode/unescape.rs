//! JSON string escapes to UTF-8, piece by piece.
//!
//! Pieces without escapes are passed on as they stand in the body; only escapes themselves are built. A lone surrogate
//! becomes U+FFFD. An escape that JSON does not know is an error: the text is not what its sender meant.

use memchr::memchr;

use super::json::Malformed;

/// Passes the text of a JSON string on in pieces.
pub fn unescape(mut raw: &[u8], mut piece: impl FnMut(&[u8])) -> Result<(), Malformed> {
    while let Some(at) = memchr(b'\\', raw) {
        let (plain, escaped) = raw.split_at(at);
        if !plain.is_empty() {
            piece(plain);
        }
        let (character, len) = escape(escaped).ok_or(Malformed)?;
        piece(character.encode_utf8(&mut [0; 4]).as_bytes());
        raw = escaped.get(len..).unwrap_or_default();
    }
    if !raw.is_empty() {
        piece(raw);
    }
    Ok(())
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

/// `\uXXXX`, or two of them that make one character.
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
