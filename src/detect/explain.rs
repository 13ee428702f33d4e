//! Why a call has the score it has, in words for the person who is woken by it.

use super::score::Score;
use crate::wire::Counting;

/// One sentence: what was repeated, how often, within how many calls.
pub fn explain(score: &Score, counting: Counting, tool_names: &str, span: u32) -> String {
    let signals = score.signals;
    let mut parts = Vec::new();
    if signals.repeated_tool_calls > 0 {
        let name = if tool_names.is_empty() { String::new() } else { format!(" {tool_names}") };
        let result = if counting == Counting::Progress { " with the same result" } else { "" };
        parts.push(format!("the same tool call{name}{result} {}", times(signals.repeated_tool_calls + 1)));
    } else if signals.similar_prompts > 0 {
        parts.push(format!("the same input {}", times(signals.similar_prompts + 1)));
    }
    if signals.similar_responses > 0 {
        parts.push(format!("the same answer {}", times(signals.similar_responses + 1)));
    }
    if parts.is_empty() {
        return "nothing is repeated".to_owned();
    }
    format!("{} in the last {span} calls", parts.join(" and "))
}

fn times(count: u32) -> String {
    format!("{count} times")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Signals;

    #[test]
    fn a_kill_says_in_words_what_was_repeated() {
        let score = |similar_prompts, similar_responses, repeated_tool_calls| {
            Score::of(Signals { similar_prompts, similar_responses, repeated_tool_calls })
        };
        assert_eq!(
            explain(&score(4, 0, 4), Counting::Progress, "read_file", 9),
            "the same tool call read_file with the same result 5 times in the last 9 calls"
        );
        assert_eq!(
            explain(&score(5, 4, 0), Counting::Progress, "", 6),
            "the same input 6 times and the same answer 5 times in the last 6 calls"
        );
        assert_eq!(explain(&score(0, 0, 0), Counting::Literal, "", 1), "nothing is repeated");
    }
}
