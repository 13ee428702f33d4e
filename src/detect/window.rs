//! The sliding window: the most recent calls, oldest first, in a fixed binary layout.
//!
//! The window is stored in Envoy's shared data, so it is read and written on every request. All operations work on the
//! bytes directly: a call is appended at the end and dropped from the start, an answer is written into its call, and of
//! calls that resemble nothing only the hashes are read. The caller passes the time, and does the compare-and-swap.
//!
//! Calls are numbered. An answer finds its call by the number, in whatever order answers end. An answer to a call that has
//! left the window is dropped.
//!
//! There are two kinds of windows. An agent has one *common* window, for calls that begin a conversation or belong to
//! none; all of its calls are compared with each other. Other calls are in a *slot*, which several conversations may
//! share. Only calls of the same conversation are compared there, so that two conversations in one slot can crowd each
//! other out but never add up.
//!
//! A window belongs to one generation of the policy, one counting mode and one version of this code. Bytes that belong to
//! another, or that end in the middle of a call, are treated as an empty window.

use super::entry::{self, Entry};
use super::tools::Treatment;
use crate::fingerprint::Fingerprint;
use crate::fingerprint::simhash::SimHash;
use crate::turn::{Answer, ToolSignature, ToolTurn, Turn};
use crate::wire::{Counting, Usage};

/// One call, as the window keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// When the request came, in milliseconds since 1970.
    pub at_ms: u64,
    /// How long it took until its answer had ended, in milliseconds.
    pub took_ms: u32,
    /// How many identical requests await their answers. They count as one call.
    pub in_flight: u8,
    /// The key of the conversation. In the common window, the key that the conversation will have if it goes on.
    pub conversation: u64,
    /// What was new in the request.
    pub input: Fingerprint,
    /// The tools that the request is about.
    pub tools: ToolTurn,
    /// The action in the text of the answer before it, if the request is not about tools.
    pub action: Option<ToolSignature>,
    /// What came back.
    pub answer: Answer,
    /// The tokens that the provider stated. No rule looks at them.
    pub usage: Usage,
    /// Whether no call in the window before it brought the same.
    pub novel: bool,
    /// How the call is counted. The window does not keep it: it matters only for the current call.
    pub treatment: Treatment,
}

/// After how many milliseconds a call without an answer no longer counts as being in flight. The worker that would have
/// noticed its end may have crashed.
const MAX_IN_FLIGHT_MS: u64 = 600_000;

/// The input of ignored calls in a window, which resembles no other.
const IGNORED_INPUT: Fingerprint =
    Fingerprint { simhash: SimHash(0x6A09_E667_F3BC_C908), digest: 0xBB67_AE85, informative: false, failing: false };

impl Call {
    /// Creates a call from its request. It is not part of a conversation yet.
    pub fn new(turn: &Turn, at_ms: u64) -> Self {
        Self { at_ms, input: turn.input, tools: turn.tools, action: turn.action, ..Self::default() }
    }

    /// Returns what the window keeps of a call that is not counted: that it was there, and the tools that the model calls in
    /// its answer. It is neither news nor a repeat, because it resembles nothing.
    pub fn ignored(self) -> Self {
        let answer = match self.answer {
            Answer::Tools { signature, .. } => Answer::Tools { text: None, signature },
            Answer::Failed => Answer::Failed,
            _ => Answer::Unknown,
        };
        Self { input: IGNORED_INPUT, tools: ToolTurn::None, answer, novel: false, ..self }
    }

    /// Whether this is what the window keeps of a call that is not counted.
    pub fn is_ignored(&self) -> bool {
        self.input == IGNORED_INPUT
    }

    /// Whether the call awaits its answer.
    pub fn is_in_flight(&self, now_ms: u64) -> bool {
        self.in_flight > 0 && now_ms.abs_diff(self.at_ms) <= MAX_IN_FLIGHT_MS
    }
}

/// The number of a call, by which its answer finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence(pub u32);

/// The version of the layout.
pub const VERSION: u8 = 4;
/// The offset of the next call's number. Version, counting mode and generation come before it.
const NEXT_NUMBER: usize = 10;
/// The offset of the first call.
const CALLS: usize = 14;

/// Which calls of a window are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Common,
    Slot,
}

/// The last calls of one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    bytes: Vec<u8>,
    kind: Kind,
}

impl Window {
    /// Creates an empty common window.
    pub fn empty(generation: u64, counting: Counting) -> Self {
        Self::decode(&[], generation, counting)
    }

    /// Decodes a common window. It is empty if the bytes belong to another generation, counting mode or version.
    pub fn decode(bytes: &[u8], generation: u64, counting: Counting) -> Self {
        Self::of_kind(Kind::Common, bytes, generation, counting)
    }

    /// Decodes a window that conversations share. It is empty if the bytes belong to another generation, counting mode or
    /// version.
    pub fn decode_slot(bytes: &[u8], generation: u64, counting: Counting) -> Self {
        Self::of_kind(Kind::Slot, bytes, generation, counting)
    }

    fn of_kind(kind: Kind, bytes: &[u8], generation: u64, counting: Counting) -> Self {
        let header = header(generation, counting);
        let whole = bytes.len().checked_sub(CALLS).is_some_and(|calls| calls % entry::LEN == 0);
        let valid = if whole && bytes.starts_with(&header) { bytes } else { &[] };
        // Room for one more call, which is usually added next.
        let mut room = Vec::with_capacity(valid.len().max(CALLS) + entry::LEN);
        room.extend_from_slice(if valid.is_empty() { &header } else { valid });
        room.resize(room.len().max(CALLS), 0);
        Self { bytes: room, kind }
    }

    /// Returns how many bytes a window of this many calls takes.
    pub fn max_bytes(size: u32) -> usize {
        CALLS + size as usize * entry::LEN
    }

    /// Returns the encoded window: 14 bytes, and 75 for each call.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the encoded window.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Decodes all calls, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        Past { entries: self.entries(), conversation: None }.calls()
    }

    /// Decodes the latest call of all.
    pub fn latest(&self) -> Option<Call> {
        self.entries().last().map(|entry| Entry(entry).call())
    }

    /// Returns the last calls that are compared with those of `conversation`, at most `count` of them.
    #[inline(always)]
    pub fn past(&self, conversation: u64, count: usize) -> Past<'_> {
        let all = self.entries();
        let past = Past { entries: all, conversation: self.filter(conversation) };
        let start = match past.conversation {
            None => all.len().saturating_sub(count),
            Some(key) => {
                let same = |(_, entry): &(usize, &[u8; entry::LEN])| Entry(entry).conversation() == key;
                let Some(skipped) = count.checked_sub(1) else { return Past { entries: &[], ..past } };
                all.iter().enumerate().rev().filter(same).nth(skipped).map_or(0, |(index, _)| index)
            }
        };
        Past { entries: all.get(start..).unwrap_or_default(), ..past }
    }

    /// Returns the conversation by which calls are chosen, or `None` if all are compared.
    fn filter(&self, conversation: u64) -> Option<u64> {
        (self.kind == Kind::Slot).then_some(conversation)
    }

    /// Adds a call, and drops old calls if there are more than `size`.
    #[inline(always)]
    pub fn push(&mut self, call: Call, size: u32) -> Sequence {
        let sequence = self.next();
        if let Some(next) = self.bytes.get_mut(NEXT_NUMBER..CALLS) {
            next.copy_from_slice(&sequence.0.wrapping_add(1).to_le_bytes());
        }
        self.push_as(sequence, call, size);
        sequence
    }

    /// Adds a call under a number that it has already.
    pub fn push_as(&mut self, sequence: Sequence, call: Call, size: u32) {
        self.bytes.extend_from_slice(&entry::encode(&call, sequence));
        while self.entries().len() > size as usize {
            self.remove_at(self.least_useful(call.conversation));
        }
    }

    /// Returns the index of the call to drop: the oldest.
    ///
    /// In a slot, a conversation that has more than half of it loses its own oldest call. Otherwise the new calls of other
    /// conversations go first, since they are evidence of nothing. So a busy neighbour cannot crowd a loop out.
    fn least_useful(&self, conversation: u64) -> usize {
        if self.kind == Kind::Common {
            return 0;
        }
        let entries = self.entries();
        let is_own = |entry: &[u8; entry::LEN]| Entry(entry).conversation() == conversation;
        let is_new = |entry: &[u8; entry::LEN]| !is_own(entry) && Entry(entry).is_novel();
        let has_most = entries.iter().filter(|entry| is_own(entry)).count() * 2 > entries.len();
        let found = if has_most { entries.iter().position(is_own) } else { entries.iter().position(is_new) };
        found.unwrap_or(0)
    }

    /// Whether there is an ignored call among those that are compared with `conversation`.
    pub fn has_ignored(&self, conversation: u64) -> bool {
        self.ignored_index(conversation).is_some()
    }

    /// Removes the ignored call among those that are compared with `conversation`, if there is one.
    pub fn forget_ignored(&mut self, conversation: u64) {
        if let Some(index) = self.ignored_index(conversation) {
            self.remove_at(index);
        }
    }

    fn ignored_index(&self, conversation: u64) -> Option<usize> {
        let filter = self.filter(conversation);
        let is_meant = |entry: Entry<'_>| is_ignored(entry) && filter.is_none_or(|key| entry.conversation() == key);
        self.entries().iter().position(|entry| is_meant(Entry(entry)))
    }

    /// Removes the calls that are compared with those of `conversation`.
    pub fn forget(&mut self, conversation: u64) {
        let filter = self.filter(conversation);
        self.retain(|entry| filter.is_some_and(|key| entry.conversation() != key));
    }

    /// Removes a call and returns it. Returns `None` if it has left the window.
    pub fn remove(&mut self, sequence: Sequence) -> Option<Call> {
        let index = self.entries().iter().rposition(|entry| Entry(entry).sequence() == sequence)?;
        let call = self.entries().get(index).map(|entry| Entry(entry).call());
        self.remove_at(index);
        call
    }

    /// Whether a call is still in the window.
    pub fn contains(&self, sequence: Sequence) -> bool {
        self.entries().iter().any(|entry| Entry(entry).sequence() == sequence)
    }

    /// Adds the call with which a conversation began, from the agent's common window, if the conversation has no calls here
    /// yet.
    pub fn adopt_opening(&mut self, common: impl FnOnce() -> Self, conversation: u64, size: u32) {
        let same = |entry: &&[u8; entry::LEN]| Entry(entry).conversation() == conversation;
        if self.entries().iter().any(|entry| same(&entry)) {
            return;
        }
        if let Some(opening) = common().entries().iter().rfind(same) {
            // Its answer goes to the common window.
            self.push(Call { in_flight: 0, ..Entry(opening).call() }, size);
        }
    }

    /// Attaches an answer to its call. Returns the calls before it and the call, or `None` if it has left the window.
    ///
    /// Of the answers to identical calls the first one that was read to its end is kept.
    pub fn attach_answer(
        &mut self,
        sequence: Sequence,
        answer: Answer,
        now_ms: u64,
    ) -> Option<(Past<'_>, CallMut<'_>)> {
        let kind = self.kind;
        let (entries, _) = self.bytes.get_mut(CALLS..)?.as_chunks_mut();
        let index = entries.iter().rposition(|entry| Entry(entry).sequence() == sequence)?;
        let (before, from) = entries.split_at_mut_checked(index)?;
        let mut slot = CallMut(from.first_mut()?);
        let mut call = slot.call();
        if matches!(call.answer, Answer::Unknown | Answer::Failed | Answer::Abandoned) {
            call.answer = answer;
        }
        call.in_flight = call.in_flight.saturating_sub(1);
        call.took_ms = u32::try_from(now_ms.saturating_sub(call.at_ms)).unwrap_or(u32::MAX);
        if call.is_ignored() {
            call = call.ignored();
        }
        slot.put(&call);
        let conversation = (kind == Kind::Slot).then_some(call.conversation);
        Some((Past { entries: before, conversation }, slot))
    }

    /// Adds the tokens of an answer to its call, if it is still in the window. The answers to identical calls add up.
    pub fn add_usage(&mut self, sequence: Sequence, usage: Usage) {
        let (entries, _) = self.bytes.get_mut(CALLS..).unwrap_or_default().as_chunks_mut();
        if let Some(entry) = entries.iter_mut().rfind(|entry| Entry(entry).sequence() == sequence) {
            let mut slot = CallMut(entry);
            let mut call = slot.call();
            call.usage.add(usage);
            slot.put(&call);
        }
    }

    fn next(&self) -> Sequence {
        let next = self.bytes.get(NEXT_NUMBER..CALLS).and_then(|bytes| bytes.first_chunk());
        Sequence(next.map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }

    fn entries(&self) -> &[[u8; entry::LEN]] {
        self.bytes.get(CALLS..).unwrap_or_default().as_chunks().0
    }

    #[inline(always)]
    fn remove_at(&mut self, index: usize) {
        let start = (CALLS + index * entry::LEN).min(self.bytes.len());
        let end = (start + entry::LEN).min(self.bytes.len());
        self.bytes.copy_within(end.., start);
        self.bytes.truncate(self.bytes.len() - (end - start));
    }

    fn retain(&mut self, keep: impl Fn(Entry<'_>) -> bool) {
        let kept: Vec<u8> = self.entries().iter().filter(|entry| keep(Entry(entry))).flatten().copied().collect();
        self.bytes.truncate(CALLS);
        self.bytes.extend(kept);
    }
}

/// Whether this is what the window keeps of a call that is not counted.
fn is_ignored(entry: Entry<'_>) -> bool {
    entry.input() == IGNORED_INPUT.simhash
}

/// Returns the bytes with which an encoded window begins.
fn header(generation: u64, counting: Counting) -> [u8; NEXT_NUMBER] {
    let [a, b, c, d, e, f, g, h] = generation.to_le_bytes();
    [VERSION, counting as u8, a, b, c, d, e, f, g, h]
}

/// What the hashes of past calls tell about a new call.
#[derive(Clone, Copy, Debug)]
pub struct Glance {
    /// Whether a past call is in flight.
    pub in_flight: bool,
    /// Whether anything may be repeated: the input of a past call is similar to the new one, or an earlier answer to the
    /// latest one.
    pub repeats: bool,
}

/// Encoded calls of a window, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    entries: &'a [[u8; entry::LEN]],
    /// The conversation whose calls are meant, or `None` for all of them.
    conversation: Option<u64>,
}

impl<'a> Past<'a> {
    /// Decodes all of them, except for ignored calls.
    pub fn calls(self) -> Vec<Call> {
        self.entries().filter(|entry| !is_ignored(*entry)).map(Entry::call).collect()
    }

    /// Returns the tools that the model called in its latest answer, if the latest call that is not in flight has one.
    pub fn latest_called_tools(self) -> Option<ToolSignature> {
        self.entries().rev().find(|entry| !entry.is_in_flight()).and_then(Entry::called_tools)
    }

    /// Finds the latest call that is in flight and meets a condition.
    pub fn in_flight(self, is_meant: impl Fn(&Call) -> bool) -> Option<Sequence> {
        let mut flying = self.entries().rev().filter(|entry| entry.is_in_flight());
        flying.find(|entry| is_meant(&entry.call())).map(Entry::sequence)
    }

    /// Whether nothing has happened for more than `idle_ms`: no call came, none was answered, none is in flight.
    pub fn is_silent(self, now_ms: u64, idle_ms: u64) -> bool {
        let is_old = |then_ms: u64| now_ms.abs_diff(then_ms) > idle_ms;
        let ended = |entry: Entry<'_>| {
            let call = entry.call();
            !call.is_in_flight(now_ms) && is_old(call.at_ms.saturating_add(u64::from(call.took_ms)))
        };
        // In nearly all cases the latest call tells.
        self.entries().next_back().is_some_and(|latest| is_old(latest.at_ms())) && self.entries().all(ended)
    }

    /// Decodes the calls whose input is similar to this one.
    pub fn with_similar_input(self, input: Fingerprint) -> impl Iterator<Item = Call> {
        self.entries().filter(move |entry| entry.input().is_similar(input.simhash)).map(Entry::call)
    }

    /// Finds out in one pass over the hashes whether the rules need to be applied to a call with this input.
    pub fn glance(self, input: Fingerprint) -> Glance {
        let mut glance = Glance { in_flight: false, repeats: false };
        let mut latest_answer = None;
        for entry in self.entries().rev() {
            glance.in_flight |= entry.is_in_flight();
            glance.repeats |= entry.input().is_similar(input.simhash);
            match (latest_answer, entry.answer_text()) {
                (None, None) => glance.repeats |= entry.is_rejected_or_abandoned(),
                (None, text) => latest_answer = text,
                (Some(latest), Some(text)) => glance.repeats |= text.is_similar(latest),
                (Some(_), None) => {}
            }
        }
        glance
    }

    fn entries(self) -> impl DoubleEndedIterator<Item = Entry<'a>> {
        let is_meant = move |entry: &Entry<'_>| self.conversation.is_none_or(|key| entry.conversation() == key);
        self.entries.iter().map(Entry).filter(is_meant)
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
        *self.0 = entry::encode(call, Entry(self.0).sequence());
    }
}

#[cfg(test)]
mod tests;
