//! Tool calls: name and canonical arguments to a signature.
//!
//! Arguments are compared as JSON, not as text: the order of keys and white space say nothing, numbers and strings say
//! all they say (reading lines 1-40, then 41-80, is progress). No canonical text is built: members are hashed one by one
//! and their hashes added up, which no order changes. Identical calls in one answer count once.

use super::json::{Json, RawStr};
use crate::fingerprint::hash::mix;
use crate::fingerprint::hash_bytes;
use crate::scan::Malformed;
use crate::scan::unescape::unescape;
use crate::turn::ToolSignature;

/// Deeper than this, arguments are compared as they stand.
const DEPTH_MAX: u32 = 32;
/// Names kept for people, in bytes.
const NAMES_MAX: usize = 96;

/// The tool calls of one answer.
#[derive(Clone, Debug, Default)]
pub struct ToolCalls {
    hashes: Vec<u64>,
    names: String,
}

impl ToolCalls {
    /// Adds a call whose arguments are a JSON value: an object, or a string that holds one.
    pub fn add(&mut self, name: Json<'_>, arguments: Option<Json<'_>>) -> Result<(), Malformed> {
        let name = name.string().map(RawStr::plain).unwrap_or_default();
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

    /// Adds a call whose arguments came as text.
    pub fn add_text(&mut self, name: &[u8], arguments: &[u8]) {
        self.note(name, hash_arguments(arguments));
    }

    fn note(&mut self, name: &[u8], arguments: u64) {
        self.hashes.push(mix(hash_bytes(name).rotate_left(31) ^ arguments));
        let name = String::from_utf8_lossy(name);
        let separator = if self.names.is_empty() { "" } else { ", " };
        if !self.names.split(", ").any(|known| known == name)
            && self.names.len() + separator.len() + name.len() <= NAMES_MAX
        {
            self.names.push_str(separator);
            self.names.push_str(&name);
        }
    }

    /// Identifies the calls, in whatever order they came; nothing where there are none.
    pub fn signature(&self) -> Option<ToolSignature> {
        let sum = match *self.hashes {
            [] => return None,
            [only] => only,
            // Sorted here rather than searched at each call, which takes a second for a body full of calls.
            _ => {
                let mut distinct = self.hashes.clone();
                distinct.sort_unstable();
                distinct.dedup();
                distinct.iter().fold(0u64, |sum, hash| sum.wrapping_add(*hash))
            }
        };
        Some(ToolSignature::new(mix(sum)))
    }

    /// The names, for people.
    pub fn into_names(self) -> String {
        self.names
    }
}

/// Adds a tool call: `{function: {name, arguments}}`, `{name, arguments | input | args}`, or one of these inside
/// `custom`, `toolUse` or `functionCall`. What has no name is no call, but for those of the Responses API that are named
/// by their type.
pub fn add_call(call: Json<'_>, calls: &mut ToolCalls) -> Result<(), Malformed> {
    let mut parts = Parts::read(call)?;
    if let Some(inner) = parts.inner {
        parts = Parts::read(inner)?;
    }
    match (parts.name, parts.tag) {
        (Some(name), _) => calls.add(name, parts.arguments),
        (None, Some(tag)) if is_run_by_client(tag) => calls.add(tag, parts.action),
        _ => Ok(()),
    }
}

/// The members of a call that matter.
#[derive(Default)]
struct Parts<'a> {
    name: Option<Json<'a>>,
    arguments: Option<Json<'a>>,
    inner: Option<Json<'a>>,
    tag: Option<Json<'a>>,
    action: Option<Json<'a>>,
}

impl<'a> Parts<'a> {
    fn read(call: Json<'a>) -> Result<Self, Malformed> {
        let mut parts = Self::default();
        for member in call.members() {
            let (name, value) = member?;
            match &*name.plain() {
                b"name" => parts.name = Some(value),
                b"arguments" | b"input" | b"args" | b"parameters" => parts.arguments = Some(value),
                b"function" | b"custom" | b"toolUse" | b"functionCall" | b"function_call" if value.is_object() => {
                    parts.inner = Some(value);
                }
                b"type" => parts.tag = Some(value),
                b"action" | b"operation" => parts.action = Some(value),
                _ => {}
            }
        }
        Ok(parts)
    }
}

/// Calls whose results the client sends back. Searches and the like run at the provider, and are part of its answer.
fn is_run_by_client(tag: Json<'_>) -> bool {
    const TYPES: [&str; 4] = ["computer_call", "local_shell_call", "shell_call", "apply_patch_call"];
    tag.string().is_some_and(|tag| TYPES.iter().any(|known| tag.is(known)))
}

/// Hashes arguments that came as text: as JSON where they are, else as they stand.
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
