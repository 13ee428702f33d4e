//! The binary layout of one call in a window.
//!
//! Every part has a fixed offset, so that it can be read without the others: finding similar calls needs only two hashes
//! of each. Any bytes are a valid call. In the worst case it has no tools and no answer.

use super::tools::Treatment;
use super::window::{Call, Sequence};
use crate::fingerprint::Fingerprint;
use crate::fingerprint::simhash::SimHash;
use crate::turn::{Answer, ToolSignature, ToolTurn};
use crate::wire::Usage;

/// The length of an encoded call.
pub const LEN: usize = 75;

const FLAGS: usize = 0;
const ANSWER: usize = 1;
const IN_FLIGHT: usize = 2;
const NUMBER: usize = 3;
const AT_MS: usize = 7;
const TOOK_MS: usize = 15;
const CONVERSATION: usize = 19;
/// A SimHash, followed by the digest.
const INPUT: usize = 27;
/// The tools that the request is about, or else the action in the text of the answer before it.
const TOOLS: usize = 39;
/// A SimHash, followed by the digest, which is the status if the request was rejected.
const TEXT: usize = 47;
const TEXT_DIGEST: usize = TEXT + 8;
const CALLED_TOOLS: usize = 59;
const INPUT_TOKENS: usize = 67;
const OUTPUT_TOKENS: usize = 71;

const INFORMATIVE_INPUT: u8 = 1;
const INFORMATIVE_TEXT: u8 = 2;
const NOVEL: u8 = 4;
const HAS_RESULTS: u8 = 8;
const IS_TOOL_CALL: u8 = 16;
const FAILING_INPUT: u8 = 32;
const FAILING_TEXT: u8 = 64;

// The kinds of answers. Any other number is an unknown answer.
const FAILED: u8 = 1;
const REJECTED: u8 = 2;
const ABANDONED: u8 = 3;
const ONLY_TEXT: u8 = 4;
const ONLY_TOOLS: u8 = 5;
const TOOLS_AND_TEXT: u8 = 6;

/// Encodes a call.
#[inline(never)] // so that it is compiled once
pub fn encode(call: &Call, sequence: Sequence) -> [u8; LEN] {
    let text = call.answer.text();
    let mut flags = 0;
    let mut set = |flag, on: bool| flags |= if on { flag } else { 0 };
    set(INFORMATIVE_INPUT, call.input.informative);
    set(INFORMATIVE_TEXT, text.is_some_and(|text| text.informative));
    set(FAILING_INPUT, call.input.failing);
    set(FAILING_TEXT, text.is_some_and(|text| text.failing));
    set(NOVEL, call.novel);
    set(HAS_RESULTS, matches!(call.tools, ToolTurn::Results(_)));
    set(IS_TOOL_CALL, matches!(call.tools, ToolTurn::Call(_)));
    let kind = match call.answer {
        Answer::Unknown => 0,
        Answer::Failed => FAILED,
        Answer::Rejected(_) => REJECTED,
        Answer::Abandoned => ABANDONED,
        Answer::Text(_) => ONLY_TEXT,
        Answer::Tools { text: None, .. } => ONLY_TOOLS,
        Answer::Tools { text: Some(_), .. } => TOOLS_AND_TEXT,
    };
    let mut bytes = [0; LEN];
    put(&mut bytes, FLAGS, [flags, kind, call.in_flight]);
    put(&mut bytes, NUMBER, sequence.0.to_le_bytes());
    put(&mut bytes, AT_MS, call.at_ms.to_le_bytes());
    put(&mut bytes, TOOK_MS, call.took_ms.to_le_bytes());
    put(&mut bytes, CONVERSATION, call.conversation.to_le_bytes());
    put_text(&mut bytes, INPUT, call.input);
    put(&mut bytes, TOOLS, ToolSignature::code(call.tools.signature().or(call.action)).to_le_bytes());
    put_text(&mut bytes, TEXT, text.unwrap_or_default());
    if let Answer::Rejected(status) = call.answer {
        put(&mut bytes, TEXT_DIGEST, u32::from(status).to_le_bytes());
    }
    put(&mut bytes, CALLED_TOOLS, ToolSignature::code(call.answer.tools()).to_le_bytes());
    put(&mut bytes, INPUT_TOKENS, call.usage.input_tokens.to_le_bytes());
    put(&mut bytes, OUTPUT_TOKENS, call.usage.output_tokens.to_le_bytes());
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
    /// Returns the number of the call.
    #[inline(always)]
    pub fn sequence(self) -> Sequence {
        Sequence(u32::from_le_bytes(self.get(NUMBER)))
    }

    /// Returns the conversation of the call.
    #[inline(always)]
    pub fn conversation(self) -> u64 {
        self.u64(CONVERSATION)
    }

    /// Returns when the request came, in milliseconds since 1970.
    pub fn at_ms(self) -> u64 {
        self.u64(AT_MS)
    }

    /// Whether the call awaits its answer.
    #[inline(always)]
    pub fn is_in_flight(self) -> bool {
        self.get(IN_FLIGHT) != [0]
    }

    /// Whether no call in the window before it brought the same.
    pub fn is_novel(self) -> bool {
        let [flags] = self.get(FLAGS);
        flags & NOVEL != 0
    }

    /// Returns the hash of the input.
    #[inline(always)]
    pub fn input(self) -> SimHash {
        SimHash(self.u64(INPUT))
    }

    /// Returns the hash of the answer's text, if it has any.
    #[inline(always)]
    pub fn answer_text(self) -> Option<SimHash> {
        let [kind] = self.get(ANSWER);
        (kind == ONLY_TEXT || kind == TOOLS_AND_TEXT).then(|| SimHash(self.u64(TEXT)))
    }

    /// Returns the tools that the model called in its answer, if any.
    pub fn called_tools(self) -> Option<ToolSignature> {
        let [kind] = self.get(ANSWER);
        let has_tools = kind == ONLY_TOOLS || kind == TOOLS_AND_TEXT;
        ToolSignature::from_code(self.u64(CALLED_TOOLS)).filter(|_| has_tools)
    }

    /// Whether the request was rejected, or its answer was not waited for.
    #[inline(always)]
    pub fn is_rejected_or_abandoned(self) -> bool {
        let [kind] = self.get(ANSWER);
        kind == REJECTED || kind == ABANDONED
    }

    /// Decodes the whole call.
    pub fn call(self) -> Call {
        let [flags, kind, in_flight] = self.get(FLAGS);
        let is = |flag| flags & flag != 0;
        let text = || self.text(TEXT, is(INFORMATIVE_TEXT), is(FAILING_TEXT));
        let (tools, action) = match ToolSignature::from_code(self.u64(TOOLS)) {
            Some(signature) if is(HAS_RESULTS) => (ToolTurn::Results(signature), None),
            Some(signature) if is(IS_TOOL_CALL) => (ToolTurn::Call(signature), None),
            action => (ToolTurn::None, action),
        };
        let answer = match (kind, ToolSignature::from_code(self.u64(CALLED_TOOLS))) {
            (FAILED, _) => Answer::Failed,
            (REJECTED, _) => Answer::Rejected(u32::from_le_bytes(self.get(TEXT_DIGEST)) as u16),
            (ABANDONED, _) => Answer::Abandoned,
            (ONLY_TEXT, _) => Answer::Text(text()),
            (ONLY_TOOLS, Some(signature)) => Answer::Tools { text: None, signature },
            (TOOLS_AND_TEXT, Some(signature)) => Answer::Tools { text: Some(text()), signature },
            _ => Answer::Unknown,
        };
        Call {
            at_ms: self.at_ms(),
            took_ms: u32::from_le_bytes(self.get(TOOK_MS)),
            in_flight,
            conversation: self.conversation(),
            input: self.text(INPUT, is(INFORMATIVE_INPUT), is(FAILING_INPUT)),
            tools,
            action,
            answer,
            usage: Usage {
                input_tokens: u32::from_le_bytes(self.get(INPUT_TOKENS)),
                output_tokens: u32::from_le_bytes(self.get(OUTPUT_TOKENS)),
            },
            novel: is(NOVEL),
            treatment: Treatment::Usual,
        }
    }

    fn text(self, place: usize, informative: bool, failing: bool) -> Fingerprint {
        let digest = u32::from_le_bytes(self.get(place + 8));
        Fingerprint { simhash: SimHash(self.u64(place)), digest, informative, failing }
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
