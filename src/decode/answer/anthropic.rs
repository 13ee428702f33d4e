//! Anthropic Messages.

use super::calls_in_parts::CallDelta;
use super::usage::ANTHROPIC;
use super::{AnswerState, PartialAnswer, is_given};
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads a message, or an event of one.
pub fn read(document: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [event, index, block, delta, content, message, model, usage] =
        document.pick(["type", "index", "content_block", "delta", "content", "message", "model", "usage"])?;
    // Bedrock wraps the events of its streams, which are not read, in objects that have none of these.
    answer.begin(event.or(content).is_some());
    answer.state_model(model);
    answer.state_usage(usage, &ANTHROPIC);
    match event.and_then(Json::string).map(|event| event.unescaped()).as_deref() {
        Some(b"content_block_start") => block.map_or(Ok(()), |block| start(index, block, answer)),
        Some(b"content_block_delta") => delta.map_or(Ok(()), |delta| more(index, delta, answer)),
        Some(b"error") => {
            answer.fail();
            Ok(())
        }
        Some(event) if event.starts_with(b"content_block_") || event.starts_with(b"message_") => {
            answer.reach(AnswerState::Ended, event == b"message_stop");
            // Some clients close the stream at the event that says why the model has finished.
            let stop = delta.and_then(|delta| delta.get("stop_reason").ok().flatten());
            answer.reach(AnswerState::Finished, is_given(stop));
            // The message begins with the tokens of its input. Those of its output are in an event of their own.
            let [model, usage] = message.and_then(|message| message.pick(["model", "usage"]).ok()).unwrap_or_default();
            answer.state_model(model);
            answer.state_usage(usage, &ANTHROPIC);
            Ok(())
        }
        _ => {
            answer.reach(AnswerState::Ended, content.is_some());
            content.map_or(Ok(()), |content| answer.push_content(content))
        }
    }
}

fn start(index: Option<Json<'_>>, block: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [text, name] = block.pick(["text", "name"])?;
    answer.push_string(text)?;
    if name.is_some() { answer.add_call_delta(CallDelta { index, name, ..CallDelta::default() }) } else { Ok(()) }
}

fn more(index: Option<Json<'_>>, delta: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [text, arguments] = delta.pick(["text", "partial_json"])?;
    answer.push_string(text)?;
    if arguments.is_some() {
        answer.add_call_delta(CallDelta { index, arguments, ..CallDelta::default() })
    } else {
        Ok(())
    }
}
