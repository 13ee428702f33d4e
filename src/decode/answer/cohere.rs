//! Cohere v2 chat. The plan before tool calls is a thought of the model, not part of its answer. The answer does not name
//! its model.

use super::calls_in_parts::CallDelta;
use super::usage::RESPONSES;
use super::{AnswerState, PartialAnswer};
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads an answer, or an event of one.
pub fn read(document: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [event, index, delta, message, usage] = document.pick(["type", "index", "delta", "message", "usage"])?;
    answer.begin(event.or(message).is_some());
    let is_end = event.and_then(Json::string).is_some_and(|event| event.is("message-end"));
    answer.reach(AnswerState::Ended, is_end || (delta.is_none() && message.is_some_and(Json::is_object)));
    read_usage(usage, answer);
    let Some(delta) = delta else { return message.map_or(Ok(()), |message| read_message(message, answer)) };
    let [message, error, usage] = delta.pick(["message", "error", "usage"])?;
    answer.fail_on(error);
    read_usage(usage, answer);
    message.map_or(Ok(()), |message| read_delta(index, message, answer))
}

/// Reads the tokens that are billed, or else those that the model has read and written.
fn read_usage(usage: Option<Json<'_>>, answer: &mut PartialAnswer) {
    let Some(usage) = usage else { return };
    let [billed, tokens] = usage.pick(["billed_units", "tokens"]).unwrap_or_default();
    answer.state_usage(billed.or(tokens), &RESPONSES);
}

fn read_message(message: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [content, calls] = message.pick(["content", "tool_calls"])?;
    answer.add_calls(calls)?;
    answer.push_string_or_blocks(content)
}

fn read_delta(index: Option<Json<'_>>, message: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [content, call] = message.pick(["content", "tool_calls"])?;
    answer.push_string(content.map_or(Ok(None), |content| content.get("text"))?)?;
    match call.map_or(Ok(None), |call| call.get("function"))? {
        Some(function) => {
            let [name, arguments] = function.pick(["name", "arguments"])?;
            answer.add_call_delta(CallDelta { index, name, arguments, ..CallDelta::default() })
        }
        None => Ok(()),
    }
}
