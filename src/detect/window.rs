//! The last few calls of one agent, oldest first, as the bytes that shared data keeps.
//!
//! Pure: no clock, no host. The caller says what time it is, so a test is a table and never sleeps. The compare-and-swap
//! around a window lives with the caller. Calls are numbered for ever; an answer finds its call by that number, whatever
//! the order in which answers end, and an answer to a call that has left the window is dropped.
//!
//! The bytes are worked on as they are: a call is added at their end and dropped from their start, an answer is written
//! into its call, and of the calls that are like nothing at hand only the hashes are ever read.
//!
//! A window belongs to one generation of the policy and one way of counting: bytes of another, of another version of
//! this code, or of half a call, are an empty window. That is how "cleared on activate" reaches every worker.

use super::entry::{self, Entry};
use crate::fingerprint::Fingerprint;
use crate::turn::{Answer, ToolTurn};
use crate::wire::Counting;

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

/// A call's number, by which its answer finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence(pub u32);

impl Sequence {
    /// From the digits of a number.
    pub fn parse(digits: &[u8]) -> Option<Self> {
        std::str::from_utf8(digits).ok()?.parse().ok().map(Self)
    }
}

/// The version of the bytes. Any other is an empty window.
const VERSION: u8 = 1;
/// Version, counting and generation; then the number of the next call; then the calls.
const NEXT: usize = 10;
const CALLS: usize = 14;

/// The last calls of one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Window(Vec<u8>);

impl Window {
    /// A window with nothing in it.
    pub fn empty(generation: u64, counting: Counting) -> Self {
        let mut bytes = Vec::with_capacity(CALLS + entry::LEN);
        bytes.extend(beginning(generation, counting));
        bytes.resize(CALLS, 0);
        Self(bytes)
    }

    /// The window in these bytes, or an empty one where they are of another time.
    pub fn decode(bytes: &[u8], generation: u64, counting: Counting) -> Self {
        let whole = bytes.len().checked_sub(CALLS).is_some_and(|calls| calls % entry::LEN == 0);
        if !whole || !bytes.starts_with(&beginning(generation, counting)) {
            return Self::empty(generation, counting);
        }
        // One more than there are: the next call is about to be added.
        let mut room = Vec::with_capacity(bytes.len() + entry::LEN);
        room.extend_from_slice(bytes);
        Self(room)
    }

    /// The bytes to keep: 14, and 49 for each call.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same, for good.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The calls, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        Past(self.entries()).calls()
    }

    /// The last calls, at most `count`.
    pub fn last(&self, count: usize) -> Past<'_> {
        let entries = self.entries();
        Past(entries.get(entries.len().saturating_sub(count)..).unwrap_or_default())
    }

    /// Adds a call and drops the oldest ones beyond `size`.
    pub fn push(&mut self, call: Call, size: u32) -> Sequence {
        let sequence = self.next();
        self.0.extend_from_slice(&entry::encode(&call));
        let excess = self.entries().len().saturating_sub(size as usize);
        self.0.drain(CALLS..CALLS + excess * entry::LEN);
        if let Some(next) = self.0.get_mut(NEXT..CALLS) {
            next.copy_from_slice(&sequence.0.wrapping_add(1).to_le_bytes());
        }
        sequence
    }

    /// Attaches an answer to its call and gives the call with those before it, or nothing where it has left the window.
    pub fn answer(&mut self, sequence: Sequence, answer: Answer) -> Option<(Past<'_>, Slot<'_>)> {
        let back = self.next().0.wrapping_sub(sequence.0) as usize;
        let (entries, _) = self.0.get_mut(CALLS..)?.as_chunks_mut();
        let (before, from) = entries.split_at_mut_checked(entries.len().checked_sub(back)?)?;
        let mut slot = Slot(from.first_mut()?);
        slot.put(&Call { answer, ..slot.call() });
        Some((Past(before), slot))
    }

    fn next(&self) -> Sequence {
        let next = self.0.get(NEXT..CALLS).and_then(|bytes| bytes.first_chunk());
        Sequence(next.map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }

    fn entries(&self) -> &[[u8; entry::LEN]] {
        self.0.get(CALLS..).unwrap_or_default().as_chunks().0
    }
}

/// What the bytes of a window begin with.
fn beginning(generation: u64, counting: Counting) -> [u8; NEXT] {
    let [a, b, c, d, e, f, g, h] = generation.to_le_bytes();
    [VERSION, counting as u8, a, b, c, d, e, f, g, h]
}

/// Calls of a window, as bytes, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a>(&'a [[u8; entry::LEN]]);

impl<'a> Past<'a> {
    /// All of them.
    pub fn calls(self) -> Vec<Call> {
        self.entries().map(Entry::call).collect()
    }

    /// The latest.
    pub fn latest(self) -> Option<Call> {
        self.entries().next_back().map(Entry::call)
    }

    /// Those whose input is similar.
    pub fn with_similar_input(self, input: Fingerprint) -> impl Iterator<Item = Call> {
        self.entries().filter(move |entry| entry.input().is_similar(input.simhash)).map(Entry::call)
    }

    /// Whether anything repeats itself at all, however little it may mean: this input is similar to that of a call, or
    /// the words of the latest answer to those of one before it.
    pub fn echoes(self, input: Fingerprint) -> bool {
        self.entries().any(|entry| entry.input().is_similar(input.simhash)) || self.echoes_its_latest_answer()
    }

    fn echoes_its_latest_answer(self) -> bool {
        let mut entries = self.entries().rev();
        let latest = entries.find_map(Entry::words);
        latest.is_some_and(|latest| entries.filter_map(Entry::words).any(|words| words.is_similar(latest)))
    }

    fn entries(self) -> impl DoubleEndedIterator<Item = Entry<'a>> + ExactSizeIterator {
        self.0.iter().map(Entry)
    }
}

/// The place of one call in a window.
#[derive(Debug)]
pub struct Slot<'a>(&'a mut [u8; entry::LEN]);

impl Slot<'_> {
    /// The call in it.
    pub fn call(&self) -> Call {
        Entry(self.0).call()
    }

    /// Puts a call into it.
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
        fn any_bytes_are_a_window(bytes: Vec<u8>, generation: u64) {
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
        assert_eq!(window.bytes().len(), 14 + 20 * 49);
    }
}
