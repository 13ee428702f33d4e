//! Tool calls: name and canonical arguments to a signature.
//!
//! Arguments are compared as JSON, not as text: the order of keys and white space say nothing, numbers and strings say
//! all they say (reading lines 1-40, then 41-80, is progress). No canonical text is built: members are hashed one by one
//! and their hashes added up, which no order changes. Identical calls in one answer count once.

use super::json::{Json, Malformed};
use super::unescape::unescape;
use crate::detect::fingerprint::hash_bytes;
use crate::detect::simhash::mix;
use crate::detect::window::ToolSignature;

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
        let mut plain = Vec::new();
        if let Some(name) = name.string() {
            unescape(name.raw(), |piece| plain.extend_from_slice(piece))?;
        }
        let arguments = match arguments {
            None => hash_arguments(b""),
            Some(value) => match value.string() {
                None => hash_value(value, DEPTH_MAX)?,
                Some(string) => {
                    let mut text = Vec::with_capacity(string.raw().len());
                    unescape(string.raw(), |piece| text.extend_from_slice(piece))?;
                    hash_arguments(&text)
                }
            },
        };
        self.note(&plain, arguments);
        Ok(())
    }

    /// Adds a call whose arguments came as text.
    pub fn add_text(&mut self, name: &[u8], arguments: &[u8]) {
        self.note(name, hash_arguments(arguments));
    }

    fn note(&mut self, name: &[u8], arguments: u64) {
        let hash = mix(hash_bytes(name, 0).rotate_left(31) ^ arguments);
        if self.hashes.contains(&hash) {
            return;
        }
        self.hashes.push(hash);
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
        let sum = self.hashes.iter().fold(0u64, |sum, hash| sum.wrapping_add(*hash));
        (!self.hashes.is_empty()).then(|| ToolSignature::new(mix(sum)))
    }

    /// The names, for people.
    pub fn names(&self) -> &str {
        &self.names
    }
}

/// Hashes arguments that came as text: as JSON where they are, else as they stand.
fn hash_arguments(text: &[u8]) -> u64 {
    let text = text.trim_ascii();
    if text.is_empty() {
        return hash_arguments(b"{}");
    }
    let json = Json::root(text).and_then(|value| hash_value(value, DEPTH_MAX));
    json.unwrap_or_else(|Malformed| hash_bytes(text, 0))
}

fn hash_value(value: Json<'_>, depth: u32) -> Result<u64, Malformed> {
    if depth == 0 {
        return Ok(hash_bytes(value.text(), 0));
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
    Ok(mix(hash_bytes(value.text(), 0)))
}

fn hash_string(raw: &[u8]) -> Result<u64, Malformed> {
    if !raw.contains(&b'\\') {
        return Ok(hash_bytes(raw, 0));
    }
    let mut text = Vec::with_capacity(raw.len());
    unescape(raw, |piece| text.extend_from_slice(piece))?;
    Ok(hash_bytes(&text, 0))
}
