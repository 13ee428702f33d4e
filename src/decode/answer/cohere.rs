//! Cohere v2 chat. The plan that precedes tool calls is a thought, not an answer.

use super::Sheet;
use super::calls::Piece;
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads an answer, or an event of one.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [index, delta, message] = document.pick(["index", "delta", "message"])?;
    let Some(delta) = delta else { return message.map_or(Ok(()), |message| read_message(message, sheet)) };
    let [message, error] = delta.pick(["message", "error"])?;
    sheet.fail_on(error);
    message.map_or(Ok(()), |message| read_delta(index, message, sheet))
}

fn read_message(message: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [content, calls] = message.pick(["content", "tool_calls"])?;
    for call in calls.into_iter().flat_map(Json::elements) {
        sheet.calls.add_whole(call?)?;
    }
    sheet.say_any(content)
}

fn read_delta(index: Option<Json<'_>>, message: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [content, call] = message.pick(["content", "tool_calls"])?;
    sheet.say(content.map_or(Ok(None), |content| content.get("text"))?)?;
    match call.map_or(Ok(None), |call| call.get("function"))? {
        Some(function) => {
            let [name, arguments] = function.pick(["name", "arguments"])?;
            sheet.calls.add(Piece { index, name, arguments, ..Piece::default() })
        }
        None => Ok(()),
    }
}
