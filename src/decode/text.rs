//! Message content to text: every shape that the known APIs give it.
//!
//! One reader for the union of the formats rather than one each: content is a string, null, or a list of blocks, and the
//! blocks of different APIs never give one name two meanings. A proxy that translates between APIs mixes them anyway.
//!
//! Words become words. Images and files are opaque: one word each, the same only if every byte is. What a member of
//! unknown name holds is taken for words if it reads like words.

use super::json::Json;
use crate::fingerprint::Fingerprinter;
use crate::scan::Malformed;

/// Content inside of content: a list, a result in it, its list, a document in that. Deeper, it is taken as it stands.
const DEPTH_MAX: u32 = 8;

/// Pushes a JSON string's text.
pub fn push_string(value: Json<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    match value.string() {
        Some(string) => text.push_escaped(string.raw()),
        None => Ok(()),
    }
}

/// Pushes JSON as it stands, the escapes in its strings resolved.
pub fn push_json(value: Json<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    text.push_escaped(value.text())
}

/// Pushes what content says: a string, a list of blocks, one block. Null says nothing; other scalars stand for
/// themselves.
pub fn push_content(content: Json<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    push_at(content, text, DEPTH_MAX)
}

fn push_at(content: Json<'_>, text: &mut Fingerprinter, depth: u32) -> Result<(), Malformed> {
    if content.string().is_some() {
        push_string(content, text)
    } else if depth == 0 {
        push_json(content, text)
    } else if content.is_array() {
        for block in content.elements() {
            push_at(block?, text, depth - 1)?;
            text.end_part();
        }
        Ok(())
    } else if content.is_object() {
        push_block(content, text, depth)
    } else {
        if !content.is_null() {
            text.push(content.text());
        }
        Ok(())
    }
}

/// Pushes what one block says. Words come last, wherever they stand: the order of members says nothing.
fn push_block(block: Json<'_>, text: &mut Fingerprinter, depth: u32) -> Result<(), Malformed> {
    let mut words = None;
    let mut nested = None;
    let mut structured = None;
    let mut data = None;
    let mut is_media = false;
    for member in block.members() {
        let (name, value) = member?;
        match &*name.plain() {
            b"text" | b"refusal" => words = Some(value),
            // A tool's result, in the words of each API; its content is content again.
            b"content" | b"output" | b"toolResult" | b"functionResponse" | b"function_response" | b"resource"
            | b"document" => nested = Some(value),
            b"json" | b"response" => structured = Some(value),
            b"data" => data = Some(value),
            b"mimeType" | b"mime_type" => is_media = true,
            name if is_silent(name) => {}
            name if is_media_name(name) => text.push_opaque(value.text()),
            _ => push_unknown(value, text)?,
        }
    }
    match data {
        Some(data) if is_media => text.push_opaque(data.text()),
        Some(data) if data.string().is_some() => push_unknown(data, text)?,
        Some(data) => push_json(data, text)?,
        None => {}
    }
    structured.map_or(Ok(()), |value| push_json(value, text))?;
    nested.map_or(Ok(()), |content| push_at(content, text, depth - 1))?;
    words.map_or(Ok(()), |words| push_string(words, text))
}

/// Members that name or administer a block, and what the model thought and did before: nothing new.
fn is_silent(name: &[u8]) -> bool {
    matches!(
        name,
        b"type"
            | b"kind"
            | b"id"
            | b"index"
            | b"name"
            | b"status"
            | b"annotations"
            | b"logprobs"
            | b"cache_control"
            | b"cachePoint"
            | b"tool_use_id"
            | b"toolUseId"
            | b"call_id"
            | b"tool_call_id"
            | b"input"
            | b"toolUse"
            | b"functionCall"
            | b"function_call"
            | b"thinking"
            | b"signature"
            | b"thoughtSignature"
            | b"reasoningContent"
            | b"encrypted_content"
    )
}

/// Members that hold or point to images, sounds and files.
fn is_media_name(name: &[u8]) -> bool {
    matches!(
        name,
        b"image"
            | b"image_url"
            | b"source"
            | b"inlineData"
            | b"inline_data"
            | b"fileData"
            | b"file_data"
            | b"file"
            | b"file_id"
            | b"file_url"
            | b"input_audio"
            | b"audio"
            | b"video"
            | b"blob"
            | b"bytes"
            | b"uri"
            | b"url"
    )
}

/// A string that reads like words is words; else whatever says anything is opaque.
fn push_unknown(value: Json<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    match value.string() {
        Some(string) if !is_encoded(string.raw()) => {
            push_string(value, text)?;
            text.end_part();
        }
        None if matches!(value.text(), b"null" | b"false" | b"[]" | b"{}") => {}
        _ => text.push_opaque(value.text()),
    }
    Ok(())
}

/// Whether a string is base64 or a data URL: long, and nothing in its beginning that words have.
fn is_encoded(raw: &[u8]) -> bool {
    const BEGINNING: usize = 256;
    let is_code = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=-_:;,".contains(byte);
    raw.get(..BEGINNING).is_some_and(|beginning| beginning.iter().all(is_code))
}
