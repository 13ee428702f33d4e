//! Gemini `generateContent` and `streamGenerateContent`: each document of a stream looks like a whole answer.

use super::usage::GEMINI;
use super::{AnswerState, PartialAnswer, get_nested, is_given};
use crate::decode::json::Json;
use crate::scan::Malformed;

/// Reads an answer, or a part of one. Only the first of several candidates is read.
pub fn read(document: Json<'_>, answer: &mut PartialAnswer) -> Result<(), Malformed> {
    let [candidates, error, model, usage, feedback] =
        document.pick(["candidates", "error", "modelVersion", "usageMetadata", "promptFeedback"])?;
    answer.begin(candidates.is_some());
    answer.fail_on(error);
    answer.state_model(model);
    answer.state_usage(usage, &GEMINI);
    match candidates.and_then(|candidates| candidates.elements().next()).transpose()? {
        Some(candidate) => {
            answer.reach(AnswerState::Finished, is_given(candidate.get("finishReason")?));
            get_nested(candidate, "content", "parts")?.map_or(Ok(()), |parts| answer.push_content(parts))
        }
        // A prompt that is blocked gets no candidates.
        None => {
            let reason = feedback.map_or(Ok(None), |feedback| feedback.get("blockReason"))?;
            answer.reach(AnswerState::Ended, is_given(reason));
            Ok(())
        }
    }
}
