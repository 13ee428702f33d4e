//! OpenAI Responses.
//!
//! A stream says everything more than once: as deltas, as finished items, as the finished response. Words are taken from
//! the deltas, calls from the finished items, and the rest is left.

use super::Sheet;
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads a response, or an event of one.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [event, delta, item, output, error] = document.pick(["type", "delta", "item", "output", "error"])?;
    sheet.fail_on(error);
    match event.and_then(Json::string).map(|event| event.plain()).as_deref() {
        None => output.into_iter().flat_map(Json::elements).try_for_each(|item| read_item(item?, sheet)),
        Some(b"response.output_text.delta" | b"response.refusal.delta") => sheet.say(delta),
        Some(b"response.output_item.done") => item.map_or(Ok(()), |item| read_call(item, sheet)),
        Some(b"response.failed" | b"error") => {
            sheet.failed = true;
            Ok(())
        }
        Some(_) => Ok(()),
    }
}

/// Reads an item of a whole response. Reasoning has content too, which is no part of the answer.
fn read_item(item: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [tag, content] = item.pick(["type", "content"])?;
    match tag.and_then(Json::string) {
        Some(tag) if !tag.is("message") => read_call(item, sheet),
        _ => content.map_or(Ok(()), |content| sheet.say_blocks(content)),
    }
}

fn read_call(item: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let is_call = item.get("type")?.and_then(Json::string).is_some_and(|tag| tag.plain().ends_with(b"_call"));
    if is_call { sheet.calls.add_whole(item) } else { Ok(()) }
}
