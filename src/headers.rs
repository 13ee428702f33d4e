//! All headers of a message, as the host gives and takes them in one call.
//!
//! A count, the lengths of each pair, then the texts, each with a zero after it. One header costs a host call, and so do
//! all of them: they are asked for once and looked through here. Values are bytes, since clients send what they like.

use crate::codec::Reader;

/// The headers of a request or a response, names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<u8>);

impl Headers {
    /// What the host gave. Bytes that make no sense are no headers, from there on.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// As the host takes them.
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

    /// The first header of this name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| value)
    }

    /// All of them, in their order.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        fn any_bytes_are_headers(bytes: Vec<u8>) {
            let len = bytes.len();
            let all: usize = Headers::new(bytes).iter().map(|(name, value)| name.len() + value.len()).sum();
            prop_assert!(all <= len);
        }
    }
}
