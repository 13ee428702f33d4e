//! Replaces the escapes of JSON strings by the UTF-8 that they stand for.
//!
//! A text without escapes is passed on as a slice of the body. Any other text is copied into a buffer and passed on in
//! pieces of about a kilobyte: code has an escape every few words, and a call for each of them would cost more than
//! copying. A lone surrogate becomes U+FFFD. An escape that JSON does not define is an error.

use memchr::memchr;

use super::Malformed;
use super::lanes::Lanes;

/// The size of a piece.
const PIECE_BYTES: usize = 1024;
/// How many bytes are copied at once.
const STRIDE: usize = 16;

/// Calls `piece` with the parts of the unescaped text, in order. `raw` is the inside of a JSON string.
pub fn unescape(mut raw: &[u8], piece: &mut dyn FnMut(&[u8])) -> Result<(), Malformed> {
    if memchr(b'\\', raw).is_none() {
        if !raw.is_empty() {
            piece(raw);
        }
        return Ok(());
    }
    let mut buffer = PieceBuffer { bytes: [0; PIECE_BYTES + STRIDE], len: 0 };
    loop {
        raw = buffer.copy_unescaped(raw);
        if raw.is_empty() {
            break;
        }
        if buffer.len >= PIECE_BYTES - STRIDE {
            piece(buffer.take());
        }
        let copied = buffer.copy_up_to_escape(raw);
        raw = raw.get(copied..).unwrap_or_default();
        if copied < STRIDE && !raw.is_empty() {
            let (character, len) = escape(raw).ok_or(Malformed)?;
            buffer.push(character);
            raw = raw.get(len..).unwrap_or_default();
        }
    }
    piece(buffer.take());
    Ok(())
}

/// Returns how many bytes after `cut` belong to an escape that begins before it; 0 if the cut splits no escape.
pub fn rest_of_escape(text: &[u8], cut: usize) -> usize {
    /// The most bytes of an escape that can stand before the cut: `\u` and three of its four digits.
    const LONGEST: usize = 5;
    let near = cut.saturating_sub(LONGEST);
    let before = text.get(..cut).unwrap_or_default();
    let end = before.get(near..).unwrap_or_default();
    let Some(slash) = end.iter().rposition(|&byte| byte == b'\\').map(|at| near + at) else { return 0 };
    let run = before.iter().take(slash + 1).rev().take_while(|&&byte| byte == b'\\').count();
    if run % 2 == 0 {
        return 0;
    }
    let len = if text.get(slash + 1) == Some(&b'u') { 6 } else { 2 };
    (slash + len).min(text.len()).saturating_sub(cut)
}

/// The unescaped text of the piece that is being built.
struct PieceBuffer {
    bytes: [u8; PIECE_BYTES + STRIDE],
    len: usize,
}

impl PieceBuffer {
    /// Copies the text before the next escape, at most [`STRIDE`] bytes of it, and returns how many bytes that were.
    #[inline(always)]
    fn copy_up_to_escape(&mut self, raw: &[u8]) -> usize {
        let (count, stride) = match (Lanes::at_start_of(raw), raw.first_chunk::<STRIDE>()) {
            (Some(bytes), Some(stride)) => ((bytes.equal(b'\\') | 1 << STRIDE).trailing_zeros() as usize, stride),
            _ => (memchr(b'\\', raw).unwrap_or(raw.len()), &padded(raw)),
        };
        // Always copies all sixteen bytes. Those from the escape on are overwritten by what is added next.
        if let Some(room) = self.bytes.get_mut(self.len..self.len + STRIDE) {
            room.copy_from_slice(stride);
        }
        self.len += count;
        count
    }

    /// Copies text without escapes, two strides at a time, until an escape comes or the piece is full. Returns the rest.
    ///
    /// Where the next strides begin does not depend on what these contain, so the processor can load them early.
    #[inline(always)]
    fn copy_unescaped<'a>(&mut self, mut raw: &'a [u8]) -> &'a [u8] {
        let mut len = self.len;
        while len < PIECE_BYTES - 2 * STRIDE
            && let Some((strides, rest)) = raw.split_first_chunk::<{ 2 * STRIDE }>()
            && !has_backslash(strides)
            && let Some(room) = self.bytes.get_mut(len..len + 2 * STRIDE)
        {
            room.copy_from_slice(strides);
            len += 2 * STRIDE;
            raw = rest;
        }
        self.len = len;
        raw
    }

    #[inline(always)]
    fn push(&mut self, character: char) {
        match self.bytes.get_mut(self.len) {
            Some(room) if character.is_ascii() => {
                *room = character as u8;
                self.len += 1;
            }
            _ => {
                let room = self.bytes.get_mut(self.len..self.len + character.len_utf8());
                self.len += room.map_or(0, |room| character.encode_utf8(room).len());
            }
        }
    }

    /// Returns the text and empties the buffer.
    fn take(&mut self) -> &[u8] {
        let len = std::mem::take(&mut self.len);
        self.bytes.get(..len).unwrap_or_default()
    }
}

#[inline(always)]
fn has_backslash(strides: &[u8; 2 * STRIDE]) -> bool {
    let in_stride = |stride: Option<Lanes>| stride.map_or(0, |bytes| bytes.equal(b'\\'));
    in_stride(Lanes::at_start_of(strides)) | in_stride(Lanes::at_end_of(strides)) != 0
}

/// Fills the last bytes of a text, fewer than a stride, up with zeros.
#[cold]
fn padded(raw: &[u8]) -> [u8; STRIDE] {
    let mut stride = [0; STRIDE];
    stride.iter_mut().zip(raw).for_each(|(to, from)| *to = *from);
    stride
}

/// Returns the character that the escape at the start of `text` stands for, and the length of the escape.
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

/// Reads `\u` and four hexadecimal digits, or two of these that form a surrogate pair.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_moved_by_rest_of_escape_splits_no_escape() {
        for text in [&br"a\\nb"[..], br"a\nb", br"caf\u00e9s", br"\\\u00e9\\\\", br"\ud83d\ude00", b"plain", br"\"] {
            for cut in 0..=text.len() {
                let (start, end) = text.split_at(cut + rest_of_escape(text, cut));
                let mut joined = Vec::<u8>::new();
                let halves = [start, end].iter().try_for_each(|half| unescape(half, &mut |piece| joined.extend(piece)));
                let mut whole = Vec::<u8>::new();
                let at_once = unescape(text, &mut |piece| whole.extend(piece));
                assert_eq!(halves, at_once, "{} cut at {cut}", String::from_utf8_lossy(text));
                // Cut between the two halves of a surrogate pair, each half is a lone surrogate.
                assert!(
                    joined == whole || text.starts_with(br"\ud83d"),
                    "{} cut at {cut}",
                    String::from_utf8_lossy(text)
                );
            }
        }
    }
}
