//! Cohere v2 chat.

use super::{Sheet, get2};
use crate::decode::json::{Json, Malformed};

/// Reads an answer, or an event of one.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    match get2(document, "delta", "message")? {
        Some(message) => read_delta(document, message, sheet),
        None => document.get("message")?.map_or(Ok(()), |message| read_message(message, sheet)),
    }
}

fn read_message(message: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    for call in message.get("tool_calls")?.into_iter().flat_map(Json::elements) {
        sheet.calls.add_whole(call?)?;
    }
    message.get("content")?.map_or(Ok(()), |content| sheet.say_content(content))
}

fn read_delta(document: Json<'_>, message: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    sheet.say(get2(message, "content", "text")?)?;
    match get2(message, "tool_calls", "function")? {
        Some(function) => {
            sheet.calls.add_part(document.get("index")?, function.get("name")?, function.get("arguments")?)
        }
        None => Ok(()),
    }
}
