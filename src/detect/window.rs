//! The last few calls of one agent, oldest first, and the bytes they are kept as.
//!
//! Pure: no clock, no host. The caller says what time it is, so a test is a table and never sleeps. State goes bytes ->
//! `Window` -> bytes, and the compare-and-swap around it lives with the caller. Calls are numbered for ever; an answer
//! finds its call by that number, whatever the order in which answers end, and an answer to a call that has left the
//! window is dropped.
//!
//! A window belongs to one generation of the policy and one way of counting: bytes of another, of another version of
//! this code, or that make no sense, are an empty window. That is how "cleared on activate" reaches every worker.

use super::fingerprint::Fingerprint;
use super::simhash::SimHash;
use crate::codec::{Reader, Writer};
use crate::wire::Counting;

/// Identifies a set of tool calls by name and arguments; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ToolSignature(std::num::NonZeroU64);

impl ToolSignature {
    /// From any hash.
    pub fn new(hash: u64) -> Self {
        Self(std::num::NonZeroU64::new(hash).unwrap_or(std::num::NonZeroU64::MIN))
    }

    fn code(signature: Option<Self>) -> u64 {
        signature.map_or(0, |signature| signature.0.get())
    }

    fn from_code(code: u64) -> Option<Self> {
        std::num::NonZeroU64::new(code).map(Self)
    }
}

/// What came back for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet, or nothing that could be read.
    #[default]
    Unknown,
    /// The upstream refused or failed.
    Failed,
    /// The model spoke.
    Text(Fingerprint),
    /// The model called tools, with or without words beside it.
    Tools {
        /// The words beside the calls.
        text: Option<Fingerprint>,
        /// The calls.
        signature: ToolSignature,
    },
}

impl Answer {
    /// The words of the answer, whatever came with them.
    pub fn text(&self) -> Option<Fingerprint> {
        match self {
            Self::Text(text) => Some(*text),
            Self::Tools { text, .. } => *text,
            Self::Unknown | Self::Failed => None,
        }
    }

    /// The tool calls of the answer.
    pub fn tools(&self) -> Option<ToolSignature> {
        match self {
            Self::Tools { signature, .. } => Some(*signature),
            _ => None,
        }
    }
}

/// What the request itself says about tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolTurn {
    /// Nothing.
    #[default]
    None,
    /// It brings the results of these calls.
    Results(ToolSignature),
    /// It is this call, and its answer will be the result (MCP).
    Call(ToolSignature),
}

impl ToolTurn {
    /// The calls meant.
    pub fn signature(&self) -> Option<ToolSignature> {
        match self {
            Self::None => None,
            Self::Results(signature) | Self::Call(signature) => Some(*signature),
        }
    }
}

/// One call as the window keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// When the request came, in milliseconds since 1970.
    pub at_ms: u64,
    /// What was new in the request.
    pub input: Fingerprint,
    /// The tools it is about.
    pub tools: ToolTurn,
    /// What came back.
    pub answer: Answer,
    /// Whether no call in the window before it brought the same.
    pub novel: bool,
}

/// The last calls of one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    generation: u64,
    counting: Counting,
    next: u32,
    calls: Vec<Call>,
}

/// A call's number, by which its answer finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence(pub u32);

impl Sequence {
    /// From the digits of a number.
    pub fn parse(digits: &[u8]) -> Option<Self> {
        std::str::from_utf8(digits).ok()?.parse().ok().map(Self)
    }
}

impl Window {
    /// A window with nothing in it.
    pub fn empty(generation: u64, counting: Counting) -> Self {
        Self { generation, counting, next: 0, calls: Vec::new() }
    }

    /// The calls, oldest first.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Adds a call and drops the oldest ones beyond `size`.
    pub fn push(&mut self, call: Call, size: u32) -> Sequence {
        let sequence = Sequence(self.next);
        self.next = self.next.wrapping_add(1);
        self.calls.push(call);
        let excess = self.calls.len().saturating_sub(size as usize);
        self.calls.drain(..excess);
        sequence
    }

    /// Attaches an answer to its call and gives the call with those before it, or nothing where it has left the window.
    pub fn answer(&mut self, sequence: Sequence, answer: Answer) -> Option<(&[Call], &mut Call)> {
        let back = self.next.wrapping_sub(sequence.0) as usize;
        let index = self.calls.len().checked_sub(back)?;
        let (before, from) = self.calls.split_at_mut_checked(index)?;
        let call = from.first_mut()?;
        call.answer = answer;
        Some((before, call))
    }
}

/// The version of the codec below. Any other is an empty window.
const VERSION: u8 = 1;
const HEADER: usize = 14;
const CALL: usize = 49;

const INFORMATIVE_INPUT: u8 = 1;
const INFORMATIVE_ANSWER: u8 = 2;
const NOVEL: u8 = 4;
const RESULTS: u8 = 8;
const ONE_CALL: u8 = 16;
const ANSWERED: u8 = 32;
const SPOKEN: u8 = 64;
const FAILED: u8 = 128;

impl Window {
    /// The bytes to keep: 14, and 49 for each call.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + CALL * self.calls.len());
        bytes.push(VERSION);
        bytes.push(self.counting as u8);
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend(self.next.to_le_bytes());
        for call in &self.calls {
            bytes.extend(encode_call(call));
        }
        bytes
    }

    /// The window in these bytes, or an empty one where they are of another time.
    pub fn decode(bytes: &[u8], generation: u64, counting: Counting) -> Self {
        Self::try_decode(bytes)
            .filter(|window| window.generation == generation && window.counting == counting)
            .unwrap_or_else(|| Self::empty(generation, counting))
    }

    fn try_decode(bytes: &[u8]) -> Option<Self> {
        let (header, calls) = bytes.split_at_checked(HEADER)?;
        let mut reader = Reader(header);
        if reader.byte()? != VERSION {
            return None;
        }
        let counting = Counting::from_code(reader.byte()?)?;
        let generation = reader.u64()?;
        let next = reader.u32()?;
        let (encoded, []) = calls.as_chunks() else { return None };
        // One more than there are: the next call is about to be added.
        let mut calls = Vec::with_capacity(encoded.len() + 1);
        for bytes in encoded {
            calls.push(decode_call(bytes)?);
        }
        Some(Self { generation, counting, next, calls })
    }
}

fn encode_call(call: &Call) -> [u8; CALL] {
    let text = call.answer.text();
    let mut flags = 0;
    let mut set = |flag, on: bool| flags |= if on { flag } else { 0 };
    set(INFORMATIVE_INPUT, call.input.informative);
    set(INFORMATIVE_ANSWER, text.is_some_and(|text| text.informative));
    set(NOVEL, call.novel);
    set(RESULTS, matches!(call.tools, ToolTurn::Results(_)));
    set(ONE_CALL, matches!(call.tools, ToolTurn::Call(_)));
    set(ANSWERED, matches!(call.answer, Answer::Text(_) | Answer::Tools { .. }));
    set(SPOKEN, text.is_some());
    set(FAILED, call.answer == Answer::Failed);
    let mut bytes = [0; CALL];
    let mut writer = Writer(&mut bytes);
    writer.put([flags]);
    writer.put(call.at_ms.to_le_bytes());
    writer.put(call.input.simhash.0.to_le_bytes());
    writer.put(call.input.digest.to_le_bytes());
    writer.put(ToolSignature::code(call.tools.signature()).to_le_bytes());
    let text = text.unwrap_or_default();
    writer.put(text.simhash.0.to_le_bytes());
    writer.put(text.digest.to_le_bytes());
    writer.put(ToolSignature::code(call.answer.tools()).to_le_bytes());
    bytes
}

fn decode_call(bytes: &[u8; CALL]) -> Option<Call> {
    let mut reader = Reader(bytes);
    let flags = reader.byte()?;
    let is = |flag| flags & flag != 0;
    let at_ms = reader.u64()?;
    let input = fingerprint(&mut reader, is(INFORMATIVE_INPUT))?;
    let signature = ToolSignature::from_code(reader.u64()?);
    let text = fingerprint(&mut reader, is(INFORMATIVE_ANSWER))?;
    let text = is(SPOKEN).then_some(text);
    let called = ToolSignature::from_code(reader.u64()?);
    let tools = match signature {
        Some(signature) if is(RESULTS) => ToolTurn::Results(signature),
        Some(signature) if is(ONE_CALL) => ToolTurn::Call(signature),
        _ => ToolTurn::None,
    };
    let answer = match (called, text) {
        _ if is(FAILED) => Answer::Failed,
        _ if !is(ANSWERED) => Answer::Unknown,
        (Some(signature), text) => Answer::Tools { text, signature },
        (None, Some(text)) => Answer::Text(text),
        (None, None) => return None,
    };
    Some(Call { at_ms, input, tools, answer, novel: is(NOVEL) })
}

fn fingerprint(reader: &mut Reader<'_>, informative: bool) -> Option<Fingerprint> {
    Some(Fingerprint { simhash: SimHash(reader.u64()?), digest: reader.u32()?, informative })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fingerprint() -> impl Strategy<Value = Fingerprint> {
        any::<(u64, u32, bool)>().prop_map(|(simhash, digest, informative)| Fingerprint {
            simhash: SimHash(simhash),
            digest,
            informative,
        })
    }

    fn signature() -> impl Strategy<Value = ToolSignature> {
        any::<u64>().prop_map(ToolSignature::new)
    }

    fn call() -> impl Strategy<Value = Call> {
        let tools = prop_oneof![
            Just(ToolTurn::None),
            signature().prop_map(ToolTurn::Results),
            signature().prop_map(ToolTurn::Call),
        ];
        let answer = prop_oneof![
            Just(Answer::Unknown),
            Just(Answer::Failed),
            fingerprint().prop_map(Answer::Text),
            (proptest::option::of(fingerprint()), signature())
                .prop_map(|(text, signature)| Answer::Tools { text, signature }),
        ];
        (any::<u64>(), fingerprint(), tools, answer, any::<bool>())
            .prop_map(|(at_ms, input, tools, answer, novel)| Call { at_ms, input, tools, answer, novel })
    }

    proptest! {
        #[test]
        fn windows_round_trip(calls in prop::collection::vec(call(), 0..40), generation: u64, size in 2u32..30) {
            let mut window = Window::empty(generation, Counting::Progress);
            for call in calls {
                window.push(call, size);
            }
            let bytes = window.encode();
            prop_assert_eq!(Window::decode(&bytes, generation, Counting::Progress), window.clone());
            let other = Window::decode(&bytes, generation.wrapping_add(1), Counting::Progress);
            prop_assert!(other.calls().is_empty());
            prop_assert!(Window::decode(&bytes, generation, Counting::Literal).calls().is_empty());
        }

        #[test]
        fn any_bytes_are_a_window(bytes: Vec<u8>, generation: u64) {
            let window = Window::decode(&bytes, generation, Counting::Progress);
            prop_assert_eq!(Window::decode(&window.encode(), generation, Counting::Progress), window);
        }
    }

    fn numbered(number: u64) -> Call {
        Call { at_ms: number, ..Call::default() }
    }

    fn numbers(window: &Window) -> Vec<u64> {
        window.calls().iter().map(|call| call.at_ms).collect()
    }

    #[test]
    fn the_oldest_call_leaves_first() {
        let mut window = Window::empty(0, Counting::Progress);
        for number in 0..25 {
            window.push(numbered(number), 20);
        }
        assert_eq!(numbers(&window), (5..25).collect::<Vec<_>>());
        window.push(numbered(25), 3);
        assert_eq!(numbers(&window), [23, 24, 25], "a smaller window drops what no longer fits");
    }

    #[test]
    fn each_answer_lands_on_its_own_call_whatever_the_order() {
        let mut window = Window::empty(0, Counting::Progress);
        let first = window.push(numbered(1), 3);
        let second = window.push(numbered(2), 3);
        let text = |digest| Answer::Text(Fingerprint { digest, ..Fingerprint::default() });
        assert!(window.answer(second, text(2)).is_some());
        assert!(window.answer(first, text(1)).is_some());
        let answers: Vec<_> = window.calls().iter().map(|call| call.answer).collect();
        assert_eq!(answers, [text(1), text(2)]);
        window.push(numbered(3), 3);
        window.push(numbered(4), 3);
        assert!(window.answer(first, text(9)).is_none(), "the first call has left the window");
        assert!(window.answer(Sequence(99), text(9)).is_none(), "a call that never was");
        assert!(window.calls().iter().all(|call| call.answer != text(9)));
    }

    #[test]
    fn twenty_calls_take_about_a_kilobyte() {
        let mut window = Window::empty(0, Counting::Progress);
        for number in 0..20 {
            window.push(numbered(number), 20);
        }
        assert_eq!(window.encode().len(), 14 + 20 * 49);
    }
}
