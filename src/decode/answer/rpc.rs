//! JSON-RPC: the result of an MCP tool, the message or task of an A2A agent, or an error, which says something too.
//!
//! Notifications on the way (progress, logs) have a method and are not the answer. Of a task that streams, words on the
//! way ("working on it") are not either: artifacts are, and the message that comes with the end.

use super::{Sheet, get2};
use crate::decode::json::Json;
use crate::decode::text::{push_content, push_json};
use crate::scan::Malformed;

/// Reads a response.
pub fn read(document: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let [method, error, result] = document.pick(["method", "error", "result"])?;
    if method.is_some() {
        return Ok(());
    }
    sheet.say(error.map_or(Ok(None), |error| error.get("message"))?)?;
    result.map_or(Ok(()), |result| read_result(result, sheet))
}

fn read_result(result: Json<'_>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let result = unwrapped(result)?;
    let [content, parts, artifacts, artifact, status] =
        result.pick(["content", "parts", "artifacts", "artifact", "status"])?;
    if [content, parts, artifacts, artifact, status].iter().all(Option::is_none) {
        return push_json(result, &mut sheet.text);
    }
    say(content.or(parts), sheet)?;
    for artifact in artifacts.into_iter().flat_map(Json::elements).chain(artifact.map(Ok)) {
        say(artifact?.get("parts")?, sheet)?;
    }
    match status {
        Some(status) if !is_on_the_way(status)? => say(get2(status, "message", "parts")?, sheet),
        _ => Ok(()),
    }
}

/// Later versions of A2A put the result into a member that names its kind.
fn unwrapped(result: Json<'_>) -> Result<Json<'_>, Malformed> {
    let kinds = result.pick(["task", "message", "statusUpdate", "artifactUpdate"])?;
    Ok(kinds.into_iter().flatten().find(|kind| kind.is_object()).unwrap_or(result))
}

fn is_on_the_way(status: Json<'_>) -> Result<bool, Malformed> {
    const STATES: [&str; 4] = ["submitted", "working", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"];
    let state = status.get("state")?.and_then(Json::string);
    Ok(state.is_some_and(|state| STATES.iter().any(|known| state.is(known))))
}

fn say(content: Option<Json<'_>>, sheet: &mut Sheet) -> Result<(), Malformed> {
    let Some(content) = content else { return Ok(()) };
    push_content(content, &mut sheet.text)?;
    sheet.text.end_part();
    Ok(())
}
