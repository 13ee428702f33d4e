//! Ollama `chat` and `generate`: every line has the shape of a whole answer.

use super::{Sheet, get2};
use crate::decode::json::{Json, Malformed};

/// Reads an answer, or a line of one.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    sheet.say(document.get("response")?)?;
    sheet.say(get2(document, "message", "content")?)?;
    for call in get2(document, "message", "tool_calls")?.into_iter().flat_map(Json::elements) {
        sheet.calls.add_whole(call?)?;
    }
    Ok(())
}
