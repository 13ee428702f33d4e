//! Anthropic Messages.

use super::{Sheet, get2};
use crate::decode::json::{Json, Malformed};

/// Reads a message, or an event of one.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    match document.get("type")?.and_then(Json::string) {
        Some(event) if event.is("content_block_start") => start(document, sheet),
        Some(event) if event.is("content_block_delta") => delta(document, sheet),
        Some(event) if event.raw().starts_with(b"content_block_") || event.raw().starts_with(b"message_") => Ok(()),
        _ => document.get("content")?.map_or(Ok(()), |content| sheet.say_content(content)),
    }
}

fn start(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    sheet.say(get2(document, "content_block", "text")?)?;
    match get2(document, "content_block", "name")? {
        Some(name) => sheet.calls.add_part(document.get("index")?, Some(name), None),
        None => Ok(()),
    }
}

fn delta(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    sheet.say(get2(document, "delta", "text")?)?;
    match get2(document, "delta", "partial_json")? {
        Some(part) => sheet.calls.add_part(document.get("index")?, None, Some(part)),
        None => Ok(()),
    }
}
