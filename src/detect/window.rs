//! The sliding window: the most recent calls, oldest first, in a fixed binary layout.
//!
//! The window is stored in Envoy's shared data, so it is read and written on every request. All operations work on the
//! bytes directly: a call is appended at the end and dropped from the start, an answer is written into its call, and of
//! calls that resemble nothing only the hashes are read. The caller passes the time, and does the compare-and-swap.
//!
//! Calls are numbered. An answer finds its call by the number, in whatever order answers end. An answer to a call that has
//! left the window is dropped.
//!
//! A window belongs to one generation of the policy, one counting mode and one version of this code. Bytes that belong to
//! another, or that end in the middle of a call, are treated as an empty window.

use super::entry::{self, Entry};
use crate::fingerprint::Fingerprint;
use crate::turn::{Answer, ToolTurn};
use crate::wire::Counting;

/// One call, as the window keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// When the request came, in milliseconds since 1970.
    pub at_ms: u64,
    /// What was new in the request.
    pub input: Fingerprint,
    /// The tools that the request is about.
    pub tools: ToolTurn,
    /// What came back.
    pub answer: Answer,
    /// Whether no call in the window before it brought the same.
    pub novel: bool,
}

/// The number of a call, by which its answer finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence(pub u32);

impl Sequence {
    /// Parses the digits of a number.
    pub fn parse(digits: &[u8]) -> Option<Self> {
        std::str::from_utf8(digits).ok()?.parse().ok().map(Self)
    }
}

/// The version of the layout.
const VERSION: u8 = 1;
/// The offset of the next call's number. Version, counting mode and generation come before it.
const NEXT_NUMBER: usize = 10;
/// The offset of the first call.
const CALLS: usize = 14;

/// The last calls of one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Window(Vec<u8>);

impl Window {
    /// Creates an empty window.
    pub fn empty(generation: u64, counting: Counting) -> Self {
        let mut bytes = Vec::with_capacity(CALLS + entry::LEN);
        bytes.extend(header(generation, counting));
        bytes.resize(CALLS, 0);
        Self(bytes)
    }

    /// Decodes a window. Returns an empty one if the bytes belong to another generation, counting mode or version.
    pub fn decode(bytes: &[u8], generation: u64, counting: Counting) -> Self {
        let whole = bytes.len().checked_sub(CALLS).is_some_and(|calls| calls % entry::LEN == 0);
        if !whole || !bytes.starts_with(&header(generation, counting)) {
            return Self::empty(generation, counting);
        }
        // Room for one more call, which is usually added next.
        let mut room = Vec::with_capacity(bytes.len() + entry::LEN);
        room.extend_from_slice(bytes);
        Self(room)
    }

    /// Returns the encoded window: 14 bytes, and 49 for each call.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the encoded window.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Decodes all calls, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        Past(self.entries()).calls()
    }

    /// Returns the last calls, at most `count` of them.
    pub fn last(&self, count: usize) -> Past<'_> {
        let entries = self.entries();
        Past(entries.get(entries.len().saturating_sub(count)..).unwrap_or_default())
    }

    /// Adds a call, and drops the oldest calls if there are more than `size`.
    pub fn push(&mut self, call: Call, size: u32) -> Sequence {
        let sequence = self.next();
        self.0.extend_from_slice(&entry::encode(&call));
        let excess = self.entries().len().saturating_sub(size as usize);
        self.0.drain(CALLS..CALLS + excess * entry::LEN);
        if let Some(next) = self.0.get_mut(NEXT_NUMBER..CALLS) {
            next.copy_from_slice(&sequence.0.wrapping_add(1).to_le_bytes());
        }
        sequence
    }

    /// Attaches an answer to its call. Returns the calls before it and the call, or `None` if it has left the window.
    pub fn attach_answer(&mut self, sequence: Sequence, answer: Answer) -> Option<(Past<'_>, CallMut<'_>)> {
        let back = self.next().0.wrapping_sub(sequence.0) as usize;
        let (entries, _) = self.0.get_mut(CALLS..)?.as_chunks_mut();
        let (before, from) = entries.split_at_mut_checked(entries.len().checked_sub(back)?)?;
        let mut slot = CallMut(from.first_mut()?);
        slot.put(&Call { answer, ..slot.call() });
        Some((Past(before), slot))
    }

    fn next(&self) -> Sequence {
        let next = self.0.get(NEXT_NUMBER..CALLS).and_then(|bytes| bytes.first_chunk());
        Sequence(next.map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }

    fn entries(&self) -> &[[u8; entry::LEN]] {
        self.0.get(CALLS..).unwrap_or_default().as_chunks().0
    }
}

/// Returns the bytes with which an encoded window begins.
fn header(generation: u64, counting: Counting) -> [u8; NEXT_NUMBER] {
    let [a, b, c, d, e, f, g, h] = generation.to_le_bytes();
    [VERSION, counting as u8, a, b, c, d, e, f, g, h]
}

/// Encoded calls of a window, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a>(&'a [[u8; entry::LEN]]);

impl<'a> Past<'a> {
    /// Decodes all of them.
    pub fn calls(self) -> Vec<Call> {
        self.entries().map(Entry::call).collect()
    }

    /// Decodes the latest call.
    pub fn latest(self) -> Option<Call> {
        self.entries().next_back().map(Entry::call)
    }

    /// Decodes the calls whose input is similar to this one.
    pub fn with_similar_input(self, input: Fingerprint) -> impl Iterator<Item = Call> {
        self.entries().filter(move |entry| entry.input().is_similar(input.simhash)).map(Entry::call)
    }

    /// Whether anything is repeated at all: this input is similar to the input of a call, or the text of the latest answer
    /// is similar to the text of an earlier one.
    pub fn has_repeats_of(self, input: Fingerprint) -> bool {
        self.entries().any(|entry| entry.input().is_similar(input.simhash)) || self.repeats_its_latest_answer()
    }

    fn repeats_its_latest_answer(self) -> bool {
        let mut entries = self.entries().rev();
        let latest = entries.find_map(Entry::answer_text);
        latest.is_some_and(|latest| entries.filter_map(Entry::answer_text).any(|text| text.is_similar(latest)))
    }

    fn entries(self) -> impl DoubleEndedIterator<Item = Entry<'a>> + ExactSizeIterator {
        self.0.iter().map(Entry)
    }
}

/// One encoded call of a window, for changing it.
#[derive(Debug)]
pub struct CallMut<'a>(&'a mut [u8; entry::LEN]);

impl CallMut<'_> {
    /// Decodes the call.
    pub fn call(&self) -> Call {
        Entry(self.0).call()
    }

    /// Replaces the call.
    pub fn put(&mut self, call: &Call) {
        *self.0 = entry::encode(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::simhash::SimHash;
    use crate::turn::ToolSignature;
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
            for call in &calls {
                window.push(*call, size);
            }
            let kept = &calls[calls.len().saturating_sub(size as usize)..];
            let bytes = window.bytes();
            prop_assert_eq!(Window::decode(bytes, generation, Counting::Progress), window.clone());
            prop_assert_eq!(window.calls(), kept);
            let other = Window::decode(bytes, generation.wrapping_add(1), Counting::Progress);
            prop_assert!(other.calls().is_empty());
            prop_assert!(Window::decode(bytes, generation, Counting::Literal).calls().is_empty());
        }

        #[test]
        fn any_bytes_can_be_decoded(bytes: Vec<u8>, generation: u64) {
            let window = Window::decode(&bytes, generation, Counting::Progress);
            prop_assert_eq!(Window::decode(window.bytes(), generation, Counting::Progress), window);
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
        assert_eq!(numbers(&window), [23, 24, 25], "a smaller window drops the calls that no longer fit");
    }

    #[test]
    fn each_answer_is_attached_to_its_own_call_in_any_order() {
        let mut window = Window::empty(0, Counting::Progress);
        let first = window.push(numbered(1), 3);
        let second = window.push(numbered(2), 3);
        let text = |digest| Answer::Text(Fingerprint { digest, ..Fingerprint::default() });
        assert!(window.attach_answer(second, text(2)).is_some());
        assert!(window.attach_answer(first, text(1)).is_some());
        let answers: Vec<_> = window.calls().iter().map(|call| call.answer).collect();
        assert_eq!(answers, [text(1), text(2)]);
        window.push(numbered(3), 3);
        window.push(numbered(4), 3);
        assert!(window.attach_answer(first, text(9)).is_none(), "the first call has left the window");
        assert!(window.attach_answer(Sequence(99), text(9)).is_none(), "there is no such call");
        assert!(window.calls().iter().all(|call| call.answer != text(9)));
    }

    #[test]
    fn twenty_calls_take_about_a_kilobyte() {
        let mut window = Window::empty(0, Counting::Progress);
        for number in 0..20 {
            window.push(numbered(number), 20);
        }
        assert_eq!(window.bytes().len(), 14 + 20 * 49);
    }
}
