//! Ollama `chat` and `generate`: each line of a stream looks like a whole answer.

use super::{AnswerState, PartialAnswer};
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads an answer, or a line of one.
pub fn read(document: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [response, message, error, done, model, input, output] =
        document.pick(["response", "message", "error", "done", "model", "prompt_eval_count", "eval_count"])?;
    answer.begin(response.or(message).or(done).is_some());
    answer.state_model(model);
    answer.state_counts(input, output);
    answer.reach(AnswerState::Ended, done.is_some_and(Json::is_true));
    answer.fail_on(error);
    answer.push_string(response)?;
    let Some(message) = message else { return Ok(()) };
    let [content, calls] = message.pick(["content", "tool_calls"])?;
    answer.push_string(content)?;
    answer.add_calls(calls)
}
