//! JSON-RPC: the result of an MCP tool, the message or task of an A2A agent, or an error, whose message counts as text.
//!
//! Notifications (progress, logs) have a method and are not part of the answer. Neither are status messages of a task that
//! is not finished ("working on it"). Its artifacts are, and the message at its end.

use super::{AnswerState, PartialAnswer, get_nested};
use crate::decode::failure::{is_failure_flag, looks_like_failure};
use crate::decode::json::Json;
use crate::decode::text::{push_content, push_json};
use crate::scan::Malformed;

/// Reads a response.
pub fn read(document: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [method, error, result] = document.pick(["method", "error", "result"])?;
    if method.is_some() {
        return Ok(());
    }
    answer.begin(error.or(result).is_some());
    // Some servers send both, and null for the one that there is not.
    match (error.filter(|error| !error.is_null()), result) {
        (Some(error), _) => read_error(error, answer),
        (None, Some(result)) => read_result(result, answer),
        (None, None) => Ok(()),
    }
}

fn read_error(error: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    end(answer);
    answer.text.mark_failing();
    let [code, message] = error.pick(["code", "message"])?;
    match code {
        Some(code) if message.is_none() => answer.text.push_opaque(code.text()),
        _ => answer.push_string(message)?,
    }
    Ok(())
}

/// Notes that the response has come. A result without text is as good as any other.
fn end(answer: &mut PartialAnswer) {
    answer.reach(AnswerState::Ended, true);
    answer.may_be_empty = true;
}

fn read_result(result: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let result = unwrapped(result)?;
    let [content, structured, parts, artifacts, artifact, status, is_error] =
        result.pick(["content", "structuredContent", "parts", "artifacts", "artifact", "status", "isError"])?;
    if is_error.is_some_and(is_failure_flag) || content.is_some_and(|content| looks_like_failure(content.text())) {
        answer.text.mark_failing();
    }
    // The artifacts of a task come one by one, and then its status.
    // The result of a tool is complete, whatever its status says.
    let status = status.filter(|_| content.or(structured).is_none());
    let in_progress = status.map_or(Ok(artifact.is_some()), is_in_progress)?;
    if !in_progress {
        end(answer);
    }
    if [content, parts, artifacts, artifact, status].iter().all(Option::is_none) {
        return push_json(result, &mut answer.text);
    }
    push_part(content.or(parts), answer)?;
    // The text beside it may be the same every time ("done"), or missing.
    if let Some(structured) = structured {
        push_json(structured, &mut answer.text)?;
        answer.text.end_part();
    }
    for artifact in artifacts.into_iter().flat_map(Json::elements).chain(artifact.map(Ok)) {
        push_part(artifact?.get("parts")?, answer)?;
    }
    match status {
        Some(status) if !in_progress => push_part(get_nested(status, "message", "parts")?, answer),
        _ => Ok(()),
    }
}

/// Returns the result without the member around it, by which later versions of A2A name the kind of the result. A result
/// with content of its own may have members of these names as well.
fn unwrapped(result: Json<'_>) -> Result<Json<'_>, Malformed> {
    let [content, structured, parts, kinds @ ..] =
        result.pick(["content", "structuredContent", "parts", "task", "message", "statusUpdate", "artifactUpdate"])?;
    if content.or(structured).or(parts).is_some() {
        return Ok(result);
    }
    Ok(kinds.into_iter().flatten().find(|kind| kind.is_object()).unwrap_or(result))
}

fn is_in_progress(status: Json<'_>) -> Result<bool, Malformed> {
    const STATES: [&str; 4] = ["submitted", "working", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"];
    // The status of an MCP task is a string.
    let state = status.get("state")?.unwrap_or(status).string();
    Ok(state.is_some_and(|state| STATES.iter().any(|known| state.is(known))))
}

fn push_part(content: Option<Json<'_>>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let Some(content) = content else { return Ok(()) };
    push_content(content, &mut answer.text)?;
    answer.text.end_part();
    Ok(())
}
