//! Message content to text: every shape that the known APIs give it.
//!
//! One reader for the union of the formats rather than one each: content is a string, null, or a list of blocks, and the
//! blocks of different APIs never give one name two meanings. A proxy that translates between APIs mixes them anyway.

use super::json::{Json, Malformed};
use super::unescape::unescape;
use crate::detect::fingerprint::Fingerprinter;

/// Pushes a JSON string's text.
pub fn push_string(value: Json<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    match value.string() {
        Some(string) => unescape(string.raw(), |piece| text.push(piece)),
        None => Ok(()),
    }
}

/// Pushes what content says: a string, a list of blocks, one block. Null says nothing; other scalars stand for
/// themselves.
pub fn push_content(content: Json<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    if content.string().is_some() {
        push_string(content, text)
    } else if content.is_array() {
        for block in content.elements() {
            push_block(block?, text)?;
            text.part();
        }
        Ok(())
    } else if content.is_object() {
        push_block(content, text)
    } else {
        if content.text() != b"null" {
            text.push(content.text());
        }
        Ok(())
    }
}

/// Members that name or administer a block and say nothing.
const ADMINISTRATION: [&str; 12] = [
    "type",
    "kind",
    "id",
    "index",
    "cache_control",
    "cachePoint",
    "tool_use_id",
    "toolUseId",
    "call_id",
    "tool_call_id",
    "annotations",
    "status",
];

/// Pushes what one block says.
fn push_block(block: Json<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    if !block.is_object() {
        return push_content_scalar(block, text);
    }
    for member in block.members() {
        let (name, value) = member?;
        match () {
            () if name.is("text") || name.is("refusal") => push_string(value, text)?,
            // A tool's result, in the words of each API; its content is content again.
            () if name.is("content") || name.is("output") => push_nested(value, text)?,
            () if name.is("toolResult") || name.is("functionResponse") || name.is("function_response") => {
                push_nested(value, text)?;
            }
            () if name.is("json") || name.is("response") || name.is("data") => push_json(value, text)?,
            // What the model did before is not new.
            () if name.is("toolUse") || name.is("functionCall") || name.is("function_call") => {}
            () if ADMINISTRATION.iter().any(|known| name.is(known)) => {}
            () => text.opaque(value.text()),
        }
    }
    Ok(())
}

fn push_content_scalar(value: Json<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    if value.string().is_some() {
        return push_string(value, text);
    }
    text.push(value.text());
    Ok(())
}

/// Content inside a block, one level deep: what is nested deeper is taken as it stands.
fn push_nested(value: Json<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    if value.string().is_some() {
        return push_string(value, text);
    }
    let blocks =
        if value.is_object() { value.get("content")?.or(value.get("response")?).unwrap_or(value) } else { value };
    if !blocks.is_array() {
        return push_json(blocks, text);
    }
    for block in blocks.elements() {
        let block = block?;
        match block.get("text")? {
            Some(words) => push_string(words, text)?,
            None => push_json(block, text)?,
        }
        text.part();
    }
    Ok(())
}

/// Pushes JSON as it stands, the escapes in its strings resolved.
pub fn push_json(value: Json<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    unescape(value.text(), |piece| text.push(piece))
}
