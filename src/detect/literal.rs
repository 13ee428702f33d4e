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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::fingerprint::hash::mix;
    use crate::fingerprint::simhash::SimHash;
    use crate::turn::{Answer, ToolSignature, ToolTurn};

    fn call(input: u64, tool: Option<u64>, answer: Option<u64>) -> Call {
        let text = |number| Fingerprint { simhash: SimHash(mix(number)), ..Fingerprint::default() };
        let tools = tool.map_or(ToolTurn::None, |tool| ToolTurn::Results(ToolSignature::new(tool)));
        let answer = answer.map_or(Answer::Unknown, |answer| Answer::Text(text(answer)));
        Call { input: text(input), tools, answer, ..Call::default() }
    }

    #[test]
    fn inputs_answers_and_tools_are_compared_each_by_itself() {
        let past = [call(1, None, Some(8)), call(2, Some(5), Some(9)), call(1, Some(6), Some(8)), call(1, None, None)];
        let now = call(1, Some(5), None);
        let found: Vec<_> = repeats(&past, &now)
            .map(|repeat| [repeat.prompt, repeat.response, repeat.tool].map(|one| one == Strength::Full))
            .collect();
        // The latest first. The latest answer, which is the third one, does not repeat itself.
        let expected = [[true, false, false], [true, false, false], [false, false, true], [true, true, false]];
        assert_eq!(found, expected);
        let without_tools: Vec<_> = repeats(&past, &call(1, None, None)).map(|repeat| repeat.tool).collect();
        assert_eq!(without_tools, [Strength::None; 4], "calls without tools have no tool in common");
    }
}
