//! Calls and answers in the form in which a filter tells the sidecar of them, so that it can compare what several Envoys
//! see of one agent.
//!
//! An item is the call as it entered the window, or the answer that completes it: fingerprints and times, never text. Items
//! have a fixed length, and the sidecar reads them with the same code that writes them here. [`VERSION`] is that of the
//! window's layout: items of another version are not read.

use crate::detect::entry::{self, Entry};
use crate::detect::tools::Treatment;
use crate::detect::window::{self, Call, Sequence};

/// The version of the layout.
pub const VERSION: u8 = window::VERSION;

/// The length of an item: what it is, the number of its call, the score that the Envoy gave it, how its tools are counted,
/// and the call.
pub const ITEM_BYTES: usize = 1 + 4 + 2 + 1 + entry::LEN;

const NUMBER: usize = 1;
const SCORE: usize = NUMBER + 4;
const TREATMENT: usize = SCORE + 2;
const CALL: usize = TREATMENT + 1;

/// What an item is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A call in the agent's common window.
    Common = 0,
    /// A call in the window of its conversation.
    Conversation = 1,
    /// The answer to a call.
    Answer = 2,
}

/// A call, or the answer to one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// What the item is about.
    pub kind: Kind,
    /// The number of the call, which is unique among the calls of one worker.
    pub number: u32,
    /// The score of the call in the Envoy's own window, in half points.
    pub half_points: u16,
    /// The call. Of the call of an answer, only the answer, its tokens and the time at which it ended count.
    pub call: Call,
}

impl Item {
    /// Appends the item to bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.kind as u8);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.half_points.to_le_bytes());
        bytes.push(self.call.treatment.code());
        bytes.extend_from_slice(&entry::encode(&self.call, Sequence(0)));
    }

    /// Returns what an encoded item is about, or `None` if it is of an unknown kind.
    pub fn kind(bytes: &[u8; ITEM_BYTES]) -> Option<Kind> {
        [Kind::Common, Kind::Conversation, Kind::Answer].into_iter().find(|kind| Some(&(*kind as u8)) == bytes.first())
    }

    /// Decodes an item. Returns `None` if it is of an unknown kind.
    pub fn decode(bytes: &[u8; ITEM_BYTES]) -> Option<Self> {
        let number = bytes.get(NUMBER..)?.first_chunk()?;
        let half_points = bytes.get(SCORE..)?.first_chunk()?;
        let treatment = Treatment::from_code(*bytes.get(TREATMENT)?);
        Some(Self {
            kind: Self::kind(bytes)?,
            number: u32::from_le_bytes(*number),
            half_points: u16::from_le_bytes(*half_points),
            call: Call { treatment, ..Entry(bytes.get(CALL..)?.first_chunk()?).call() },
        })
    }
}

/// Encodes bytes as base64, with padding.
pub fn base64(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    append_base64(bytes, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Appends bytes as base64, with padding.
#[inline(never)]
pub fn append_base64(bytes: &[u8], text: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| ALPHABET.get(bits as usize & 63).copied().unwrap_or_default();
    let digits = |bits: u32| [digit(bits >> 18), digit(bits >> 12), digit(bits >> 6), digit(bits)];
    let (threes, rest) = bytes.as_chunks::<3>();
    for [first, second, third] in threes {
        text.extend_from_slice(&digits(u32::from_be_bytes([0, *first, *second, *third])));
    }
    match rest {
        [first] => {
            let [a, b, ..] = digits(u32::from_be_bytes([0, *first, 0, 0]));
            text.extend_from_slice(&[a, b, b'=', b'=']);
        }
        [first, second] => {
            let [a, b, c, _] = digits(u32::from_be_bytes([0, *first, *second, 0]));
            text.extend_from_slice(&[a, b, c, b'=']);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::fingerprint::simhash::SimHash;
    use crate::turn::Answer;
    use crate::wire::Usage;

    #[test]
    fn an_item_is_decoded_as_it_was_encoded() {
        let text = Fingerprint { simhash: SimHash(7), digest: 9, informative: true, failing: false };
        let usage = Usage { input_tokens: 70_000, output_tokens: 9 };
        let call = Call { at_ms: 5, in_flight: 1, conversation: 3, input: text, usage, ..Call::default() };
        for (kind, answer, treatment) in [
            (Kind::Common, Answer::Unknown, Treatment::Usual),
            (Kind::Common, Answer::Unknown, Treatment::Ignored),
            (Kind::Conversation, Answer::Unknown, Treatment::CountedFrom(2)),
            (Kind::Conversation, Answer::Unknown, Treatment::CountedFrom(100)),
            (Kind::Answer, Answer::Text(text), Treatment::Usual),
            (Kind::Answer, Answer::Rejected(422), Treatment::Usual),
        ] {
            let call = Call { answer, treatment, ..call };
            let item = Item { kind, number: 0x0102_0304, half_points: 26, call };
            let mut bytes = Vec::new();
            item.encode(&mut bytes);
            assert_eq!(Item::decode(bytes.as_slice().try_into().unwrap()), Some(item));
            bytes[0] = 3;
            assert_eq!(Item::decode(bytes.as_slice().try_into().unwrap()), None, "an unknown kind");
        }
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text, "{bytes}");
        }
        assert_eq!(base64(&[0xFB, 0xFF]), "+/8=");
    }
}
