//! OpenAI's legacy Completions: a prompt and its continuation, no messages and no tools.

use serde_json::{Value, json};

use super::Ask;
use super::openai_chat::usage_field;
use crate::answer::Answer;
use crate::fresh;
use crate::sse;

pub fn whole(ask: &Ask, answer: &Answer) -> Value {
    let mut whole = completion(&fresh::id("cmpl-", 29), ask, &answer.text, json!("stop"));
    whole["usage"] = usage_field(ask, answer);
    whole
}

/// Returns the answer as events, `[DONE]` last.
pub fn events(ask: &Ask, answer: &Answer) -> Vec<String> {
    let id = fresh::id("cmpl-", 29);
    let texts = answer.text_pieces().into_iter().map(|text| completion(&id, ask, text, Value::Null));
    let events = texts.chain([completion(&id, ask, "", json!("stop"))]).map(|event| sse::data(&event));
    events.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn completion(id: &str, ask: &Ask, text: &str, finish_reason: Value) -> Value {
    json!({
        "id": id,
        "object": "text_completion",
        "created": fresh::unix_seconds(),
        "model": ask.model,
        "choices": [{"text": text, "index": 0, "logprobs": null, "finish_reason": finish_reason}],
    })
}
