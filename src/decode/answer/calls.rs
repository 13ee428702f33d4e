//! Tool calls that arrive in parts: the name first, then the arguments a few characters at a time.

use crate::decode::json::Json;
use crate::decode::tools::{ToolCalls, add_call};
use crate::fingerprint::hash_bytes;
use crate::scan::Malformed;
use crate::scan::unescape::unescape;
use crate::turn::ToolSignature;

/// Calls gathered at once.
const CALLS_MAX: usize = 256;

/// The calls of one answer.
///
/// Names and arguments are gathered up to as many bytes as one document may have, since in one piece they are one. More
/// than that, or too many calls, is an error: by their beginning alone, two different calls would be the same.
#[derive(Clone, Debug)]
pub struct CallsInParts {
    whole: ToolCalls,
    parts: Vec<Part>,
    room: usize,
}

#[derive(Clone, Debug)]
struct Part {
    /// Hashes of what the API tells calls apart by.
    key: u64,
    id: Option<u64>,
    name: Vec<u8>,
    arguments: Vec<u8>,
}

/// A part of a call, each member where the API gives it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Piece<'a> {
    /// The call's number in the answer.
    pub index: Option<Json<'a>>,
    /// The call's own id. Where numbers are missing, another id is another call.
    pub id: Option<Json<'a>>,
    /// The name, or more of it.
    pub name: Option<Json<'a>>,
    /// More of the arguments.
    pub arguments: Option<Json<'a>>,
}

impl CallsInParts {
    /// None yet; at most `max_bytes` of them.
    pub fn new(max_bytes: usize) -> Self {
        Self { whole: ToolCalls::default(), parts: Vec::new(), room: max_bytes }
    }

    /// Adds a call that came in one piece.
    pub fn add_whole(&mut self, call: Json<'_>) -> Result<(), Malformed> {
        add_call(call, &mut self.whole)
    }

    /// Adds to the call that the piece belongs to.
    pub fn add(&mut self, piece: Piece<'_>) -> Result<(), Malformed> {
        let mut room = self.room;
        let part = self.part(piece.index, piece.id)?;
        append(&mut part.name, piece.name, &mut room)?;
        append(&mut part.arguments, piece.arguments, &mut room)?;
        self.room = room;
        Ok(())
    }

    fn part(&mut self, index: Option<Json<'_>>, id: Option<Json<'_>>) -> Result<&mut Part, Malformed> {
        let key = hash_bytes(index.map_or(&b""[..], Json::text));
        let id = id.and_then(Json::string).map(|id| id.raw()).filter(|id| !id.is_empty()).map(hash_bytes);
        let is_same = |part: &Part| part.key == key && (id.is_none() || part.id.is_none() || part.id == id);
        // The latest call of that number is the one that goes on.
        let known = self.parts.iter().rposition(|part| part.key == key);
        let index = match known.filter(|&at| self.parts.get(at).is_some_and(is_same)) {
            Some(at) => at,
            None if self.parts.len() < CALLS_MAX => {
                self.parts.push(Part { key, id, name: Vec::new(), arguments: Vec::new() });
                self.parts.len() - 1
            }
            None => return Err(Malformed),
        };
        let part = self.parts.get_mut(index).ok_or(Malformed)?;
        part.id = part.id.or(id);
        Ok(part)
    }

    fn calls(&self) -> ToolCalls {
        let mut calls = self.whole.clone();
        for part in &self.parts {
            calls.add_text(&part.name, &part.arguments);
        }
        calls
    }

    /// Identifies all calls.
    pub fn signature(&self) -> Option<ToolSignature> {
        self.calls().signature()
    }

    /// Their names, for people.
    pub fn names(&self) -> String {
        self.calls().into_names()
    }
}

/// Appends a string's text, or other JSON as it stands.
fn append(to: &mut Vec<u8>, value: Option<Json<'_>>, room: &mut usize) -> Result<(), Malformed> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(()) };
    let before = to.len();
    *room = room.checked_sub(value.text().len()).ok_or(Malformed)?;
    match value.string() {
        Some(string) => unescape(string.raw(), &mut |piece| to.extend_from_slice(piece))?,
        None => to.extend_from_slice(value.text()),
    }
    // What was taken is what was kept: quotes and escapes take no room.
    *room += value.text().len() - (to.len() - before);
    Ok(())
}
