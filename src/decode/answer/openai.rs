//! OpenAI Chat Completions and legacy Completions, which many other APIs imitate.
//!
//! Only the first of several choices is read: they all answer the same question.

use super::calls_in_parts::CallDelta;
use super::usage::OPENAI;
use super::{AnswerState, PartialAnswer, is_given};
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads a completion, or a chunk of one.
pub fn read(document: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [choices, error, model, usage, object] = document.pick(["choices", "error", "model", "usage", "object"])?;
    answer.begin(choices.is_some());
    answer.fail_on(error);
    answer.fail_if(is_error(object));
    answer.state_model(model);
    answer.state_usage(usage, &OPENAI);
    for choice in choices.into_iter().flat_map(Json::elements) {
        let [index, text, message, delta, finish, error] =
            choice?.pick(["index", "text", "message", "delta", "finish_reason", "error"])?;
        // Beside a delta, some providers repeat the message as far as it is known.
        let message = message.filter(|_| !is_given(delta));
        if index.is_none_or(|index| index.text() == b"0") {
            // Routers report an error of the provider in the choice.
            answer.fail_on(error);
            answer.fail_if(is_error(finish));
            answer.reach(AnswerState::Finished, is_given(finish));
            answer.reach(AnswerState::Ended, is_given(message));
            answer.push_string(text)?;
            message.map_or(Ok(()), |message| read_message(message, answer))?;
            return delta.map_or(Ok(()), |delta| read_delta(delta, answer));
        }
    }
    Ok(())
}

fn is_error(value: Option<Json<'_>>) -> bool {
    value.is_some_and(|value| value.text() == b"\"error\"")
}

fn read_message(message: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [content, refusal, calls, call] = message.pick(["content", "refusal", "tool_calls", "function_call"])?;
    answer.push_string_or_blocks(content)?;
    answer.push_string(refusal)?;
    answer.add_calls(calls)?;
    call.map_or(Ok(()), |call| answer.add_call(call))
}

fn read_delta(delta: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [content, refusal, calls, call] = delta.pick(["content", "refusal", "tool_calls", "function_call"])?;
    answer.push_string_or_blocks(content)?;
    answer.push_string(refusal)?;
    for call in calls.into_iter().flat_map(Json::elements) {
        let [index, id, function, custom] = call?.pick(["index", "id", "function", "custom"])?;
        let inner = function.or(custom).map(|inner| inner.pick(["name", "arguments", "input"])).transpose()?;
        let [name, arguments, input] = inner.unwrap_or_default();
        answer.add_call_delta(CallDelta { index, id, name, arguments: arguments.or(input) })?;
    }
    if let Some(call) = call.filter(|call| call.is_object()) {
        let [name, arguments] = call.pick(["name", "arguments"])?;
        answer.add_call_delta(CallDelta { name, arguments, ..CallDelta::default() })?;
    }
    Ok(())
}
