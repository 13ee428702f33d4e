//! Two findings that are compared with the threshold on their own, beside the score.
//!
//! The score compares the current call with each past call, so it misses two kinds of loops: an agent that gets the same
//! error whatever it tries, and a cycle in which each step occurs only a few times within the window.

use super::window::Call;
use crate::fingerprint::hash::mix;
use crate::turn::{Answer, ToolSignature, ToolTurn};

/// How many calls a cycle is looked for in, the current one included. A wider window contains more repeats of a check that
/// an agent runs now and then, and these must not add up.
pub const CYCLE_CALLS: usize = 20;

/// Counts how often in a row the current result has come, if it is that of a tool that failed. The calls may differ.
#[inline(never)] // rare, and smaller if it is compiled once
pub fn failures_in_a_row(past: &[Call], now: &Call) -> u32 {
    match now.tools {
        ToolTurn::Call(_) => failing_answers(past),
        _ => failing_inputs(past, now),
    }
}

fn failing_inputs(past: &[Call], now: &Call) -> u32 {
    let mut count = 0;
    let mut next = now;
    if !is_result(now) || !now.input.failing {
        return 0;
    }
    for call in past.iter().rev() {
        // An answer without an action ends the row: the agent has reported to its user.
        let acted = next.action.is_some() || !matches!(call.answer, Answer::Text(_));
        if !acted || !is_result(call) || !call.input.failing || !call.input.is_same(now.input) {
            break;
        }
        count += 1;
        next = call;
    }
    count + 1
}

/// Counts the same failing results at the end of `past`, for calls whose results are their answers (MCP). The result of the
/// current call is not known yet.
fn failing_answers(past: &[Call]) -> u32 {
    let mut count = 0;
    let mut latest = None;
    for call in past.iter().rev() {
        let Answer::Text(result) = call.answer else { break };
        let is_same = latest.is_none_or(|latest| result.is_same(latest));
        if !matches!(call.tools, ToolTurn::Call(_)) || !result.failing || !is_same {
            break;
        }
        count += 1;
        latest = Some(result);
    }
    count
}

/// Whether the input of a call is what came back after an action of the model.
fn is_result(call: &Call) -> bool {
    call.action.is_some() || matches!(call.tools, ToolTurn::Results(_))
}

/// Counts the steps that repeat an earlier one exactly, among the last [`CYCLE_CALLS`].
///
/// Returns 0 if these are not more than half of the calls, or if fewer than two fifths have come since the latest new step.
/// Agents that work run several checks after each new step, and these may always have the same result. If the result of the
/// current call is not known yet (MCP), the steps before it decide.
#[inline(never)] // likewise
pub fn repeated_steps(past: &[Call], now: &Call) -> u32 {
    let recent = past.get(past.len().saturating_sub(CYCLE_CALLS - 1)..).unwrap_or_default();
    let mut before = past.len().checked_sub(CYCLE_CALLS).and_then(|index| past.get(index));
    let mut distinct = Vec::with_capacity(CYCLE_CALLS);
    let (mut count, mut since_new) = (0, 0);
    for call in recent.iter().chain([now]) {
        match step(call, before) {
            Some(step) if distinct.contains(&step) => {
                count += 1;
                since_new += 1;
            }
            Some(step) => {
                distinct.push(step);
                since_new = 0;
            }
            None => {}
        }
        before = Some(call);
    }
    let is_same_call = |call: &Call| call.tools == now.tools && call.input.is_similar(now.input);
    let may_repeat = match now.tools {
        ToolTurn::Call(_) => recent.iter().any(is_same_call),
        ToolTurn::Results(_) | ToolTurn::None => step(now, recent.last()).is_some(),
    };
    let calls = recent.len() + 1;
    if may_repeat && count * 2 > calls && since_new * 5 >= calls * 2 { count as u32 } else { 0 }
}

/// Identifies the step that ends with the input of `call`: what the model did (the tool call, the action in text, or else the
/// answer) and what came back. The step of an MCP call ends with its answer.
fn step(call: &Call, before: Option<&Call>) -> Option<u64> {
    let result = match call.tools {
        ToolTurn::Call(_) => call.answer.text()?,
        ToolTurn::Results(_) | ToolTurn::None => call.input,
    };
    let action = match call.tools.signature().or(call.action) {
        None => u64::from(before?.answer.text()?.digest),
        signature => ToolSignature::code(signature),
    };
    Some(mix(action.rotate_left(17) ^ result.simhash.0) ^ u64::from(result.digest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::fingerprint::simhash::SimHash;

    fn text(number: u32, failing: bool) -> Fingerprint {
        Fingerprint { simhash: SimHash(mix(number.into())), digest: number, informative: true, failing }
    }

    /// A call that brings the result of a tool.
    fn result(tool: u64, input: Fingerprint) -> Call {
        let signature = ToolSignature::new(tool);
        Call {
            input,
            tools: ToolTurn::Results(signature),
            answer: Answer::Tools { text: None, signature },
            ..Call::default()
        }
    }

    fn row(calls: impl IntoIterator<Item = Call>, count: fn(&[Call], &Call) -> u32) -> u32 {
        let calls: Vec<Call> = calls.into_iter().collect();
        let (now, past) = calls.split_last().unwrap();
        count(past, now)
    }

    #[test]
    fn the_same_failing_result_is_counted_whatever_the_call_was() {
        let failing = text(1, true);
        assert_eq!(row((0..10).map(|tool| result(tool, failing)), failures_in_a_row), 10);
        let without_failure = (0..10).map(|tool| result(tool, text(1, false)));
        assert_eq!(row(without_failure, failures_in_a_row), 0, "a success");
        let interrupted = (0..10).map(|tool| result(tool, text(if tool == 6 { 2 } else { 1 }, true)));
        assert_eq!(row(interrupted, failures_in_a_row), 3, "another failure in between");
        let from_user = (0..10).map(|_| Call { input: failing, ..Call::default() });
        assert_eq!(row(from_user, failures_in_a_row), 0, "not a result");
    }

    #[test]
    fn a_report_to_the_user_ends_a_row_of_failures() {
        let reported = |tool| match tool {
            5 => Call { answer: Answer::Text(text(9, false)), ..result(tool, text(1, true)) },
            _ => result(tool, text(1, true)),
        };
        assert_eq!(row((0..10).map(reported), failures_in_a_row), 4);
        let acts_in_text = |tool| Call {
            tools: ToolTurn::None,
            action: Some(ToolSignature::new(tool)),
            answer: Answer::Text(text(9, false)),
            ..result(tool, text(1, true))
        };
        assert_eq!(row((0..10).map(acts_in_text), failures_in_a_row), 10, "each answer is an action");
    }

    #[test]
    fn failing_answers_of_tool_calls_are_counted_up_to_the_latest_that_is_known() {
        let call = |tool, answer| Call { tools: ToolTurn::Call(ToolSignature::new(tool)), answer, ..Call::default() };
        let known = |tool| call(tool, Answer::Text(text(1, true)));
        assert_eq!(row((0..10).map(known).chain([call(10, Answer::Unknown)]), failures_in_a_row), 10);
        let succeeded = call(4, Answer::Text(text(1, false)));
        let mixed = (0..4).map(known).chain([succeeded]).chain((5..8).map(known)).chain([call(9, Answer::Unknown)]);
        assert_eq!(row(mixed, failures_in_a_row), 3);
    }

    #[test]
    fn a_cycle_is_counted_by_the_steps_that_are_not_the_first_of_their_kind() {
        let cycle = |length: u32| move |n: u32| result(u64::from(n % length), text(n % length, false));
        for (length, repeats) in [(1, 19), (4, 16), (7, 13), (9, 11), (10, 0), (20, 0)] {
            assert_eq!(row((0..40).map(cycle(length)), repeated_steps), repeats, "a cycle of {length}");
        }
        assert_eq!(row((0..15).map(cycle(4)), repeated_steps), 11, "before the window is full");
        assert_eq!(row((0..10).map(cycle(4)), repeated_steps), 6, "in a window of ten calls");
        let new_step = row((0..40).map(cycle(4)).chain([result(99, text(99, false))]), repeated_steps);
        assert_eq!(new_step, 0, "something new has happened");
        let checked =
            |n: u32| if n.is_multiple_of(2) { result(1, text(1, false)) } else { result(u64::from(n), text(n, false)) };
        assert_eq!(row((1..41).map(checked), repeated_steps), 0, "a check after every edit");
        for checks in 2..15 {
            let is_edit = |n: u32| n.is_multiple_of(checks + 1);
            let checked = |n: u32| if is_edit(n) { 100 + n } else { n % (checks + 1) };
            let calls = (0..41 * (checks + 1)).map(|n| result(checked(n).into(), text(checked(n), false)));
            let calls: Vec<_> = calls.collect();
            for end in 1..=calls.len() {
                assert_eq!(row(calls[..end].to_vec(), repeated_steps), 0, "{checks} checks after every edit");
            }
        }
        let other_results = (0..40).map(|n| result(u64::from(n % 4), text(n, false)));
        assert_eq!(row(other_results, repeated_steps), 0, "the same calls with new results");
    }

    #[test]
    fn a_cycle_of_calls_whose_results_come_later_is_not_held_against_a_new_call() {
        let call = |tool: u32, answer| Call {
            input: text(tool, false),
            tools: ToolTurn::Call(ToolSignature::new(tool.into())),
            answer,
            ..Call::default()
        };
        let known = |n: u32| call(n % 4, Answer::Text(text(n % 4, false)));
        let repeated = row((0..16).map(known).chain([call(0, Answer::Unknown)]), repeated_steps);
        assert_eq!(repeated, 12, "the current call may be the next of the cycle");
        let new_call = call(9, Answer::Unknown);
        assert_eq!(row((0..16).map(known).chain([new_call]), repeated_steps), 0);
        let other_arguments = Call { input: text(0, false), ..new_call };
        assert_eq!(row((0..16).map(known).chain([other_arguments]), repeated_steps), 0, "a similar input");
        let new_prompt = Call { input: text(99, false), ..Call::default() };
        assert_eq!(row((0..16).map(known).chain([new_call, new_prompt]), repeated_steps), 0);
    }

    #[test]
    fn a_step_without_tools_is_an_answer_and_what_came_back() {
        let said = |n: u32| Call {
            input: text(n % 5, false),
            answer: Answer::Text(text(50 + n % 5, false)),
            ..Call::default()
        };
        assert_eq!(row((0..40).map(said), repeated_steps), 15);
        let reworded = |n: u32| Call { answer: Answer::Text(text(50 + n, false)), ..said(n) };
        assert_eq!(row((0..40).map(reworded), repeated_steps), 0);
        let acted = |n: u32| Call { action: Some(ToolSignature::new(u64::from(n % 5))), ..reworded(n) };
        assert_eq!(row((0..40).map(acted), repeated_steps), 15, "an action in text identifies the step");
    }
}
