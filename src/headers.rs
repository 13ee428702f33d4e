//! All headers of a message, in the encoding in which the host passes them.
//!
//! The encoding is a count, the lengths of each pair, and then the texts, each followed by a zero byte. Reading all headers
//! costs one host call, as much as reading one, so they are read once and searched here. Values are bytes, because a
//! client may send invalid UTF-8.

use crate::codec::Reader;

/// The headers of a request or a response. Names are in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<u8>);

impl Headers {
    /// Takes the bytes from the host. If they are malformed, the headers end there.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Encodes headers for the host.
    pub fn encode<'a>(pairs: impl Iterator<Item = (&'a str, &'a [u8])> + Clone) -> Vec<u8> {
        let mut bytes = (pairs.clone().count() as u32).to_le_bytes().to_vec();
        for (name, value) in pairs.clone() {
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend((value.len() as u32).to_le_bytes());
        }
        for text in pairs.flat_map(|(name, value)| [name.as_bytes(), value]) {
            bytes.extend(text);
            bytes.push(0);
        }
        bytes
    }

    /// Returns the first header of this name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.get_other(name, None)
    }

    /// Returns the first header of this name whose value is not `known`.
    #[inline(never)] // compiled once
    pub fn get_other(&self, name: &str, known: Option<&[u8]>) -> Option<&[u8]> {
        self.iter().find(|(own, value)| *own == name.as_bytes() && Some(*value) != known).map(|(_, value)| value)
    }

    /// Returns all headers in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut lengths = Reader(&self.0);
        let count = lengths.u32().unwrap_or(0) as usize;
        let mut texts = count.checked_mul(8).and_then(|size| self.0.get(4 + size..)).unwrap_or_default();
        let mut text = move |len: u32| {
            let (text, rest) = texts.split_at_checked(len as usize)?;
            texts = rest.get(1..)?;
            Some(text)
        };
        (0..count).map_while(move |_| {
            let (name, value) = (lengths.u32()?, lengths.u32()?);
            Some((text(name)?, text(value)?))
        })
    }
}

/// Whether the value of a `content-encoding` header, which is a list, names a compression. Names are not case-sensitive, and
/// `identity` means none.
pub fn is_compressed(value: &[u8]) -> bool {
    let names_none = |coding: &[u8]| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity");
    value.split(|byte| *byte == b',').any(|coding| !names_none(coding.trim_ascii()))
}

/// Parses ASCII digits, with white space around them. Returns `None` if there is anything else, or if the number is too
/// large.
pub fn parse_number(value: &[u8]) -> Option<usize> {
    let digits = value.trim_ascii();
    let text = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit))?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_is_digits_and_nothing_else() {
        for (text, value) in [("0", Some(0)), (" 204 ", Some(204)), ("4294967295", Some(u32::MAX as usize))] {
            assert_eq!(parse_number(text.as_bytes()), value, "{text}");
        }
        for text in ["", " ", "-1", "+1", "1.5", "0x1", "12 3", "18446744073709551616", "\u{663}"] {
            assert_eq!(parse_number(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn identity_is_no_compression_however_it_is_written() {
        for value in ["", " ", "identity", "Identity", " IDENTITY ", "identity, Identity", "identity,"] {
            assert!(!is_compressed(value.as_bytes()), "{value:?}");
        }
        for value in ["gzip", "identity, gzip", "br", "identity2", "\u{fffd}"] {
            assert!(is_compressed(value.as_bytes()), "{value:?}");
        }
    }

    #[test]
    fn headers_are_found_by_name_and_the_first_one_counts() {
        let pairs: [(&str, &[u8]); 4] = [(":path", b"/v1"), ("x-a", b"1"), ("x-a", b"2"), ("empty", b"")];
        let headers = Headers::new(Headers::encode(pairs.into_iter()));
        assert_eq!(headers.iter().count(), 4);
        assert_eq!(headers.get("x-a"), Some(&b"1"[..]));
        assert_eq!(headers.get("empty"), Some(&b""[..]));
        assert_eq!(headers.get("x-b"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes: Vec<u8>) {
            let len = bytes.len();
            let all: usize = Headers::new(bytes).iter().map(|(name, value)| name.len() + value.len()).sum();
            prop_assert!(all <= len);
        }
    }
}
