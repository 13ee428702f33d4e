//! Bedrock Converse and ConverseStream. The type of an event is in a header of its message, or it is the name of a member
//! around the event. The answer does not name its model.

use super::calls_in_parts::CallDelta;
use super::usage::BEDROCK;
use super::{AnswerState, PartialAnswer, get_nested};
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads an answer, or an event of one.
pub fn read(document: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [output, start, delta, message, stop, stop_event, metadata, usage, wrapped] = document.pick([
        "output",
        "contentBlockStart",
        "contentBlockDelta",
        "message",
        "stopReason",
        "messageStop",
        "metadata",
        "usage",
        "bytes",
    ])?;
    // Wrapped events of another API are not read.
    answer.begin(wrapped.is_none());
    // The last event of a stream has the tokens. It comes after the one that says why the model has finished.
    answer.reach(AnswerState::Finished, stop.or(stop_event).is_some());
    let usage = usage.or(metadata.and_then(|metadata| metadata.get("usage").ok().flatten()));
    answer.reach(AnswerState::Ended, output.or(metadata).or(usage).is_some());
    answer.state_usage(usage, &BEDROCK);
    // An exception within a stream consists of its message.
    if message.and_then(Json::string).is_some() {
        answer.fail();
    }
    match output {
        Some(output) => {
            get_nested(output, "message", "content")?.map_or(Ok(()), |content| answer.push_content(content))
        }
        None => read_event(start.or(delta).unwrap_or(document), answer),
    }
}

fn read_event(event: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [index, start, delta] = event.pick(["contentBlockIndex", "start", "delta"])?;
    if let Some(name) = start.map_or(Ok(None), |start| get_nested(start, "toolUse", "name"))? {
        answer.add_call_delta(CallDelta { index, name: Some(name), ..CallDelta::default() })?;
    }
    let Some(delta) = delta else { return Ok(()) };
    let [text, tool] = delta.pick(["text", "toolUse"])?;
    answer.push_string(text)?;
    match tool.map_or(Ok(None), |tool| tool.get("input"))? {
        Some(input) => answer.add_call_delta(CallDelta { index, arguments: Some(input), ..CallDelta::default() }),
        None => Ok(()),
    }
}
