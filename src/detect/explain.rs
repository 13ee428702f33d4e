//! Explains a score in words, for the person who is woken by it.
//!
//! Occurrences are counted one by one and not taken from the signals, in which two repeats with something new in between
//! count as one. A person who looks at the calls finds what the sentence says: "5 times in the last 9 calls".

use super::findings::CYCLE_CALLS;
use super::score::Score;
use crate::turn::{Answer, ToolTurn};
use crate::wire::{Counting, Match, Signals};

/// The call whose score is explained.
#[derive(Clone, Copy, Debug)]
pub struct ExplainedCall<'a> {
    /// How repeats were counted.
    pub counting: Counting,
    /// The tools that the call is about.
    pub tools: ToolTurn,
    /// The names of the tools, or empty if they are not known.
    pub tool_names: &'a [String],
    /// The latest answer, which repeats earlier ones.
    pub answer: Answer,
    /// Its score, for the findings beside it.
    pub score: Score,
    /// How many calls were compared, the current one included.
    pub calls: usize,
}

/// Returns one sentence that says what was repeated, how often, and within how many calls. `matches` are all past calls
/// that are repeated.
pub fn explain(matches: &[Match], call: ExplainedCall<'_>) -> String {
    if let Some(finding) = finding(call) {
        return finding;
    }
    let Some(earliest) = matches.iter().map(|matched| matched.calls_ago).max() else {
        return "nothing is repeated".to_owned();
    };
    let tools = matches.iter().filter(|matched| matched.same_tool_call).count();
    let prompts = matches.iter().filter_map(|matched| matched.prompt_distance);
    let responses = matches.iter().filter_map(|matched| matched.response_distance);
    let mut parts = Vec::new();
    if tools > 0 {
        parts.push(times(&tool_call(call), tools));
    }
    // With progress counting the repeated tool call is the repeated input. Naming both would look like two findings.
    if tools == 0 || call.counting == Counting::Literal || call.tools == ToolTurn::None {
        parts.extend(alike("input", prompts));
    }
    parts.extend(match call.answer {
        Answer::Rejected(status) => {
            unanswered(&format!("refused as wrong by the upstream (status {status})"), responses.count())
        }
        Answer::Abandoned => unanswered("given up by the client before the answer had ended", responses.count()),
        _ => alike("answer", responses),
    });
    format!("{} in the last {} calls", parts.join(" and "), earliest + 1)
}

/// Describes a finding beside the score, which says more than the score.
fn finding(call: ExplainedCall<'_>) -> Option<String> {
    let Signals { failures_in_a_row, repeated_steps, .. } = call.score.signals;
    if failures_in_a_row > 0 {
        return Some(format!("the same failing result {failures_in_a_row} times in a row, whatever was called"));
    }
    let calls = call.calls.min(CYCLE_CALLS);
    let said = || format!("a cycle: {repeated_steps} of the last {calls} calls repeat an earlier call and its result");
    (repeated_steps > 0).then(said)
}

fn tool_call(call: ExplainedCall<'_>) -> String {
    if call.counting == Counting::Progress && call.tools == ToolTurn::None {
        return "the same action with the same result".to_owned();
    }
    let plural = if call.tool_names.len() > 1 { "s" } else { "" };
    let name = if call.tool_names.is_empty() { String::new() } else { format!(" {}", call.tool_names.join(", ")) };
    let result = match (call.counting, call.tools) {
        (Counting::Literal, _) => String::new(),
        // The result of the current call is not known yet.
        (Counting::Progress, ToolTurn::Call(_)) => " with nothing new in its results".to_owned(),
        (Counting::Progress, _) => format!(" with the same result{plural}"),
    };
    format!("the same tool call{plural}{name}{result}")
}

/// Describes repeated texts. Returns `None` if there are none.
fn alike(what: &str, distances: impl Iterator<Item = u32>) -> Option<String> {
    let (count, furthest) = distances.fold((0, 0), |(count, furthest), distance| (count + 1, distance.max(furthest)));
    let same = if furthest == 0 { "the same" } else { "nearly the same" };
    (count > 0).then(|| times(&format!("{same} {what}"), count))
}

/// Describes requests that got no answer.
fn unanswered(what: &str, repeats: usize) -> Option<String> {
    (repeats > 0).then(|| times(what, repeats))
}

/// Counts the current call and the calls that it repeats.
fn times(what: &str, repeats: usize) -> String {
    format!("{what} {} times", repeats + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::ToolSignature;

    fn repeat(calls_ago: u32, prompt: Option<u32>, response: Option<u32>, same_tool_call: bool) -> Match {
        Match {
            calls_ago,
            age_ms: 0,
            prompt_distance: prompt,
            response_distance: response,
            same_tool_call,
            prompt_hash: String::new(),
        }
    }

    fn names<const N: usize>(names: [&str; N]) -> [String; N] {
        names.map(str::to_owned)
    }

    fn call(counting: Counting, tool_names: &[String]) -> ExplainedCall<'_> {
        ExplainedCall {
            counting,
            tools: ToolTurn::Results(ToolSignature::new(1)),
            tool_names,
            answer: Answer::Unknown,
            score: Score::default(),
            calls: 15,
        }
    }

    #[test]
    fn a_tool_call_is_named_and_its_input_is_not_counted_twice() {
        let matches: Vec<_> = [2, 4, 6, 8].map(|ago| repeat(ago, Some(0), None, true)).into();
        for (tools, repeated) in [
            (&names(["read_file"])[..], "tool call read_file with the same result"),
            (&names(["grep", "read_file"]), "tool calls grep, read_file with the same results"),
            // The request need not name the tools.
            (&[], "tool call with the same result"),
        ] {
            let reason = format!("the same {repeated} 5 times in the last 9 calls");
            assert_eq!(explain(&matches, call(Counting::Progress, tools)), reason);
        }
    }

    #[test]
    fn literal_counting_names_the_input_and_the_tool_call_separately() {
        let mut matches: Vec<_> = (1..=10).map(|ago| repeat(ago, Some(0), None, false)).collect();
        matches[3].same_tool_call = true;
        assert_eq!(
            explain(&matches, call(Counting::Literal, &names(["grep"]))),
            "the same tool call grep 2 times and the same input 11 times in the last 11 calls"
        );
    }

    #[test]
    fn inputs_and_answers_are_counted_separately() {
        let mut matches: Vec<_> = (2..=5).map(|ago| repeat(ago, Some(0), Some(0), false)).collect();
        matches.insert(0, repeat(1, Some(0), None, false));
        let said = |matches: &[Match]| {
            explain(matches, ExplainedCall { tools: ToolTurn::None, ..call(Counting::Progress, &[]) })
        };
        assert_eq!(said(&matches), "the same input 6 times and the same answer 5 times in the last 6 calls");
        matches[4].response_distance = Some(2);
        assert_eq!(said(&matches), "the same input 6 times and nearly the same answer 5 times in the last 6 calls");
        assert_eq!(said(&[]), "nothing is repeated");
    }

    #[test]
    fn requests_that_got_no_answer_are_told_apart() {
        let mut matches: Vec<_> = (2..=5).map(|ago| repeat(ago, Some(0), Some(0), false)).collect();
        matches.insert(0, repeat(1, Some(0), None, false));
        for (answer, said) in [
            (Answer::Rejected(422), "refused as wrong by the upstream (status 422) 5 times"),
            (Answer::Abandoned, "given up by the client before the answer had ended 5 times"),
        ] {
            let call = ExplainedCall { tools: ToolTurn::None, answer, ..call(Counting::Progress, &[]) };
            assert_eq!(explain(&matches, call), format!("the same input 6 times and {said} in the last 6 calls"));
            assert_eq!(
                explain(&matches[..1], call),
                "the same input 2 times in the last 2 calls",
                "it was the first one"
            );
        }
    }

    #[test]
    fn a_call_that_is_its_own_request_has_no_result_yet() {
        let matches: Vec<_> = (1..=5).map(|ago| repeat(ago, Some(0), None, true)).collect();
        let tools = ToolTurn::Call(ToolSignature::new(1));
        assert_eq!(
            explain(&matches, ExplainedCall { tools, ..call(Counting::Progress, &names(["get_weather"])) }),
            "the same tool call get_weather with nothing new in its results 6 times in the last 6 calls"
        );
    }

    #[test]
    fn a_finding_beside_the_score_is_named_as_such() {
        let matches = [repeat(4, Some(0), None, true)];
        let found = |failures_in_a_row, repeated_steps| {
            let signals = Signals { failures_in_a_row, repeated_steps, ..Signals::default() };
            let score = Score { signals, ..Score::default() };
            explain(&matches, ExplainedCall { score, ..call(Counting::Progress, &[]) })
        };
        assert_eq!(found(10, 0), "the same failing result 10 times in a row, whatever was called");
        assert_eq!(found(0, 11), "a cycle: 11 of the last 15 calls repeat an earlier call and its result");
        assert_eq!(found(0, 0), "the same tool call with the same result 2 times in the last 5 calls");
    }

    #[test]
    fn an_action_in_text_is_named_beside_the_input() {
        let mut matches: Vec<_> = (1..=4).map(|ago| repeat(ago, Some(0), None, true)).collect();
        matches[3].same_tool_call = false;
        let call = ExplainedCall { tools: ToolTurn::None, ..call(Counting::Progress, &[]) };
        assert_eq!(
            explain(&matches, call),
            "the same action with the same result 4 times and the same input 5 times in the last 5 calls"
        );
    }
}
