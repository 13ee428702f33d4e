//! One call as bytes, each of its parts at a place of its own.
//!
//! So a part can be read without the rest: looking for calls that are alike takes two hashes of each. Bytes that make no
//! sense are a call all the same; at worst it has no tools and no answer.

use super::window::Call;
use crate::fingerprint::Fingerprint;
use crate::fingerprint::simhash::SimHash;
use crate::turn::{Answer, ToolSignature, ToolTurn};

/// The bytes of a call.
pub const LEN: usize = 49;

const FLAGS: usize = 0;
const AT_MS: usize = 1;
/// A SimHash, and the digest after it.
const INPUT: usize = 9;
const TOOLS: usize = 21;
/// A SimHash, and the digest after it.
const WORDS: usize = 29;
const CALLED: usize = 41;

const INFORMATIVE_INPUT: u8 = 1;
const INFORMATIVE_WORDS: u8 = 2;
const NOVEL: u8 = 4;
const RESULTS: u8 = 8;
const ONE_CALL: u8 = 16;
const ANSWERED: u8 = 32;
const SPOKEN: u8 = 64;
const FAILED: u8 = 128;

/// The bytes that stand for a call.
pub fn encode(call: &Call) -> [u8; LEN] {
    let words = call.answer.text();
    let mut flags = 0;
    let mut set = |flag, on: bool| flags |= if on { flag } else { 0 };
    set(INFORMATIVE_INPUT, call.input.informative);
    set(INFORMATIVE_WORDS, words.is_some_and(|words| words.informative));
    set(NOVEL, call.novel);
    set(RESULTS, matches!(call.tools, ToolTurn::Results(_)));
    set(ONE_CALL, matches!(call.tools, ToolTurn::Call(_)));
    set(ANSWERED, matches!(call.answer, Answer::Text(_) | Answer::Tools { .. }));
    set(SPOKEN, words.is_some());
    set(FAILED, call.answer == Answer::Failed);
    let mut bytes = [0; LEN];
    put(&mut bytes, FLAGS, [flags]);
    put(&mut bytes, AT_MS, call.at_ms.to_le_bytes());
    put_text(&mut bytes, INPUT, call.input);
    put(&mut bytes, TOOLS, ToolSignature::code(call.tools.signature()).to_le_bytes());
    put_text(&mut bytes, WORDS, words.unwrap_or_default());
    put(&mut bytes, CALLED, ToolSignature::code(call.answer.tools()).to_le_bytes());
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

/// The bytes of one call, to be read.
#[derive(Clone, Copy)]
pub struct Entry<'a>(pub &'a [u8; LEN]);

impl Entry<'_> {
    /// The hash of its input.
    #[inline(always)]
    pub fn input(self) -> SimHash {
        SimHash(self.u64(INPUT))
    }

    /// The hash of its answer's words, if it has any.
    #[inline(always)]
    pub fn words(self) -> Option<SimHash> {
        let [flags] = self.get(FLAGS);
        (flags & (ANSWERED | SPOKEN | FAILED) == ANSWERED | SPOKEN).then(|| SimHash(self.u64(WORDS)))
    }

    /// All of it.
    pub fn call(self) -> Call {
        let [flags] = self.get(FLAGS);
        let is = |flag| flags & flag != 0;
        let words = is(SPOKEN).then(|| self.text(WORDS, is(INFORMATIVE_WORDS)));
        let tools = match ToolSignature::from_code(self.u64(TOOLS)) {
            Some(signature) if is(RESULTS) => ToolTurn::Results(signature),
            Some(signature) if is(ONE_CALL) => ToolTurn::Call(signature),
            _ => ToolTurn::None,
        };
        let answer = match (ToolSignature::from_code(self.u64(CALLED)), words) {
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
