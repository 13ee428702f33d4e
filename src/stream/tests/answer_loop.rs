//! An answer in which the model repeats itself is reported or cut, as the policy says.

use super::*;
use crate::shared::PAUSE_KEY;
use crate::wire::{AnswerLoop, Repetition};

const LINE: &str = "I will look at the order again and then I will tell you. ";
const FOUND: Repetition = Repetition { period: 13, words: 200 };
const REASON: &str = "the model repeated the same 13 words 15 times in one answer";

fn event(text: &str) -> String {
    format!("data: {}\n\n", serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
}

/// Sends a request, and lets the headers of a streamed answer pass. Returns `None` if the request was refused.
fn begin_events(bench: &Bench, headers: &[(&str, &str)]) -> Option<Stream> {
    let (mut stream, _) = bench.begin(headers, false);
    if bench.host.replies.borrow().is_empty() {
        bench.body(&mut stream, QUESTION);
    }
    if bench.host.replies.borrow_mut().pop().is_some() {
        return None;
    }
    let headers = [(":status", "200"), ("content-type", "text/event-stream"), ("x-envoy-upstream-service-time", "1")];
    *bench.host.response.borrow_mut() =
        headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    stream.response_headers(&bench.host, false);
    Some(stream)
}

fn words(number: usize) -> impl Iterator<Item = &'static str> {
    LINE.split_inclusive(' ').cycle().take(number)
}

/// Lets an answer of so many words stream past, a word in each chunk. Returns how many chunks passed, or `None` if the
/// request was refused.
fn stream_words(bench: &Bench, headers: &[(&str, &str)], number: usize) -> Option<usize> {
    let mut stream = begin_events(bench, headers)?;
    let mut passed = 0;
    for word in words(number) {
        if bench.pass(&mut stream, &event(word), false) == Flow::Hold {
            break;
        }
        passed += 1;
    }
    stream.closed(&bench.host);
    Some(passed)
}

fn observed(bench: &Bench) -> (u64, Option<Repetition>) {
    let observed = bench.worker.observations.borrow_mut().take().remove(0);
    (observed.answer_loops, observed.repetition)
}

#[test]
fn by_default_it_is_reported_once_and_passes_in_full() {
    let bench = Bench::new("");
    assert_eq!(stream_words(&bench, &[], 900), Some(900));
    assert_eq!(observed(&bench), (1, Some(FOUND)));
    assert_eq!((bench.host.metric(Metric::AnswerLoops), bench.host.resets.get()), (1, 0));
    assert!(bench.reports().is_empty());
    assert!(bench.host.lines().contains(&format!("agent a: {REASON}")), "{:?}", bench.host.lines());
    assert_eq!(stream_words(&bench, &[], 199), Some(199));
    assert_eq!(observed(&bench), (0, None), "199 words are not enough");
}

#[test]
fn a_whole_answer_is_reported_too() {
    let bench = Bench::new("");
    let answer = serde_json::json!({"choices": [{"message": {"content": LINE.repeat(20)}}]}).to_string();
    assert!(bench.call(QUESTION, &answer));
    assert_eq!(observed(&bench), (1, Some(FOUND)));
}

#[test]
fn the_last_word_counts_however_the_body_ends() {
    let answer = event(words(200).collect::<String>().trim_end());
    for has_trailers in [false, true] {
        let bench = Bench::new("");
        let mut stream = begin_events(&bench, &[]).unwrap();
        bench.pass(&mut stream, &answer, !has_trailers);
        if has_trailers {
            assert_eq!(bench.host.metric(Metric::AnswerLoops), 0, "the last word may go on");
            stream.response_trailers(&bench.host);
        }
        assert_eq!(observed(&bench), (1, Some(FOUND)), "with trailers: {has_trailers}");
    }
}

#[test]
fn the_arguments_of_a_tool_call_are_part_of_the_answer() {
    let bench = Bench::new("");
    let arguments = serde_json::json!({"text": LINE.repeat(20)}).to_string();
    let call = serde_json::json!({"id": "c", "type": "function", "function": {"name": "note", "arguments": arguments}});
    let answer = serde_json::json!({"choices": [{"message": {"content": null, "tool_calls": [call]}}]}).to_string();
    assert!(bench.call(QUESTION, &answer));
    assert_eq!(observed(&bench).0, 1);
}

#[test]
fn cut_ends_the_stream_and_deactivates_the_agent() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.answer_loop = AnswerLoop::Cut);
    // The 200th word is complete when the next one begins.
    assert_eq!(stream_words(&bench, &[], 900), Some(199));
    assert_eq!(bench.host.resets.get(), 1);
    let [report] = bench.reports().try_into().unwrap();
    assert_eq!((report.reason.as_str(), report.repetition, report.action), (REASON, Some(FOUND), Action::Deactivate));
    assert_eq!(bench.host.metric(Metric::Kills), 1);
    assert!(bench.host.lines().contains(&format!("agent a deactivated: {REASON}")), "{:?}", bench.host.lines());
    assert_eq!(stream_words(&bench, &[], 900), None, "the retry is refused");
    assert_eq!(observed(&bench).0, 0, "the kill is the report");
}

#[test]
fn an_answer_that_cannot_be_reset_passes_and_the_agent_is_deactivated() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.answer_loop = AnswerLoop::Cut);
    bench.host.forbids_resets.set(true);
    assert_eq!(stream_words(&bench, &[], 900), Some(900));
    assert_eq!((bench.reports().len(), bench.host.resets.get()), (1, 1));
    assert_eq!(stream_words(&bench, &[], 900), None, "the retry is refused");
}

#[test]
fn cut_blocks_or_stops_the_conversation_if_the_policy_says_so() {
    let bench = Bench::new("");
    bench.policy(|policy| (policy.answer_loop, policy.action) = (AnswerLoop::Cut, Action::Block));
    assert_eq!(stream_words(&bench, &[], 900), Some(199));
    assert_eq!((bench.host.metric(Metric::Blocks), bench.reports()[0].action), (1, Action::Block));
    assert_eq!(stream_words(&bench, &[], 900), None);
    let seconds = u64::from(policy().retry_after_seconds);
    bench.host.wait(seconds * 1000 + 1);
    assert_eq!(stream_words(&bench, &[], 10), Some(10), "the block is over");

    let bench = Bench::new("");
    bench.policy(|policy| (policy.answer_loop, policy.scope) = (AnswerLoop::Cut, Scope::Session));
    let (looping, other) = ([("x-session-id", "one")], [("x-session-id", "two")]);
    assert_eq!(stream_words(&bench, &looping, 900), Some(199));
    assert_eq!(bench.reports()[0].scope, Scope::Session);
    assert_eq!(stream_words(&bench, &looping, 900), None);
    assert_eq!(stream_words(&bench, &other, 100), Some(100));
}

#[test]
fn nothing_is_cut_if_the_action_is_observe_or_the_fleet_is_paused() {
    let bench = Bench::new("");
    bench.policy(|policy| (policy.answer_loop, policy.action) = (AnswerLoop::Cut, Action::Observe));
    assert_eq!(stream_words(&bench, &[], 900), Some(900));
    assert_eq!((observed(&bench).0, bench.reports().len()), (1, 0));

    bench.policy(|policy| policy.answer_loop = AnswerLoop::Cut);
    bench.host.overwrite(PAUSE_KEY, (bench.host.steady_ms() + 60_000).to_le_bytes().to_vec());
    assert_eq!(stream_words(&bench, &[], 900), Some(900));
    assert_eq!((observed(&bench).0, bench.reports().len(), bench.host.resets.get()), (1, 0, 0));
}

#[test]
fn the_policy_at_the_time_of_the_repetition_counts() {
    let cases = [
        ("switched off", false, AnswerLoop::Cut, 0),
        ("not looked for", true, AnswerLoop::Off, 0),
        ("only observed", true, AnswerLoop::Observe, 1),
    ];
    for (name, enabled, mode, reported) in cases {
        let bench = Bench::new("");
        bench.policy(|policy| policy.answer_loop = AnswerLoop::Cut);
        let mut stream = bench.held(&[]);
        bench.body(&mut stream, QUESTION);
        bench.policy(|policy| (policy.kill_switch_enabled, policy.answer_loop) = (enabled, mode));
        let answer = serde_json::json!({"choices": [{"message": {"content": LINE.repeat(20)}}]}).to_string();
        bench.answer(&mut stream, 200, &answer);
        assert_eq!((observed(&bench).0, bench.host.resets.get()), (reported, 0), "{name}");
    }
}

#[test]
fn an_answer_to_a_call_from_before_an_activation_stops_nothing() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.answer_loop = AnswerLoop::Cut);
    let mut stream = bench.held(&[]);
    bench.body(&mut stream, QUESTION);
    bench.policy(|policy| (policy.answer_loop, policy.generation) = (AnswerLoop::Cut, 1));
    let answer = serde_json::json!({"choices": [{"message": {"content": LINE.repeat(20)}}]}).to_string();
    bench.answer(&mut stream, 200, &answer);
    assert_eq!((bench.reports().len(), bench.host.resets.get()), (0, 0));
    assert_eq!(observed(&bench).0, 1);
}

#[test]
fn off_and_results_of_tools_are_not_looked_at() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.answer_loop = AnswerLoop::Off);
    assert_eq!(stream_words(&bench, &[], 900), Some(900));
    assert_eq!(bench.host.metric(Metric::AnswerLoops), 0);

    bench.policy(|_| {});
    let (mut stream, _) = bench.begin(&[(":path", "/mcp")], false);
    bench
        .body(&mut stream, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"logs","arguments":{}}}"#);
    let result = serde_json::json!({"content": [{"type": "text", "text": LINE.repeat(90)}]});
    bench.answer(&mut stream, 200, &serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string());
    assert_eq!(bench.host.metric(Metric::AnswerLoops), 0);
}
