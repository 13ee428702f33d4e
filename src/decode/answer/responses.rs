//! OpenAI Responses.
//!
//! A stream repeats everything: as deltas, as finished items, and in the finished response. Text is read from the deltas and
//! calls from the finished items; everything else is ignored.

use super::usage::RESPONSES;
use super::{AnswerState, PartialAnswer};
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads a response, or an event of one.
pub fn read(document: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [event, delta, item, output, error, response, model, usage] =
        document.pick(["type", "delta", "item", "output", "error", "response", "model", "usage"])?;
    answer.begin(event.or(output).is_some());
    answer.fail_on(error);
    match event.and_then(Json::string).map(|event| event.unescaped()).as_deref() {
        None => {
            answer.state_model(model);
            answer.state_usage(usage, &RESPONSES);
            answer.reach(AnswerState::Ended, output.is_some());
            output.into_iter().flat_map(Json::elements).try_for_each(|item| read_item(item?, answer))
        }
        Some(b"response.output_text.delta" | b"response.refusal.delta") => answer.push_string(delta),
        Some(b"response.output_item.done") => item.map_or(Ok(()), |item| read_call(item, answer)),
        Some(b"response.failed" | b"error") => {
            answer.fail();
            Ok(())
        }
        Some(b"response.completed" | b"response.incomplete" | b"response.done") => {
            answer.reach(AnswerState::Ended, true);
            let [model, usage] =
                response.and_then(|response| response.pick(["model", "usage"]).ok()).unwrap_or_default();
            answer.state_model(model);
            answer.state_usage(usage, &RESPONSES);
            Ok(())
        }
        Some(_) => Ok(()),
    }
}

/// Reads an item of a whole response. Reasoning also has content, which is not part of the answer.
fn read_item(item: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [item_type, content] = item.pick(["type", "content"])?;
    match item_type.and_then(Json::string) {
        Some(name) if !name.is("message") => read_call(item, answer),
        _ => content.map_or(Ok(()), |content| answer.push_blocks(content)),
    }
}

fn read_call(item: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let is_call = item.get("type")?.and_then(Json::string).is_some_and(|name| name.unescaped().ends_with(b"_call"));
    if is_call { answer.add_call(item) } else { Ok(()) }
}
