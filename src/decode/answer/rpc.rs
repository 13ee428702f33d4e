//! JSON-RPC: the result of an MCP tool, the message or task of an A2A agent, or an error, which says something too.
//!
//! Notifications on the way (progress, logs) have a method and are not the answer.

use super::{Sheet, get2};
use crate::decode::json::{Json, Malformed};
use crate::decode::text::{push_content, push_json};

/// Reads a response.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    if document.get("method")?.is_some() {
        return Ok(());
    }
    sheet.say(get2(document, "error", "message")?)?;
    let Some(result) = document.get("result")? else { return Ok(()) };
    let mut spoken = false;
    for holder in [Some(result), status_message(result)?].into_iter().flatten().chain(artifacts(result)?) {
        for name in ["content", "parts"] {
            if let Some(content) = holder.get(name)? {
                push_content(content, &mut sheet.text)?;
                sheet.text.part();
                spoken = true;
            }
        }
    }
    if spoken { Ok(()) } else { push_json(result, &mut sheet.text) }
}

fn status_message(result: Json<'_>) -> Result<Option<Json<'_>>, Malformed> {
    get2(result, "status", "message")
}

fn artifacts(result: Json<'_>) -> Result<Vec<Json<'_>>, Malformed> {
    result.get("artifacts")?.into_iter().flat_map(Json::elements).collect()
}
