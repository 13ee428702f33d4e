//! Bedrock Converse and ConverseStream. Events come bare, their type in a header, or wrapped in a member of that name.

use super::calls::Piece;
use super::{Sheet, get2};
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads an answer, or an event of one.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [output, start, delta, message] =
        document.pick(["output", "contentBlockStart", "contentBlockDelta", "message"])?;
    // An exception in the middle of a stream: all that it holds is its message.
    sheet.failed |= message.and_then(Json::string).is_some();
    match output {
        Some(output) => get2(output, "message", "content")?.map_or(Ok(()), |content| sheet.say_content(content)),
        None => read_event(start.or(delta).unwrap_or(document), sheet),
    }
}

fn read_event(event: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [index, start, delta] = event.pick(["contentBlockIndex", "start", "delta"])?;
    if let Some(name) = start.map_or(Ok(None), |start| get2(start, "toolUse", "name"))? {
        sheet.calls.add(Piece { index, name: Some(name), ..Piece::default() })?;
    }
    let Some(delta) = delta else { return Ok(()) };
    let [text, tool] = delta.pick(["text", "toolUse"])?;
    sheet.say(text)?;
    match tool.map_or(Ok(None), |tool| tool.get("input"))? {
        Some(input) => sheet.calls.add(Piece { index, arguments: Some(input), ..Piece::default() }),
        None => Ok(()),
    }
}
