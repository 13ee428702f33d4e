//! Counts repeats to the letter of the specification.
//!
//! Prompts and answers within the similarity distance count, and so do identical tool signatures, whatever they led to.
//! This stops a simple loop on its sixth call. It also stops many healthy agents that use tools, because the last user
//! message stays the same through a whole chain of tool calls. For that reason `progress` is the default.

use super::score::{Repeat, Strength};
use super::window::Call;

/// Returns what the current call repeats of each past call, the latest first.
pub fn repeats<'a>(past: &'a [Call], now: &'a Call) -> impl Iterator<Item = Repeat> + 'a {
    let latest = past.iter().rposition(|call| call.answer.text().is_some());
    let answer = latest.and_then(|index| past.get(index)?.answer.text());
    past.iter().enumerate().rev().map(move |(index, call)| {
        let same_tools = now.tools.signature().is_some() && call.tools.signature() == now.tools.signature();
        let texts = call.answer.text().zip(answer).filter(|_| Some(index) != latest);
        Repeat {
            index,
            prompt: Strength::full(call.input.is_similar(now.input)),
            response: Strength::full(texts.is_some_and(|(text, answer)| text.is_similar(answer))),
            tool: Strength::full(same_tools),
        }
    })
}
