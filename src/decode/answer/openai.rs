//! OpenAI Chat Completions and legacy Completions, and the many that speak them.
//!
//! Of several choices the first is read: they answer the same question.

use super::Sheet;
use super::calls::Piece;
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads a completion, or a chunk of one.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [choices, error] = document.pick(["choices", "error"])?;
    sheet.fail_on(error);
    for choice in choices.into_iter().flat_map(Json::elements) {
        let [index, text, message, delta] = choice?.pick(["index", "text", "message", "delta"])?;
        if index.is_none_or(|index| index.text() == b"0") {
            sheet.say(text)?;
            message.map_or(Ok(()), |message| read_message(message, sheet))?;
            return delta.map_or(Ok(()), |delta| read_delta(delta, sheet));
        }
    }
    Ok(())
}

fn read_message(message: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [content, refusal, calls, call] = message.pick(["content", "refusal", "tool_calls", "function_call"])?;
    sheet.say_any(content)?;
    sheet.say(refusal)?;
    for call in calls.into_iter().flat_map(Json::elements) {
        sheet.calls.add_whole(call?)?;
    }
    call.map_or(Ok(()), |call| sheet.calls.add_whole(call))
}

fn read_delta(delta: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [content, refusal, calls, call] = delta.pick(["content", "refusal", "tool_calls", "function_call"])?;
    sheet.say_any(content)?;
    sheet.say(refusal)?;
    for call in calls.into_iter().flat_map(Json::elements) {
        let [index, id, function, custom] = call?.pick(["index", "id", "function", "custom"])?;
        let inner = function.or(custom).map(|inner| inner.pick(["name", "arguments", "input"])).transpose()?;
        let [name, arguments, input] = inner.unwrap_or_default();
        sheet.calls.add(Piece { index, id, name, arguments: arguments.or(input) })?;
    }
    if let Some(call) = call.filter(|call| call.is_object()) {
        let [name, arguments] = call.pick(["name", "arguments"])?;
        sheet.calls.add(Piece { name, arguments, ..Piece::default() })?;
    }
    Ok(())
}
