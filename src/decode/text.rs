//! The text in the content of a message.
//!
//! The same code reads the content of all formats: it is a string, null, or a list of blocks, and no member of a block has
//! different meanings in different APIs. Proxies that translate between APIs mix them anyway.
//!
//! Images and files count as one word each, equal only if all their bytes are. A member with an unknown name is taken for
//! text if it looks like text.

use memchr::memchr;

use super::failure::is_failure_flag;
use super::json::{Json, RawStr};
use crate::fingerprint::Fingerprinter;
use crate::scan::Malformed;

/// How deep content may be nested: a list, a result in it, the list of the result, a document in that list, and so on.
/// Deeper content is taken as the text of its JSON.
const DEPTH_MAX: u32 = 8;

/// Pushes the text of a JSON string. Other values are ignored.
pub fn push_string(value: Json<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    match value.string() {
        Some(string) => text.push_escaped(string.raw()),
        None => Ok(()),
    }
}

/// Pushes the text of a JSON value, with the escapes in its strings replaced.
pub fn push_json(value: Json<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    text.push_escaped(value.text())
}

/// Pushes content: a string, a list of blocks, or a single block. Null is ignored; other scalars are pushed as text.
pub fn push_content(content: Json<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    push_at(content, text, DEPTH_MAX, None)
}

/// Like [`push_content`], for a message that may be the result of a tool. If `id` is given, it and the ids of results inside
/// the content are left out where the results quote them.
pub fn push_result(content: Json<'_>, id: Option<&[u8]>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    push_at(content, text, DEPTH_MAX, id)
}

/// Ids that are shorter than this are not searched for: they may be part of any word.
const ID_BYTES_MIN: usize = 6;
/// How many bytes of a result are searched for its id. Tools that quote it do so at the beginning.
const QUOTED_WITHIN: usize = 512;

/// Pushes the text of a JSON string without an id that it quotes.
#[inline(never)] // compiled once
fn push_without(string: RawStr<'_>, id: Option<&[u8]>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    let mut rest = string.raw();
    while let Some(id) = id
        && id.len() >= ID_BYTES_MIN
        && let Some(at) = find(rest.get(..QUOTED_WITHIN).unwrap_or(rest), id)
    {
        let (before, from) = rest.split_at(at);
        text.push_escaped(before)?;
        rest = from.get(id.len()..).unwrap_or_default();
    }
    text.push_escaped(rest)
}

/// Finds an id or a name by its last byte. The general search of `memchr` takes longer to prepare than this takes in all.
#[inline(never)] // compiled once
pub fn find(text: &[u8], id: &[u8]) -> Option<usize> {
    let (last, before) = id.split_last()?;
    let mut end = before.len();
    loop {
        end += memchr(*last, text.get(end..)?)?;
        let start = end - before.len();
        if text.get(start..end)? == before {
            return Some(start);
        }
        end += 1;
    }
}

fn push_at(content: Json<'_>, text: &mut Fingerprinter, depth: u32, id: Option<&[u8]>) -> Result<(), Malformed> {
    if let Some(string) = content.string() {
        push_without(string, id, text)
    } else if depth == 0 {
        push_json(content, text)
    } else if content.is_array() {
        for block in content.elements() {
            push_at(block?, text, depth - 1, id)?;
            text.end_part();
        }
        Ok(())
    } else if content.is_object() {
        push_block(content, text, depth, id)
    } else {
        if !content.is_null() {
            text.push(content.text());
        }
        Ok(())
    }
}

/// Pushes the content of a block. The order of its members does not matter: its text always comes last.
fn push_block<'a>(
    block: Json<'a>,
    text: &mut Fingerprinter,
    depth: u32,
    mut id: Option<&'a [u8]>,
) -> Result<(), Malformed> {
    let mut words = None;
    let mut nested = None;
    let mut structured = None;
    let mut data = None;
    let mut is_media = false;
    for member in block.members() {
        let (name, value) = member?;
        match &*name.unescaped() {
            b"text" | b"refusal" => words = Some(value),
            // The names that the APIs have for a tool's result. It contains content again.
            b"content" | b"output" | b"toolResult" | b"functionResponse" | b"function_response" | b"resource"
            | b"document" => nested = Some(value),
            b"json" | b"response" => structured = Some(value),
            b"data" => data = Some(value),
            b"mimeType" | b"mime_type" => is_media = true,
            // Bedrock's status of a result, and that of other blocks.
            b"status" | b"is_error" | b"isError" => {
                if is_failure_flag(value) {
                    text.mark_failing();
                }
            }
            b"tool_use_id" | b"toolUseId" | b"call_id" | b"tool_call_id" => {
                id = id.map(|id| value.string().map_or(id, RawStr::raw));
            }
            name if is_ignored(name) => {}
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
    nested.map_or(Ok(()), |content| push_at(content, text, depth - 1, id))?;
    words.and_then(Json::string).map_or(Ok(()), |words| push_without(words, id, text))
}

/// Members that identify or administer a block, and what the model thought and did before. None of them is new text.
fn is_ignored(name: &[u8]) -> bool {
    matches!(
        name,
        b"type"
            | b"kind"
            | b"id"
            | b"index"
            | b"name"
            | b"annotations"
            | b"logprobs"
            | b"cache_control"
            | b"cachePoint"
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

/// Members that contain images, sounds and files, or refer to them.
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

/// Pushes the value of a member with an unknown name: as text if it looks like text, else as a single word.
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

/// Returns whether a string is base64 or a data URL: it is long, and its beginning has none of the characters that
/// separate words.
fn is_encoded(raw: &[u8]) -> bool {
    const BEGINNING: usize = 256;
    let is_code = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=-_:;,".contains(byte);
    raw.get(..BEGINNING).is_some_and(|beginning| beginning.iter().all(is_code))
}
