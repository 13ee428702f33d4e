//! The rows that are played through a real Envoy, one function each.
//!
//! A tool that is called `n` times makes `n + 1` calls to the model: the last one carries the last result. Where the
//! table counts tool calls, the verdicts here count calls to the model.

use serde_json::json;

use super::moves::{Move, ToolStep, alternating, cycle, healthy, looping, same_tool_call, working};
use super::{Pace, Scenario, Verdict};
use crate::answer::Answer;
use crate::chat::Input;
use crate::format::Format;
use crate::fresh;
use crate::prose;

type Maker = fn() -> Scenario;

/// Every scenario by its name.
const ROWS: [(&str, Maker); 19] = [
    ("1", different_tools),
    ("2", edit_and_test),
    ("6", file_by_ranges),
    ("10", edits_with_empty_success),
    ("16", retried_after_errors),
    ("17", upstream_always_fails),
    ("20", anthropic_blocks),
    ("P1", same_call_same_error),
    ("P2", results_differ_in_timestamps),
    ("P3/a-b", a_b),
    ("P3/a-b-c", a_b_c),
    ("P4", rephrased),
    ("P6", order_numbers),
    ("P7/openai", || streamed(Format::OpenAiChat)),
    ("P7/anthropic", || streamed(Format::Anthropic)),
    ("P7/ollama", || streamed(Format::OllamaChat)),
    ("P7/gemini", || streamed(Format::Gemini)),
    ("P8", at_once),
    ("P9", again_after_activation),
];

/// The scenario of that name. A row with variants gives its first. Panics on a name that does not exist.
pub fn row(name: &str) -> Scenario {
    let found = variants(name).into_iter().next();
    found.unwrap_or_else(|| panic!("no scenario is named {name}; there are {:?}", ROWS.map(|(name, _)| name)))
}

/// All variants of a row, or the one that is named in full.
pub fn variants(name: &str) -> Vec<Scenario> {
    made(|full| full == name || full.split('/').next() == Some(name))
}

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    made(|_| true)
}

fn made(wanted: impl Fn(&str) -> bool) -> Vec<Scenario> {
    let chosen = ROWS.iter().filter(|(name, _)| wanted(name));
    chosen.map(|(name, make)| Scenario { name: (*name).to_owned(), ..make() }).collect()
}

fn different_tools() -> Scenario {
    openai("one user message, then 30 tool steps with different tools, arguments and results", healthy().take(31))
}

fn edit_and_test() -> Scenario {
    let steps = (1..=15u64).flat_map(|round| {
        let edit = json!({"path": format!("src/{}.rs", SUBJECTS[round as usize % 15]), "new": prose::sentence(round)});
        let failing = prose::paragraph(round + 100, 2);
        let output = format!("running {} tests\nfailures: {failing}\ntest result: FAILED", 40 + round);
        [tool("edit_file", edit, "the file was changed"), tool("run", json!({"command": "cargo test"}), &output)]
    });
    openai("(edit, run tests) x 15: the command is identical, its output differs", with_end(steps))
}

fn file_by_ranges() -> Scenario {
    let steps = (0..20u64).map(|range| {
        let arguments = json!({"path": "docs/handbook.md", "from": range * 40 + 1, "to": range * 40 + 40});
        tool("read_file", arguments, &prose::paragraph(range + 500, 6))
    });
    openai("read_file lines 1-40, 41-80 ... 20 ranges, each with its own text", with_end(steps))
}

fn edits_with_empty_success() -> Scenario {
    let steps = (0..30u64).map(|edit| {
        let arguments =
            json!({"path": format!("src/part_{edit}.rs"), "old": prose::sentence(edit), "new": prose::sentence(!edit)});
        tool("edit_file", arguments, "")
    });
    openai("30 different edits, each returning the same empty success", with_end(steps))
}

fn retried_after_errors() -> Scenario {
    let question = Input::Open("Summarise the incident report of last night for the team.".to_owned());
    let retried = [
        Move::new(question, Answer::error(500, "The server had an error while processing your request.")),
        Move::new(Input::Again, Answer::error(502, "Bad gateway.")),
        Move::new(Input::Again, Answer::error(503, "The engine is currently overloaded, please try again later.")),
        Move::new(Input::Again, Answer::text(prose::paragraph(16, 3))),
    ];
    openai("one request retried 3 times after 5xx, then success", retried)
}

fn upstream_always_fails() -> Scenario {
    let moves = (0..30).map(|seed| {
        let question = Input::Open(format!("Explain why {}.", prose::sentence(seed + 1700)));
        Move::new(question, Answer::error(500, "The server had an error while processing your request."))
    });
    openai("upstream returns 500 to 30 different prompts", moves)
}

fn anthropic_blocks() -> Scenario {
    let mut scenario = Scenario::new(Format::Anthropic, false, healthy().take(30));
    scenario.title = "Anthropic block content, everything different, 30 calls";
    scenario
}

fn same_call_same_error() -> Scenario {
    kill(openai("the same tool call with the same error 7 times", same_tool_call().take(8)), Verdict::KillBy(8))
}

fn results_differ_in_timestamps() -> Scenario {
    let steps = (0..9u64).map(|poll| {
        let (at, job) = (fresh::rfc3339_at(1_760_000_000 + poll * 13, 0), fresh::uuid());
        let result = format!("{at} job {job}: pending, no worker is available in this region");
        tool("get_status", json!({"job": "reindex"}), &result)
    });
    let moves = working("Reindex the archive and tell me when it is done.", steps);
    kill(openai("the same call, results differ only in timestamps and ids, 8 times", moves), Verdict::KillBy(9))
}

fn a_b() -> Scenario {
    kill(openai("A, B, A, B ... same results, 20 calls", alternating().take(21)), Verdict::KillBy(21))
}

fn a_b_c() -> Scenario {
    let steps = cycle(vec![
        tool(
            "search",
            json!({"pattern": "connect_timeout"}),
            "config/defaults.toml: connect_timeout = \"see overrides\"",
        ),
        tool("read_file", json!({"path": "config/overrides.toml"}), "# overrides moved to the deployment repository"),
        tool("run", json!({"command": "make show-config"}), "make: *** no rule to make target 'show-config'. Stop."),
    ]);
    let moves = working("Which connect timeout is in force?", steps).take(22);
    kill(openai("A-B-C x 7", moves), Verdict::KillBy(22))
}

fn rephrased() -> Scenario {
    let moves = REPHRASED.iter().map(|answer| Move::new(Input::User("Continue...".to_owned()), Answer::text(*answer)));
    kill(openai("\"Continue...\" 15 times, answers rephrased", moves), Verdict::KillBy(15))
}

fn order_numbers() -> Scenario {
    let title = "prompts that differ only in order numbers and timestamps, same answer";
    kill(openai(title, looping().take(8)), Verdict::KillAt(6))
}

fn streamed(format: Format) -> Scenario {
    let mut scenario = Scenario::new(format, true, looping().take(8));
    scenario.title = "prompts that differ only in order numbers and timestamps, same answer, streamed";
    kill(scenario, Verdict::KillAt(6))
}

fn at_once() -> Scenario {
    // None is answered before all are under way.
    let answer = Answer { delay_ms: 100, ..Answer::text("I could not determine the shipping status.") };
    let same = Move::new(Input::Open("Check whether order #48213 has been shipped.".to_owned()), answer);
    let mut scenario = openai("40 identical requests at once, on several workers", vec![same; 40]);
    scenario.pace = Pace::AtOnce;
    kill(scenario, Verdict::KillBy(40))
}

fn again_after_activation() -> Scenario {
    let title = "killed, activated, then the same loop again";
    let mut scenario = openai(title, looping().take(8));
    scenario.rounds = 2;
    kill(scenario, Verdict::KillAt(6))
}

fn openai(title: &'static str, moves: impl IntoIterator<Item = Move>) -> Scenario {
    let mut scenario = Scenario::new(Format::OpenAiChat, false, moves);
    scenario.title = title;
    scenario
}

fn kill(mut scenario: Scenario, verdict: Verdict) -> Scenario {
    scenario.verdict = verdict;
    scenario
}

fn tool(name: &str, arguments: serde_json::Value, result: &str) -> ToolStep {
    (name.to_owned(), arguments, result.to_owned())
}

/// Tool steps for one task, and a last call that carries the last result and gets a text.
fn with_end(steps: impl Iterator<Item = ToolStep>) -> impl Iterator<Item = Move> {
    let end = tool("", json!({}), "");
    working("Work through it step by step until it is done.", steps.chain([end])).map(|made| {
        let ended = made.answer.tool_calls.iter().any(|call| call.name.is_empty());
        if ended { Move::new(made.input, Answer::text("Done: everything is as you asked.")) } else { made }
    })
}

const SUBJECTS: [&str; 15] = [
    "parser", "lexer", "router", "cache", "session", "billing", "search", "upload", "export", "mailer", "report",
    "worker", "schema", "tokens", "layout",
];

const REPHRASED: [&str; 15] = [
    "I am continuing to work on the task and will report the result as soon as it is ready.",
    "Continuing to work on the task. I will report the result as soon as it is ready.",
    "I continue working on the task now and will report the result when it is ready.",
    "Still working on the task. The result will be reported as soon as it is ready.",
    "I am still continuing with the task; I will report the result once it is ready.",
    "The task is being continued. As soon as the result is ready I will report it.",
    "Working on the task continues, and I will report as soon as the result is ready.",
    "I keep working on the task and report the result as soon as it is ready.",
    "I will continue to work on the task and report the result the moment it is ready.",
    "Continuing the work on the task: the result will be reported when ready.",
    "I am going on with the task and will report the result as soon as it is there.",
    "The work on the task goes on. I will report the result as soon as it is ready.",
    "As before, I am continuing to work on the task and will report the result when it is ready.",
    "I am continuing the task, and as soon as the result is ready I will report it.",
    "Work continues on the task; the result will be reported as soon as it is ready.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_row_that_is_played_through_envoy_is_here() {
        for name in ["1", "2", "6", "10", "16", "17", "20", "P1", "P2", "P3", "P4", "P6", "P7", "P8", "P9"] {
            assert!(!variants(name).is_empty(), "row {name} is missing");
            assert!(!row(name).title.is_empty(), "row {name} has no title");
        }
        assert_eq!(row("P7/anthropic").format, Format::Anthropic);
        let names: HashSet<String> = all().into_iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), ROWS.len(), "names are unique");
    }

    #[test]
    fn rows_have_as_many_calls_as_the_table_says() {
        let calls = |name: &str| row(name).steps.len();
        assert_eq!([calls("1"), calls("2"), calls("6"), calls("10"), calls("16")], [31, 31, 21, 31, 4]);
        assert_eq!([calls("17"), calls("20"), calls("P4"), calls("P8")], [30, 30, 15, 40]);
    }

    #[test]
    fn ids_of_tool_calls_are_fresh_and_match_their_results() {
        let scenario = row("P1");
        let mut seen = HashSet::new();
        for (step, next) in scenario.steps.iter().zip(&scenario.steps[1..]) {
            let id = &step.answer.tool_calls[0].id;
            assert!(seen.insert(id.clone()), "{id} was used before");
            let messages = next.request.body["messages"].as_array().unwrap();
            assert_eq!(messages.last().unwrap()["tool_call_id"], json!(id));
        }
    }

    #[test]
    fn a_verdict_says_what_was_expected_and_what_happened() {
        assert_eq!(Verdict::Allow.check(None), Ok(()));
        assert_eq!(Verdict::KillBy(8).check(Some(7)), Ok(()));
        let wrong = Verdict::KillAt(6).check(Some(7)).unwrap_err();
        assert_eq!(wrong, "expected KillAt(6), but call 7 was the first to be refused");
        assert!(Verdict::KillBy(8).check(None).unwrap_err().contains("no call was refused"));
        assert!(Verdict::Allow.check(Some(3)).is_err());
    }
}
