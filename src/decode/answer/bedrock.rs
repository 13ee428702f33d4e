//! Bedrock Converse and ConverseStream. Events come bare, their type in a header, or wrapped in a member of that name.

use super::{Sheet, get2};
use crate::decode::json::{Json, Malformed};

/// Reads an answer, or an event of one.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    if let Some(message) = get2(document, "output", "message")? {
        return message.get("content")?.map_or(Ok(()), |content| sheet.say_content(content));
    }
    let wrapped = document.get("contentBlockStart")?.or(document.get("contentBlockDelta")?);
    let event = wrapped.unwrap_or(document);
    let index = event.get("contentBlockIndex")?;
    if let Some(name) = event.get("start")?.map_or(Ok(None), |start| get2(start, "toolUse", "name"))? {
        sheet.calls.add_part(index, Some(name), None)?;
    }
    let Some(delta) = event.get("delta")? else { return Ok(()) };
    sheet.say(delta.get("text")?)?;
    match get2(delta, "toolUse", "input")? {
        Some(input) => sheet.calls.add_part(index, None, Some(input)),
        None => Ok(()),
    }
}
