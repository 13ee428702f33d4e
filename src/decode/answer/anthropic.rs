//! Anthropic Messages.

use super::Sheet;
use super::calls::Piece;
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads a message, or an event of one.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [event, index, block, delta, content] =
        document.pick(["type", "index", "content_block", "delta", "content"])?;
    match event.and_then(Json::string).map(|event| event.plain()).as_deref() {
        Some(b"content_block_start") => block.map_or(Ok(()), |block| start(index, block, sheet)),
        Some(b"content_block_delta") => delta.map_or(Ok(()), |delta| more(index, delta, sheet)),
        Some(b"error") => {
            sheet.failed = true;
            Ok(())
        }
        Some(event) if event.starts_with(b"content_block_") || event.starts_with(b"message_") => Ok(()),
        _ => content.map_or(Ok(()), |content| sheet.say_content(content)),
    }
}

fn start(index: Option<Json<'_>>, block: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [text, name] = block.pick(["text", "name"])?;
    sheet.say(text)?;
    if name.is_some() { sheet.calls.add(Piece { index, name, ..Piece::default() }) } else { Ok(()) }
}

fn more(index: Option<Json<'_>>, delta: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [text, arguments] = delta.pick(["text", "partial_json"])?;
    sheet.say(text)?;
    if arguments.is_some() { sheet.calls.add(Piece { index, arguments, ..Piece::default() }) } else { Ok(()) }
}
