//! Tool calls that arrive in parts: the name first, then the arguments a few characters at a time.

use crate::decode::json::Json;
use crate::decode::tools::{ToolCalls, add_call};
use crate::fingerprint::hash_bytes;
use crate::scan::Malformed;
use crate::scan::unescape::unescape;
use crate::turn::ToolSignature;

/// The most calls of one answer.
const CALLS_MAX: usize = 256;

/// The calls of one answer.
///
/// Names and arguments together may have as many bytes as one document, which they are if they are not streamed. More than
/// that, or too many calls, is an error: two different calls could not be told apart by their beginnings.
#[derive(Clone, Debug)]
pub struct CallsInParts {
    whole: ToolCalls,
    partial: Vec<PartialCall>,
    /// How many more bytes of names and arguments are accepted.
    room: usize,
}

/// A call of which parts have arrived.
#[derive(Clone, Debug)]
struct PartialCall {
    /// Hash of the call's index.
    index: u64,
    /// Hash of the call's id.
    id: Option<u64>,
    name: Vec<u8>,
    arguments: Vec<u8>,
}

/// A part of a call. APIs differ in which of the members they send.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallDelta<'a> {
    /// The call's position in the answer.
    pub index: Option<Json<'a>>,
    /// The call's id. It tells calls apart that have no index or the same one.
    pub id: Option<Json<'a>>,
    /// The next part of the name.
    pub name: Option<Json<'a>>,
    /// The next part of the arguments.
    pub arguments: Option<Json<'a>>,
}

impl CallsInParts {
    /// Creates an empty list that accepts at most `max_bytes` of names and arguments.
    pub fn new(max_bytes: usize) -> Self {
        Self { whole: ToolCalls::default(), partial: Vec::new(), room: max_bytes }
    }

    /// Adds a complete call. Returns whether it is one.
    pub fn add_whole(&mut self, call: Json<'_>) -> Result<bool, Malformed> {
        let before = self.whole.count();
        add_call(call, &mut self.whole)?;
        Ok(self.whole.count() > before)
    }

    /// Adds a part to the call that it belongs to.
    pub fn add_delta(&mut self, delta: CallDelta<'_>) -> Result<(), Malformed> {
        let mut room = self.room;
        let call = self.call_of(delta)?;
        append(&mut call.name, delta.name, &mut room)?;
        append(&mut call.arguments, delta.arguments, &mut room)?;
        self.room = room;
        Ok(())
    }

    /// Returns the call that a part belongs to: the latest one with the same index, unless its id is another one.
    fn call_of(&mut self, delta: CallDelta<'_>) -> Result<&mut PartialCall, Malformed> {
        let index = hash_bytes(delta.index.map_or(&b""[..], Json::text));
        let id = delta.id.and_then(Json::string).map(|id| id.raw()).filter(|id| !id.is_empty()).map(hash_bytes);
        let is_same = |call: &PartialCall| id.is_none() || call.id.is_none() || call.id == id;
        let latest = self.partial.iter().rposition(|call| call.index == index);
        let position = match latest.filter(|&at| self.partial.get(at).is_some_and(is_same)) {
            Some(at) => at,
            None if self.partial.len() < CALLS_MAX => {
                self.partial.push(PartialCall { index, id, name: Vec::new(), arguments: Vec::new() });
                self.partial.len() - 1
            }
            None => return Err(Malformed),
        };
        let call = self.partial.get_mut(position).ok_or(Malformed)?;
        call.id = call.id.or(id);
        Ok(call)
    }

    /// Returns the signature of all calls, or `None` if there are none.
    pub fn signature(&self) -> Option<ToolSignature> {
        let mut calls = self.whole.clone();
        for call in &self.partial {
            calls.add_text(&call.name, &call.arguments);
        }
        calls.signature()
    }
}

/// Appends the text of a string, or the text of any other JSON value.
fn append(to: &mut Vec<u8>, value: Option<Json<'_>>, room: &mut usize) -> Result<(), Malformed> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(()) };
    let before = to.len();
    *room = room.checked_sub(value.text().len()).ok_or(Malformed)?;
    match value.string() {
        Some(string) => unescape(string.raw(), &mut |piece| to.extend_from_slice(piece))?,
        None => to.extend_from_slice(value.text()),
    }
    // Only the bytes that were kept take up room, not quotes and escapes.
    *room += value.text().len() - (to.len() - before);
    Ok(())
}
