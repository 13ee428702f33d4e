//! OpenAI Chat Completions and legacy Completions, and the many that speak them.
//!
//! Of several choices the first is read: they answer the same question.

use super::{Sheet, get2};
use crate::decode::json::{Json, Malformed};
use crate::decode::text::push_content;

/// Reads a completion, or a chunk of one.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let Some(choices) = document.get("choices")? else { return Ok(()) };
    for choice in choices.elements() {
        let choice = choice?;
        if choice.get("index")?.is_none_or(|index| index.text() == b"0") {
            return read_choice(choice, sheet);
        }
    }
    Ok(())
}

fn read_choice(choice: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    sheet.say(choice.get("text")?)?;
    if let Some(message) = choice.get("message")? {
        read_words(message, sheet)?;
        for call in message.get("tool_calls")?.into_iter().flat_map(Json::elements) {
            sheet.calls.add_whole(call?)?;
        }
        if let Some(call) = message.get("function_call")? {
            sheet.calls.add_whole(call)?;
        }
    }
    if let Some(delta) = choice.get("delta")? {
        read_words(delta, sheet)?;
        for call in delta.get("tool_calls")?.into_iter().flat_map(Json::elements) {
            let call = call?;
            let (name, arguments) = (get2(call, "function", "name")?, get2(call, "function", "arguments")?);
            sheet.calls.add_part(call.get("index")?, name, arguments)?;
        }
        if let Some(call) = delta.get("function_call")?.filter(|call| call.is_object()) {
            sheet.calls.add_part(None, call.get("name")?, call.get("arguments")?)?;
        }
    }
    Ok(())
}

fn read_words(message: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    if let Some(content) = message.get("content")? {
        push_content(content, &mut sheet.text)?;
    }
    sheet.say(message.get("refusal")?)
}
