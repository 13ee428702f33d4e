//! OpenAI Responses.
//!
//! A stream says everything more than once: as deltas, as finished items, as the finished response. Words are taken from
//! the deltas, calls from the finished items, and the rest is left.

use super::Sheet;
use crate::decode::json::{Json, Malformed};

/// Reads a response, or an event of one.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    match document.get("type")?.and_then(Json::string) {
        None => read_output(document, sheet),
        Some(event) if event.is("response.output_text.delta") || event.is("response.refusal.delta") => {
            sheet.say(document.get("delta")?)
        }
        Some(event) if event.is("response.output_item.done") => {
            document.get("item")?.map_or(Ok(()), |item| read_call(item, sheet))
        }
        Some(_) => Ok(()),
    }
}

fn read_output(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    for item in document.get("output")?.into_iter().flat_map(Json::elements) {
        let item = item?;
        read_call(item, sheet)?;
        if let Some(content) = item.get("content")? {
            sheet.say_blocks(content)?;
        }
    }
    Ok(())
}

fn read_call(item: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let is_call = item.get("type")?.and_then(Json::string).is_some_and(|tag| tag.raw().ends_with(b"_call"));
    if is_call { sheet.calls.add_whole(item) } else { Ok(()) }
}
