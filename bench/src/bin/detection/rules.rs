//! The published rules of other loop detectors, each written anew from its documentation.
//!
//! A rule returns the number of the first call, from 1, that would not have been made any more. Rules that need a model to
//! judge the conversation are left out, as are names of tools that only one agent has.

use std::collections::HashMap;

use crate::chant::chants;
use crate::steps::{Action, Step};

/// A detector of another project.
pub struct Rival {
    pub name: &'static str,
    /// What is applied here, in words.
    pub rule: &'static str,
    /// Where it is documented.
    pub documented: &'static str,
    pub stops_at: fn(&[Step]) -> Option<usize>,
}

pub const RIVALS: [Rival; 9] = [
    Rival {
        name: "OpenHands",
        rule: "since the user last spoke: the same action with the same result 4 times, the same action with an error 3 times, 3 answers without an action or anything in between, or two steps that alternate 6 times in all",
        documented: "OpenHands, software-agent-sdk: guide *Stuck Detector*, and the defaults of `StuckDetectionThresholds`",
        stops_at: open_hands,
    },
    Rival {
        name: "gemini-cli",
        rule: "the same tool call 5 times in a row since the user last spoke, or an answer in which the same 50 characters occur 10 times close together outside of code, tables and lists. Its check by a model after 30 turns is left out",
        documented: "google-gemini/gemini-cli: `LoopDetectionService` and its comments",
        stops_at: gemini_cli,
    },
    Rival {
        name: "opencode",
        rule: "the same tool call 3 times in a row since the user last spoke",
        documented: "opencode: documentation *Permissions*, `doom_loop`",
        stops_at: opencode,
    },
    Rival {
        name: "Roo Code",
        rule: "the same tool call repeated 3 times in a row, which is the fourth one",
        documented: "Roo Code: setting *Error & Repetition Limit* (default 3) and `ToolRepetitionDetector`",
        stops_at: roo_code,
    },
    Rival {
        name: "qwen-code",
        rule: "the guards that are always on. Since the user last spoke: the same tool call 5 times in a row; more than 100 tool calls of which one occurs 6 times; more than 1,000",
        documented: "QwenLM/qwen-code: settings `model.skipLoopDetection` (default true) and `model.maxToolCallsPerTurn`, and `LoopDetectionService`",
        stops_at: qwen_code,
    },
    Rival {
        name: "qwen-code (all rules)",
        rule: "as before, and since the user last spoke: the same tool call 6 times, two tool calls that alternate 3 times, 8 calls of one tool in a row whatever the arguments, or an answer as in gemini-cli. Its rule on reading files is left out",
        documented: "QwenLM/qwen-code: `model.skipLoopDetection` set to false, and `LoopDetectionService`",
        stops_at: qwen_code_all,
    },
    Rival {
        name: "25 calls",
        rule: "the 26th call",
        documented: "the default recursion limit of LangGraph, and similar settings",
        stops_at: |steps| limit(steps, 25),
    },
    Rival {
        name: "50 calls",
        rule: "the 51st call",
        documented: "a common setting of agents",
        stops_at: |steps| limit(steps, 50),
    },
    Rival {
        name: "100 calls",
        rule: "the 101st call",
        documented: "a common setting of agents",
        stops_at: |steps| limit(steps, 100),
    },
];

/// Returns the number of the first call after which `is_stuck` holds, plus one: that call would not be made. `is_stuck` sees
/// the steps since the user last spoke, up to and including the latest.
fn since_user(steps: &[Step], is_stuck: impl Fn(&[Step]) -> bool) -> Option<usize> {
    let mut start = 0;
    for end in 1..=steps.len() {
        if is_stuck(&steps[start..end]) {
            return Some(end + 1);
        }
        if steps[end - 1].user_spoke {
            start = end;
        }
    }
    None
}

/// Returns whether the last `times` steps exist and `same` holds between each of them and the one `period` before it.
fn repeats(steps: &[Step], times: usize, period: usize, same: impl Fn(&Step, &Step) -> bool) -> bool {
    let Some(first) = steps.len().checked_sub(times) else { return false };
    let last = &steps[first..];
    last.iter().all(|step| !step.actions.is_empty()) && last.iter().zip(&last[period..]).all(|(a, b)| same(a, b))
}

fn same_action(a: &Step, b: &Step) -> bool {
    a.actions == b.actions && a.text == b.text
}

fn open_hands(steps: &[Step]) -> Option<usize> {
    since_user(steps, |steps| {
        let same_step = |a: &Step, b: &Step| same_action(a, b) && a.result == b.result && !a.result.is_empty();
        let failing = |a: &Step, b: &Step| same_action(a, b) && a.failed && b.failed;
        let talks = |step: &Step| step.actions.is_empty() && step.unanswered;
        let monologue = match steps {
            [.., a, b, c] => talks(a) && talks(b) && c.actions.is_empty(),
            _ => false,
        };
        repeats(steps, 4, 1, same_step) || repeats(steps, 3, 1, failing) || monologue || repeats(steps, 6, 2, same_step)
    })
}

/// Returns all actions of the steps, in order.
fn actions(steps: &[Step]) -> Vec<&Action> {
    steps.iter().flat_map(|step| &step.actions).collect()
}

/// Returns how many of the last actions are the same.
fn streak(actions: &[&Action], same: fn(&Action, &Action) -> bool) -> usize {
    let Some(last) = actions.last() else { return 0 };
    actions.iter().rev().take_while(|action| same(action, last)).count()
}

/// Returns whether an action of the last step is the same one for the `times`th time in a row.
fn in_a_row(steps: &[Step], times: usize) -> bool {
    let all = actions(steps);
    let new = steps.last().map_or(0, |step| step.actions.len());
    (0..new).any(|later| streak(&all[..all.len() - later], |a, b| a == b) >= times)
}

fn gemini_cli(steps: &[Step]) -> Option<usize> {
    since_user(steps, |steps| in_a_row(steps, 5) || steps.last().is_some_and(|step| chants(&step.text)))
}

fn opencode(steps: &[Step]) -> Option<usize> {
    since_user(steps, |steps| in_a_row(steps, 3))
}

fn roo_code(steps: &[Step]) -> Option<usize> {
    (1..=steps.len()).find(|&end| in_a_row(&steps[..end], 4)).map(|end| end + 1)
}

/// Returns how often the most frequent action occurs.
fn most_frequent(actions: &[&Action]) -> usize {
    let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
    for action in actions {
        *counts.entry((&action.tool, &action.arguments)).or_default() += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

fn too_many(steps: &[Step]) -> bool {
    let actions = actions(steps);
    in_a_row(steps, 5) || actions.len() > 1000 || (actions.len() > 100 && most_frequent(&actions) >= 6)
}

fn qwen_code(steps: &[Step]) -> Option<usize> {
    since_user(steps, too_many)
}

fn qwen_code_all(steps: &[Step]) -> Option<usize> {
    since_user(steps, |steps| {
        let actions = actions(steps);
        let alternates = match &actions[..] {
            [.., a, b, c, d, e, f] => a != b && a == c && c == e && b == d && d == f,
            _ => false,
        };
        let one_tool = actions.last().is_some_and(|action| !action.tool.is_empty())
            && streak(&actions, |a, b| a.tool == b.tool) >= 8;
        let last = steps.last();
        let acted = last.is_some_and(|step| !step.actions.is_empty());
        too_many(steps)
            || acted && (most_frequent(&actions) >= 6 || alternates || one_tool)
            || last.is_some_and(|step| chants(&step.text))
    })
}

fn limit(steps: &[Step], most: usize) -> Option<usize> {
    (steps.len() > most).then_some(most + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps from a text: each word is `tool:arguments=result`. A `!` after the result means that it failed, a `?` that the
    /// user spoke after it, and `-` alone is an answer without an action.
    fn run(text: &str) -> Vec<Step> {
        let step = |word: &str| {
            let (user_spoke, failed) = (word.ends_with('?'), word.ends_with('!'));
            let word = word.trim_end_matches(['?', '!']);
            let Some((call, result)) = word.split_once('=') else {
                return Step { text: "hello".into(), user_spoke, unanswered: !user_spoke, ..Step::default() };
            };
            let (tool, arguments) = call.split_once(':').unwrap();
            let actions = vec![Action { tool: tool.into(), arguments: arguments.into() }];
            Step { actions, result: result.into(), failed, user_spoke, ..Step::default() }
        };
        text.split_whitespace().map(step).collect()
    }

    fn stops(name: &str, text: &str) -> Option<usize> {
        let rival = RIVALS.iter().find(|rival| rival.name == name).unwrap();
        (rival.stops_at)(&run(text))
    }

    #[test]
    fn each_rule_stops_a_run_that_breaks_it_and_not_one_that_just_does_not() {
        let various = (0..120).map(|n| format!("t{}:{n}=x", n % 7)).collect::<Vec<_>>().join(" ");
        let first = |calls: usize| various.split(' ').take(calls).collect::<Vec<_>>().join(" ");
        let stuck = |times: usize| format!("{} {}", first(99), "a:1=x b:2=x c:3=x ".repeat(times));
        for (name, breaks, at, holds) in [
            ("OpenHands", "a:1=x a:1=x a:1=x a:1=x".to_owned(), 5, "a:1=x a:1=x a:1=x a:1=y".to_owned()),
            ("OpenHands", "a:1=x! a:1=y! a:1=z!".into(), 4, "a:1=x! a:1=y! a:1=z".into()),
            ("OpenHands", "- - -".into(), 4, "- -? -".into()),
            ("OpenHands", "a:1=x b:2=y ".repeat(3), 7, "a:1=x b:2=y a:1=x b:2=y a:1=x b:2=z".into()),
            ("gemini-cli", "a:1=x ".repeat(5), 6, "a:1=x a:1=x a:1=x a:1=x a:2=x".into()),
            (
                "gemini-cli",
                "a:1=x? a:1=x a:1=x a:1=x a:1=x a:1=x".into(),
                7,
                "a:1=x a:1=x? a:1=x a:1=x a:1=x a:1=x".into(),
            ),
            ("opencode", "a:1=x ".repeat(3), 4, "a:1=x a:1=x b:1=x a:1=x".into()),
            ("Roo Code", "a:1=x a:1=x? a:1=x a:1=x".into(), 5, "a:1=x ".repeat(3)),
            ("qwen-code", "a:1=x ".repeat(5), 6, "a:1=x b:1=x ".repeat(30)),
            ("qwen-code", stuck(6), 116, stuck(5)),
            ("qwen-code (all rules)", "a:1=x b:1=x c:1=x ".repeat(6), 17, "a:1=x b:1=x c:1=x ".repeat(5)),
            ("qwen-code (all rules)", "a:1=x b:1=x ".repeat(3), 7, "a:1=x b:1=x a:1=x b:1=x a:1=x".into()),
            (
                "qwen-code (all rules)",
                "a:1=x a:2=x a:3=x a:4=x a:5=x a:6=x a:7=x a:8=x".into(),
                9,
                "a:1=x a:2=x a:3=x a:4=x a:5=x a:6=x a:7=x".into(),
            ),
            ("25 calls", first(26), 26, first(25)),
            ("50 calls", first(51), 51, first(50)),
            ("100 calls", first(101), 101, first(100)),
        ] {
            assert_eq!(stops(name, &breaks), Some(at), "{name}: {breaks}");
            assert_eq!(stops(name, &holds), None, "{name}: {holds}");
        }
    }

    #[test]
    fn every_detector_has_a_rule_and_says_where_it_is_documented() {
        for rival in &RIVALS {
            assert!(!rival.rule.is_empty() && !rival.documented.is_empty(), "{}", rival.name);
        }
    }
}
