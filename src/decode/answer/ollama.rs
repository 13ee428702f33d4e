//! Ollama `chat` and `generate`: every line has the shape of a whole answer.

use super::Sheet;
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads an answer, or a line of one.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [response, message, error] = document.pick(["response", "message", "error"])?;
    sheet.fail_on(error);
    sheet.say(response)?;
    let Some(message) = message else { return Ok(()) };
    let [content, calls] = message.pick(["content", "tool_calls"])?;
    sheet.say(content)?;
    for call in calls.into_iter().flat_map(Json::elements) {
        sheet.calls.add_whole(call?)?;
    }
    Ok(())
}
