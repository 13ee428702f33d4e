//! The scenario table, and the calls of each row. The rows that come from live traffic are in `live`, those
//! that come from a large set of recordings in `found`.
//!
//! A tool that is called `n` times makes `n + 1` calls to the model if the last result is sent, too. Verdicts count calls
//! to the model.

use serde_json::{Value, json};

use super::moves::{Move, ToolStep, alternating, healthy, looping, same_tool_call, tool, working};
use super::{SESSION, Scenario, Sent, Step, Verdict, found, live};
use crate::answer::Answer;
use crate::chat::{Input, Request};
use crate::format::Format;
use crate::fresh;
use crate::prose::{paragraph, sentence};

use Verdict::{Allow, KillAt, KillBy};

/// Name, sequence, expected verdict, and the calls.
pub(super) type Row = (&'static str, &'static str, Verdict, fn() -> Scenario);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("1", "one user message, then 30 tool steps with different tools, arguments and results",
        Allow, || chat(healthy().take(31))),
    ("2/output", "(edit, run tests) x 15: the test command is identical, its output differs",
        Allow, || edit_and_test(15, failing_tests)),
    ("2/counts", "the same, but only the number of failures in the output differs",
        Allow, || edit_and_test(20, failure_count)),
    ("3", "poll a status 10 times, the result changes each time", Allow, status_changes),
    ("4", "poll a status 4 times, unchanged", Allow, status_unchanged),
    ("5", "9 empty `continue` commands with different results",
        Allow, || tools(9, |n| tool("continue", json!({}), sentence(n)))),
    ("6", "read_file lines 1-40, 41-80 ... 20 ranges, each with its own text", Allow, file_by_ranges),
    ("7", "grep, move, update imports over 20 files", Allow, modules_moved),
    ("8", "one shell tool called 100 times with new sample ids and new results", Allow, samples_processed),
    ("9/2", "150 calls, every 2nd a verification with the same result", Allow, || verified_every(2)),
    ("9/3", "150 calls, every 3rd a verification with the same result", Allow, || verified_every(3)),
    ("9/4", "150 calls, every 4th a verification with the same result", Allow, || verified_every(4)),
    ("9/5", "150 calls, every 5th a verification with the same result", Allow, || verified_every(5)),
    ("10/empty", "30 different edits, each returning the same empty success", Allow, || edits_with_success("")),
    ("10/ok", "30 different edits, each returning `ok`", Allow, || edits_with_success("ok")),
    ("10/words", "30 different edits, each returning the same sentence",
        Allow, || edits_with_success("The file has been edited successfully. Review the changes.")),
    ("11", "one answer with 100 similar functions in a code block, and one with a long table",
        Allow, repetitive_answers),
    ("12", "the same 3 files read again after a context compaction, 3 times", Allow, compacted),
    ("13", "a tool called once", Allow, || chat(finished([tool("clock", json!({}), "noon")]))),
    ("14/five", "5 identical parallel tool calls in one answer, 3 times", Allow, || parallel_calls(5)),
    ("14/one", "the same with a single call in each answer", Allow, || parallel_calls(1)),
    ("15", "20 sessions of one agent, same template prompt, session header configured, answers differ",
        Allow, sessions),
    ("16", "one request retried 3 times after 5xx, then success", Allow, retried_after_errors),
    ("17", "upstream returns 500 to 30 different prompts", Allow, upstream_always_fails),
    ("18", "declared tools the same in every request, everything else different",
        Allow, || chat((0..30).map(|n| Move::ask(sentence(n), sentence(n + 31))))),
    ("19/text", "a batch agent: 50 tickets with different texts, answers differ", Allow, tickets),
    ("19/template", "a batch agent with a long template, short tickets and one-word labels",
        Allow, tickets_with_long_template),
    ("20", "Anthropic block content, everything different, 30 calls",
        Allow, || Scenario::new(Format::Anthropic, false, healthy().take(30))),
    ("P1", "the same tool call with the same error 7 times", KillAt(7), || chat(same_tool_call().take(8))),
    ("P2", "the same call, results differ only in timestamps and ids, 8 times",
        KillAt(7), results_differ_in_timestamps),
    ("P3/a-b", "A, B, A, B ... same results, 20 calls", KillBy(20), || chat(alternating().take(20))),
    ("P3/a-b-c", "A-B-C x 7, same results", KillBy(21), a_b_c),
    ("P4/rephrased", "\"Continue...\" 15 times, answers rephrased",
        KillBy(15), || again_and_again("Continue...", |n| REPHRASED.lines().nth(n as usize).unwrap_or_default().to_owned())),
    ("P4/unrelated", "\"Continue...\" 15 times, answers that have nothing in common",
        KillAt(12), || again_and_again("Continue...", sentence)),
    ("P4/longer", "the same with a longer prompt",
        KillAt(12), || again_and_again("Continue. Please keep solving the problem until you need to query.", sentence)),
    ("P5/400", "the same prompt is refused as wrong again and again", KillAt(6), || refused_as_wrong(400)),
    ("P5/404", "the same, not found", KillAt(6), || refused_as_wrong(404)),
    ("P5/422", "the same, not valid", KillAt(6), || refused_as_wrong(422)),
    ("P6/orders", "prompts that differ only in order numbers and timestamps, same answer",
        KillAt(6), || chat(looping().take(8))),
    ("P6/attempts", "prompts that differ only in attempts, order numbers and dates, same answer", KillAt(6), attempts),
    ("P7/openai", "prompts that differ only in order numbers, same answer, streamed by OpenAI",
        KillAt(6), || streamed(Format::OpenAiChat)),
    ("P7/anthropic", "the same, streamed by Anthropic", KillAt(6), || streamed(Format::Anthropic)),
    ("P7/ollama", "the same, streamed by Ollama", KillAt(6), || streamed(Format::OllamaChat)),
    ("P7/gemini", "the same, streamed by Gemini", KillAt(6), || streamed(Format::Gemini)),
    ("P8", "40 identical requests at once, on several workers, counting `literal`",
        KillBy(40), || Scenario { settings: json!({"counting": "literal"}), ..at_once(40) }),
    ("P9", "killed, activated, then the same loop again",
        KillAt(6), || Scenario { rounds: 2, ..chat(looping().take(8)) }),
    ("P10", "MCP `tools/call` same name, arguments and result 8 times",
        KillAt(6), || mcp(8, json!({"city": "Berlin"}), |_| "Service unavailable, please try again.".to_owned())),
    ("mcp-pages", "MCP `tools/call` same name and arguments 30 times, a new result each time",
        Allow, || mcp(30, json!({}), sentence)),
    ("acts-in-text", "commands in the answer's text and results in user messages, most of them silent",
        Allow, acts_in_text),
];

/// Returns the scenario of that name. Of a row with variants it returns the first. Panics if there is none.
pub fn row(name: &str) -> Scenario {
    variants(name).next().unwrap_or_else(|| panic!("no scenario is named {name}; there are {:?}", names()))
}

/// Returns all variants of a row, or the one that is named in full. Each is made when it is asked for.
pub fn variants(name: &str) -> impl Iterator<Item = Scenario> {
    all_if(move |full| full == name || full.split('/').next() == Some(name))
}

/// Returns every scenario. Each is made when it is asked for.
pub fn all() -> impl Iterator<Item = Scenario> {
    all_if(|_| true)
}

/// Returns the names of all scenarios.
pub fn names() -> Vec<&'static str> {
    table().map(|(name, ..)| *name).collect()
}

fn all_if(wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = Scenario> {
    let chosen = table().filter(move |(name, ..)| wanted(name));
    chosen.map(|&(name, title, verdict, make)| Scenario { name, title, verdict, ..make() })
}

fn table() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(live::ROWS).chain(found::ROWS)
}

pub(super) fn chat(moves: impl IntoIterator<Item = Move>) -> Scenario {
    Scenario::new(Format::OpenAiChat, false, moves)
}

/// One task and this many tool calls.
pub(super) fn tools(calls: u64, step: impl Fn(u64) -> ToolStep) -> Scenario {
    chat(working("Work through it step by step until it is done.", (0..calls).map(step)))
}

/// Tool steps for one task, and a last call that carries the last result and gets a text.
pub(super) fn finished(steps: impl IntoIterator<Item = ToolStep>) -> Vec<Move> {
    let end = tool("", json!({}), "");
    let mut moves: Vec<Move> = working("Do it and tell me the result.", steps.into_iter().chain([end])).collect();
    if let Some(last) = moves.last_mut() {
        last.answer = Answer::text("Done: everything is as you asked.");
    }
    moves
}

fn edit_and_test(rounds: u64, output: fn(u64) -> String) -> Scenario {
    let steps = (1..=rounds).flat_map(|round| {
        let edit = json!({"path": format!("src/{}.rs", MODULES[round as usize % 15]), "new": sentence(round)});
        let test = json!({"command": "cargo test"});
        [tool("edit_file", edit, "the file was changed"), tool("run", test, output(round))]
    });
    chat(finished(steps))
}

fn failing_tests(round: u64) -> String {
    let failing = paragraph(round + 100, 2);
    format!("running {} tests\nfailures: {failing}\ntest result: FAILED", 40 + round)
}

fn failure_count(round: u64) -> String {
    format!("test result: FAILED. {} passed; {} failed; finished in 0.{round}s", 100 + round, 60 - round)
}

fn status_changes() -> Scenario {
    tools(10, |n| tool("status", json!({}), json!({"state": "running", "percent": n * 10}).to_string()))
}

fn status_unchanged() -> Scenario {
    let polls = (0..4).map(|_| tool("status", json!({}), "pending"));
    chat(finished(polls.chain([tool("report", json!({}), "done")])))
}

fn file_by_ranges() -> Scenario {
    chat(finished((0..20).map(|range| {
        let arguments = json!({"path": "docs/handbook.md", "from": range * 40 + 1, "to": range * 40 + 40});
        tool("read_file", arguments, paragraph(range + 500, 6))
    })))
}

fn modules_moved() -> Scenario {
    tools(60, |n| {
        let file =
            format!("module_{}.rs", ["auth", "cart", "feed", "mail"][n as usize / 3 % 4].repeat(1 + n as usize / 12));
        match n % 3 {
            0 => tool("grep", json!({"pattern": file}), sentence(n)),
            1 => tool("move", json!({"from": file}), ""),
            _ => tool("update_imports", json!({"of": file}), "updated"),
        }
    })
}

fn samples_processed() -> Scenario {
    tools(100, |n| tool("shell", json!({"cmd": format!("process --sample {n}")}), format!("{} quality", sentence(n))))
}

fn verified_every(calls: u64) -> Scenario {
    tools(150, |n| match n % calls {
        0 => tool("run", json!({"command": "make check"}), "all checks passed, no warnings"),
        _ => tool("edit", json!({"n": n, "new": sentence(n)}), sentence(n + 777)),
    })
}

fn edits_with_success(success: &str) -> Scenario {
    chat(finished((0..30).map(|edit| {
        let arguments = json!({"path": format!("src/part_{edit}.rs"), "old": sentence(edit), "new": sentence(!edit)});
        tool("edit_file", arguments, success)
    })))
}

fn repetitive_answers() -> Scenario {
    let functions: String = (0..100).map(|n| format!("fn get_{n}(&self) -> u32 {{ self.field_{n} }}\n")).collect();
    let table: String = (0..200).map(|n| format!("| item {n} | {} | ok |\n", n * 7)).collect();
    chat([Move::ask("Write the getters.", functions), Move::ask("Now the table.", table)])
}

fn compacted() -> Scenario {
    chat((0..3).flat_map(|round| {
        let reads = ["a.rs", "b.rs", "c.rs"]
            .map(|file| tool("read_file", json!({"path": file}), format!("contents of {file}")));
        let edits =
            (0..3).map(|n| round * 3 + n).map(|n| tool("edit_file", json!({"new": sentence(n)}), sentence(n + 50)));
        let mut moves = finished(reads.into_iter().chain(edits));
        // A compacted conversation starts anew with a summary.
        moves[0].input = Input::Open(format!("Summary so far: {}", paragraph(round, 2)));
        moves
    }))
}

fn parallel_calls(calls: usize) -> Scenario {
    let mut moves = finished(vec![tool("search", json!({"q": "rust"}), ""); 3]);
    for step in &mut moves {
        step.answer.tool_calls = vec![step.answer.tool_calls.clone(); calls].concat();
        if let Input::Results(results) = &mut step.input {
            *results = vec!["nothing found".to_owned(); calls];
        }
    }
    chat(moves)
}

fn sessions() -> Scenario {
    let template = "Greet the customer and ask for the order number.";
    let scenario = chat((0..20).flat_map(|session| {
        [Move::ask(template, sentence(session)), Move::ask(sentence(session + 40), sentence(session + 80))]
    }));
    scenario.with_steps(|number, step| {
        step.request = step.request.clone().with(SESSION, &format!("session-{}", number / 2));
    })
}

fn retried_after_errors() -> Scenario {
    let question = Input::Open("Summarise the incident report of last night for the team.".to_owned());
    chat([
        Move::new(question, Answer::error(500, "The server had an error while processing your request.")),
        Move::new(Input::Again, Answer::error(502, "Bad gateway.")),
        Move::new(Input::Again, Answer::error(503, "The engine is currently overloaded, please try again later.")),
        Move::new(Input::Again, Answer::text(paragraph(16, 3))),
    ])
}

fn upstream_always_fails() -> Scenario {
    chat((0..30).map(|seed| {
        let question = Input::Open(format!("Explain why {}.", sentence(seed + 1700)));
        Move::new(question, Answer::error(500, "The server had an error while processing your request."))
    }))
}

fn tickets() -> Scenario {
    chat((0..50).map(|n| {
        let label = ["billing: refund wanted", "login: password lost", "shipping: parcel late"][n as usize % 3];
        let answer = format!("{label}, {}", sentence(n + 900));
        Move::ask(format!("classify ticket {}: {}", 100 + n, sentence(n)), answer)
    }))
}

fn tickets_with_long_template() -> Scenario {
    let template = paragraph(19, 60);
    chat((0..60).map(move |n| {
        let subject = ["refund", "password", "parcel", "invoice", "login", "delivery", "crash"][n % 7];
        let ticket = format!("Ticket {n}: my {subject} {}", ["is late", "is wrong", "fails"][n % 3]);
        Move::ask(format!("{template}\n{ticket}"), ["billing", "account", "shipping"][n % 3])
    }))
}

fn results_differ_in_timestamps() -> Scenario {
    tools(9, |poll| {
        let (at, job) = (fresh::rfc3339_at(1_760_000_000 + poll * 13), fresh::uuid());
        let result = format!("{at} job {job}: pending, no worker is available in this region");
        tool("get_status", json!({"job": "reindex"}), result)
    })
}

fn a_b_c() -> Scenario {
    let steps = [
        tool("search", json!({"pattern": "timeout"}), "config/defaults.toml: connect_timeout = \"see overrides\""),
        tool("read_file", json!({"path": "config/overrides.toml"}), "# overrides moved to the deployment repository"),
        tool("run", json!({"command": "make show-config"}), "make: *** no rule to make target 'show-config'. Stop."),
    ];
    tools(21, |n| steps[n as usize % 3].clone())
}

fn again_and_again(prompt: &str, answer: fn(u64) -> String) -> Scenario {
    chat((0..15).map(|n| Move::new(Input::User(prompt.to_owned()), Answer::text(answer(n)))))
}

fn refused_as_wrong(status: u16) -> Scenario {
    let error =
        Answer::error(status, "The request cannot be processed: `messages[1].name` has a value that is not allowed.");
    chat(tried("Summarise the meeting notes.", vec![error; 8]))
}

/// The same request once for each answer. The answers before the last must be errors.
pub(super) fn tried(question: &str, answers: Vec<Answer>) -> impl Iterator<Item = Move> {
    let inputs = [Input::Open(question.to_owned())].into_iter().chain(std::iter::repeat(Input::Again));
    inputs.zip(answers).map(|(input, answer)| Move::new(input, answer))
}

fn attempts() -> Scenario {
    chat((0..8).map(|n| {
        let question = format!("Attempt {n}: where is order {}? It is 2024-01-{:02}.", 1000 + n, n + 1);
        Move::ask(question, "I am sorry, I cannot find that order in the system.")
    }))
}

fn streamed(format: Format) -> Scenario {
    Scenario::new(format, true, looping().take(8))
}

/// The same question and the same answer, in requests that are all under way at the same time.
pub(super) fn at_once(calls: usize) -> Scenario {
    let same = Move::ask("Check whether order #48213 has been shipped.", "I could not determine the shipping status.");
    chat(vec![same; calls]).with_steps(|_, step| step.sent = Sent::AtOnce)
}

pub(super) fn mcp(calls: u64, arguments: Value, result: fn(u64) -> String) -> Scenario {
    let step = |id: u64| {
        let params = json!({"name": "get_weather", "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        Step::new(Request::new(Format::Mcp, "/mcp", body), Answer::text(result(id)))
    };
    Scenario::of(Format::Mcp, (0..calls).map(step).collect())
}

fn acts_in_text() -> Scenario {
    chat((0..40).map(|n| {
        let input = match n % 4 {
            _ if n == 0 => "Fix it.".to_owned(),
            0 => sentence(n),
            _ => "<returncode>0</returncode><output></output>".to_owned(),
        };
        Move::new(Input::User(input), Answer::text(format!("```sed -i {}```", sentence(n + 200))))
    }))
}

#[rustfmt::skip]
const MODULES: [&str; 15] = [
    "parser", "lexer", "router", "cache", "session", "billing", "search", "upload", "export", "mailer", "report",
    "worker", "schema", "tokens", "layout",
];

/// Answers that say the same in other words.
const REPHRASED: &str = include_str!("../../corpus/rephrased.txt");

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_rows_have_as_many_calls_as_the_table_says() {
        assert_eq!(names().iter().collect::<HashSet<_>>().len(), table().count());
        let expected = [("1", 31), ("2", 31), ("6", 21), ("10", 31), ("15", 40), ("16", 4), ("17", 30), ("20", 30)];
        let live = [("22", 15), ("24", 30), ("25", 41), ("27", 200), ("28", 200), ("29", 256), ("30", 100), ("32", 12)];
        for (name, calls) in expected.into_iter().chain(live).chain([("P4", 15), ("P8", 40)]) {
            assert_eq!(row(name).steps.len(), calls, "row {name}");
        }
        assert_eq!(row("P7/anthropic").format, Format::Anthropic);
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
        assert_eq!(Allow.check(None), Ok(()));
        assert_eq!(KillBy(8).check(Some(7)), Ok(()));
        let wrong = KillAt(6).check(Some(7)).unwrap_err();
        assert_eq!(wrong, "expected KillAt(6), but call 7 was the first to be refused");
        assert!(KillBy(8).check(None).unwrap_err().contains("no call was refused"));
        assert!(Allow.check(Some(3)).is_err());
    }
}
