//! The binary layout of one call in a window.
//!
//! Every part has a fixed offset, so that it can be read without the others: finding similar calls needs only two hashes
//! of each. Any bytes are a valid call. In the worst case it has no tools and no answer.

use super::window::Call;
use crate::fingerprint::Fingerprint;
use crate::fingerprint::simhash::SimHash;
use crate::turn::{Answer, ToolSignature, ToolTurn};

/// The length of an encoded call.
pub const LEN: usize = 49;

const FLAGS: usize = 0;
const AT_MS: usize = 1;
/// A SimHash, followed by the digest.
const INPUT: usize = 9;
const TOOLS: usize = 21;
/// A SimHash, followed by the digest.
const TEXT: usize = 29;
const CALLED_TOOLS: usize = 41;

const INFORMATIVE_INPUT: u8 = 1;
const INFORMATIVE_TEXT: u8 = 2;
const NOVEL: u8 = 4;
const HAS_RESULTS: u8 = 8;
const IS_TOOL_CALL: u8 = 16;
const ANSWERED: u8 = 32;
const HAS_TEXT: u8 = 64;
const FAILED: u8 = 128;

/// Encodes a call.
pub fn encode(call: &Call) -> [u8; LEN] {
    let text = call.answer.text();
    let mut flags = 0;
    let mut set = |flag, on: bool| flags |= if on { flag } else { 0 };
    set(INFORMATIVE_INPUT, call.input.informative);
    set(INFORMATIVE_TEXT, text.is_some_and(|text| text.informative));
    set(NOVEL, call.novel);
    set(HAS_RESULTS, matches!(call.tools, ToolTurn::Results(_)));
    set(IS_TOOL_CALL, matches!(call.tools, ToolTurn::Call(_)));
    set(ANSWERED, matches!(call.answer, Answer::Text(_) | Answer::Tools { .. }));
    set(HAS_TEXT, text.is_some());
    set(FAILED, call.answer == Answer::Failed);
    let mut bytes = [0; LEN];
    put(&mut bytes, FLAGS, [flags]);
    put(&mut bytes, AT_MS, call.at_ms.to_le_bytes());
    put_text(&mut bytes, INPUT, call.input);
    put(&mut bytes, TOOLS, ToolSignature::code(call.tools.signature()).to_le_bytes());
    put_text(&mut bytes, TEXT, text.unwrap_or_default());
    put(&mut bytes, CALLED_TOOLS, ToolSignature::code(call.answer.tools()).to_le_bytes());
    bytes
}

fn put_text(bytes: &mut [u8; LEN], place: usize, text: Fingerprint) {
    put(bytes, place, text.simhash.0.to_le_bytes());
    put(bytes, place + 8, text.digest.to_le_bytes());
}

#[inline(always)]
fn put<const N: usize>(bytes: &mut [u8; LEN], place: usize, value: [u8; N]) {
    if let Some(room) = bytes.get_mut(place..).and_then(|rest| rest.first_chunk_mut()) {
        *room = value;
    }
}

/// An encoded call.
#[derive(Clone, Copy)]
pub struct Entry<'a>(pub &'a [u8; LEN]);

impl Entry<'_> {
    /// Returns the hash of the input.
    #[inline(always)]
    pub fn input(self) -> SimHash {
        SimHash(self.u64(INPUT))
    }

    /// Returns the hash of the answer's text, if it has any.
    #[inline(always)]
    pub fn answer_text(self) -> Option<SimHash> {
        let [flags] = self.get(FLAGS);
        (flags & (ANSWERED | HAS_TEXT | FAILED) == ANSWERED | HAS_TEXT).then(|| SimHash(self.u64(TEXT)))
    }

    /// Decodes the whole call.
    pub fn call(self) -> Call {
        let [flags] = self.get(FLAGS);
        let is = |flag| flags & flag != 0;
        let text = is(HAS_TEXT).then(|| self.text(TEXT, is(INFORMATIVE_TEXT)));
        let tools = match ToolSignature::from_code(self.u64(TOOLS)) {
            Some(signature) if is(HAS_RESULTS) => ToolTurn::Results(signature),
            Some(signature) if is(IS_TOOL_CALL) => ToolTurn::Call(signature),
            _ => ToolTurn::None,
        };
        let answer = match (ToolSignature::from_code(self.u64(CALLED_TOOLS)), text) {
            _ if is(FAILED) => Answer::Failed,
            _ if !is(ANSWERED) => Answer::Unknown,
            (Some(signature), text) => Answer::Tools { text, signature },
            (None, Some(text)) => Answer::Text(text),
            (None, None) => Answer::Unknown,
        };
        let input = self.text(INPUT, is(INFORMATIVE_INPUT));
        Call { at_ms: self.u64(AT_MS), input, tools, answer, novel: is(NOVEL) }
    }

    fn text(self, place: usize, informative: bool) -> Fingerprint {
        let digest = u32::from_le_bytes(self.get(place + 8));
        Fingerprint { simhash: SimHash(self.u64(place)), digest, informative }
    }

    #[inline(always)]
    fn u64(self, place: usize) -> u64 {
        u64::from_le_bytes(self.get(place))
    }

    #[inline(always)]
    fn get<const N: usize>(self, place: usize) -> [u8; N] {
        self.0.get(place..).and_then(|rest| rest.first_chunk().copied()).unwrap_or([0; N])
    }
}
