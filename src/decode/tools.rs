//! The signature of tool calls: a hash of their names and arguments.
//!
//! Arguments are compared as JSON, not as text. The order of keys and white space do not matter; numbers and strings matter
//! in full, since reading lines 1-40 and then 41-80 is progress. No canonical text is built: the hashes of the members are
//! added up, so that their order makes no difference. Identical calls in one answer count once.

use std::collections::BinaryHeap;

use super::json::{Json, RawStr};
use crate::fingerprint::hash::mix;
use crate::fingerprint::hash_bytes;
use crate::scan::Malformed;
use crate::scan::unescape::unescape;
use crate::turn::{ToolHash, ToolSignature};

/// Arguments that are nested deeper than this are compared as text.
const DEPTH_MAX: u32 = 32;
/// How many bytes the names may have in a report, where they are joined by [`NAME_SEPARATOR`].
const NAMES_MAX: usize = 96;
/// What separates names in a report.
const NAME_SEPARATOR: &str = ", ";

/// The tool calls of one answer.
#[derive(Clone, Debug, Default)]
pub struct ToolCalls {
    hashes: Vec<ToolHash>,
    names: Vec<String>,
}

impl ToolCalls {
    /// Adds a call whose arguments are a JSON object, or a string that contains one.
    fn add(&mut self, name: Json<'_>, arguments: Option<Json<'_>>) -> Result<(), Malformed> {
        let name = name.string().map(RawStr::unescaped).unwrap_or_default();
        let arguments = match arguments {
            None => hash_arguments(b""),
            Some(value) => match value.string() {
                None => hash_value(value, DEPTH_MAX)?,
                Some(string) => {
                    let mut text = Vec::with_capacity(string.raw().len());
                    unescape(string.raw(), &mut |piece| text.extend_from_slice(piece))?;
                    hash_arguments(&text)
                }
            },
        };
        self.note(&name, arguments);
        Ok(())
    }

    /// Adds a call whose arguments are unescaped text.
    pub fn add_text(&mut self, name: &[u8], arguments: &[u8]) {
        self.note(name, hash_arguments(arguments));
    }

    fn note(&mut self, name: &[u8], arguments: u64) {
        let hash = hash_bytes(name);
        self.hashes.push(ToolHash { name: hash, call: mix(hash.rotate_left(31) ^ arguments) });
        self.keep_name(&String::from_utf8_lossy(name));
    }

    /// Keeps a name, unless it is empty, known or too long for a report.
    fn keep_name(&mut self, name: &str) {
        let bytes = self.names.iter().map(|known| known.len() + NAME_SEPARATOR.len()).sum::<usize>() + name.len();
        if !name.is_empty() && bytes <= NAMES_MAX && !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
    }

    /// Returns whether there are no calls.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Returns the signature of the calls, or `None` if there are none. Their order does not matter.
    pub fn signature(&self) -> Option<ToolSignature> {
        let sum = match *self.hashes {
            [] => return None,
            [only] => only.call,
            // Sorted once at the end. Searching at each call would take a second for a body full of calls.
            _ => {
                // A heap sorts with much less code than `sort_unstable`.
                let mut distinct =
                    self.hashes.iter().map(|hash| hash.call).collect::<BinaryHeap<_>>().into_sorted_vec();
                distinct.dedup();
                distinct.iter().fold(0u64, |sum, hash| sum.wrapping_add(*hash))
            }
        };
        Some(ToolSignature::new(mix(sum)))
    }

    /// How many calls have been added.
    pub fn count(&self) -> usize {
        self.hashes.len()
    }

    /// Returns the hashes of the calls, and the names of the tools, each once. Names that do not fit into [`NAMES_MAX`]
    /// bytes are left out.
    pub fn into_parts(self) -> (Vec<ToolHash>, Vec<String>) {
        (self.hashes, self.names)
    }
}

/// Adds a tool call: `{function: {name, arguments}}`, `{name, arguments | input | args}`, or one of these inside
/// `custom`, `toolUse` or `functionCall`. A value without a name is ignored, unless its type names a call of the Responses
/// API.
pub fn add_call(call: Json<'_>, calls: &mut ToolCalls) -> Result<(), Malformed> {
    let mut members = CallMembers::read(call)?;
    if let Some(inner) = members.inner {
        members = CallMembers::read(inner)?;
    }
    match (members.name, members.item_type) {
        (Some(name), _) => calls.add(name, members.arguments),
        (None, Some(name)) if is_run_by_client(name) => calls.add(name, members.action),
        _ => Ok(()),
    }
}

/// The members of a call that matter.
#[derive(Default)]
struct CallMembers<'a> {
    name: Option<Json<'a>>,
    arguments: Option<Json<'a>>,
    inner: Option<Json<'a>>,
    item_type: Option<Json<'a>>,
    action: Option<Json<'a>>,
}

impl<'a> CallMembers<'a> {
    fn read(call: Json<'a>) -> Result<Self, Malformed> {
        let mut members = Self::default();
        for member in call.members() {
            let (name, value) = member?;
            match &*name.unescaped() {
                b"name" => members.name = Some(value),
                b"arguments" | b"input" | b"args" | b"parameters" => members.arguments = Some(value),
                b"function" | b"custom" | b"toolUse" | b"functionCall" | b"function_call" if value.is_object() => {
                    members.inner = Some(value);
                }
                b"type" => members.item_type = Some(value),
                b"action" | b"operation" => members.action = Some(value),
                _ => {}
            }
        }
        Ok(members)
    }
}

/// Returns whether the client runs calls of this type and sends their results. Searches and the like run at the provider
/// and are part of its answer.
fn is_run_by_client(item_type: Json<'_>) -> bool {
    const TYPES: [&str; 4] = ["computer_call", "local_shell_call", "shell_call", "apply_patch_call"];
    item_type.string().is_some_and(|name| TYPES.iter().any(|known| name.is(known)))
}

/// Hashes arguments that came as text: as JSON if they are valid, else as text.
fn hash_arguments(text: &[u8]) -> u64 {
    let text = text.trim_ascii();
    if text.is_empty() {
        return hash_arguments(b"{}");
    }
    let json = Json::root(text).and_then(|value| hash_value(value, DEPTH_MAX));
    json.unwrap_or_else(|Malformed| hash_bytes(text))
}

fn hash_value(value: Json<'_>, depth: u32) -> Result<u64, Malformed> {
    if depth == 0 {
        return Ok(hash_bytes(value.text()));
    }
    if let Some(string) = value.string() {
        return hash_string(string.raw());
    }
    if value.is_object() {
        let mut sum = 0x0B1E_C7ED_u64;
        for member in value.members() {
            let (name, value) = member?;
            sum = sum.wrapping_add(mix(hash_string(name.raw())?.rotate_left(17) ^ hash_value(value, depth - 1)?));
        }
        return Ok(mix(sum));
    }
    if value.is_array() {
        let mut hash = 0xA88A_7EED_u64;
        for element in value.elements() {
            hash = mix(hash.rotate_left(9) ^ hash_value(element?, depth - 1)?);
        }
        return Ok(hash);
    }
    Ok(mix(hash_bytes(value.text())))
}

fn hash_string(raw: &[u8]) -> Result<u64, Malformed> {
    if !raw.contains(&b'\\') {
        return Ok(hash_bytes(raw));
    }
    let mut text = Vec::with_capacity(raw.len());
    unescape(raw, &mut |piece| text.extend_from_slice(piece))?;
    Ok(hash_bytes(&text))
}
