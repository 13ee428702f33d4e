//! Calls of tools that the policy ignores, or counts from a number of times on.

use super::*;
use crate::detect::tools::Treatment;
use crate::entries::{Item, Kind};
use crate::wire::EntryReport;

const RESULT_OVER_MCP: &str =
    r#"{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "The job is still running."}]}}"#;

impl Bench {
    /// Returns the calls and answers that the sidecar is told of with the next report, which are all of one agent.
    pub(super) fn items_told(&self) -> Vec<Item> {
        let mut link = crate::link::Link::new(Rc::clone(&self.worker), &self.host);
        link.tick(&self.host);
        let calls = self.host.calls.borrow();
        let report = calls.iter().find(|call| call.path == "/v1/entries").unwrap();
        let report: EntryReport = serde_json::from_slice(&report.body).unwrap();
        assert_eq!(report.agents.len(), 1);
        let bytes = from_base64(&report.agents[0].entries);
        bytes.as_chunks().0.iter().map(|item| Item::decode(item).unwrap()).collect()
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digits: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
    let value = |letter| digits.iter().position(|digit| *digit == letter).unwrap();
    let bits: String = text.trim_end_matches('=').chars().map(|letter| format!("{:06b}", value(letter))).collect();
    bits.as_bytes().as_chunks::<8>().0.iter().map(byte).collect()
}

fn byte(bits: &[u8; 8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(bits).unwrap(), 2).unwrap()
}

/// A bench with these rules of tools.
fn bench(tools: &str) -> Bench {
    let bench = Bench::new("");
    bench.policy(|policy| policy.tools = serde_json::from_str(tools).unwrap());
    bench
}

/// Calls a tool over MCP. True if the call was forwarded.
fn call_over_mcp(bench: &Bench, name: &str) -> bool {
    call_with_result(bench, name, RESULT_OVER_MCP)
}

fn call_with_result(bench: &Bench, name: &str, result: &str) -> bool {
    let params = format!(r#"{{"name": "{name}", "arguments": {{}}}}"#);
    let body = format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}"#);
    let (mut stream, flow) = bench.begin(&[(":path", "/mcp")], false);
    if flow == Flow::Hold && bench.host.replies.borrow().is_empty() {
        bench.body(&mut stream, &body);
    }
    if bench.host.replies.borrow_mut().pop().is_some() {
        return false;
    }
    bench.answer(&mut stream, 200, result);
    true
}

/// Returns a request with the results of calls of these tools.
fn results_of(names: &[&str]) -> String {
    let call = |name: &&str| format!(r#"{{"id": "{name}", "function": {{"name": "{name}", "arguments": "{{}}"}}}}"#);
    let result =
        |name: &&str| format!(r#"{{"role": "tool", "tool_call_id": "{name}", "content": "It is still running."}}"#);
    let calls: Vec<_> = names.iter().map(call).collect();
    let results: Vec<_> = names.iter().map(result).collect();
    format!(
        r#"{{"messages": [{{"role": "user", "content": "Wait for job 7."}},
            {{"role": "assistant", "tool_calls": [{}]}}, {}]}}"#,
        calls.join(","),
        results.join(",")
    )
}

#[test]
fn an_ignored_call_is_forwarded_counted_as_such_and_has_no_score() {
    for name in ["chat", "MCP"] {
        let bench = bench(r#"{"wait": "ignore"}"#);
        let call = || match name {
            "chat" => bench.call(&results_of(&["wait"]), ANSWER),
            _ => call_over_mcp(&bench, "wait"),
        };
        assert!((0..50).all(|_| call()), "{name}");
        assert_eq!((bench.counted(Outcome::Ignored), bench.counted(Outcome::Allowed)), (50, 0), "{name}");
        assert_eq!(bench.host.property(&[SCORE_PROPERTY]), None, "{name}");
        let seen = bench.worker.observations.borrow_mut().take();
        assert_eq!((seen[0].requests, seen[0].scores.len()), (50, 0), "{name}");
        let shared = bench.host.shared.borrow();
        let slots = shared.iter().filter(|(key, _)| key.starts_with("aks/4/w/"));
        let longest = slots.map(|(_, (bytes, _))| bytes.len()).max();
        assert_eq!(longest, (name == "chat").then(|| Window::max_bytes(1)), "{name}: all of them take one place");
    }
}

#[test]
fn a_request_about_several_tools_is_ignored_only_if_all_of_them_are() {
    // Names that are too long for a report are compared as well.
    let long = "x".repeat(90);
    let rules = format!(r#"{{"wait": "ignore", "sleep": "ignore", "{long}": "ignore"}}"#);
    for (names, forwarded) in
        [(vec!["wait", &long, "sleep"], 20), (vec!["wait", &long, "grep"], 3), (vec!["grep"], 3), (vec!["wait"], 20)]
    {
        let bench = bench(&rules);
        let calls = (0..20).take_while(|_| bench.call(&results_of(&names), ANSWER)).count();
        assert_eq!(calls, forwarded, "{names:?}");
    }
}

#[test]
fn a_new_policy_changes_the_rules_and_keeps_the_window() {
    let bench = bench("{}");
    assert!((0..4).all(|_| call_over_mcp(&bench, "status")));
    let tools = serde_json::from_str(r#"{"status": 8}"#).unwrap();
    store_policy(&bench.host, &AgentPolicy { tools, ..policy() }, 1).unwrap();
    let forwarded = (0..20).take_while(|_| call_over_mcp(&bench, "status")).count();
    assert_eq!(forwarded, 3, "the eighth call is refused");
}

#[test]
fn the_sidecar_is_told_how_the_tools_of_a_call_are_counted() {
    let bench = bench(r#"{"wait": "ignore", "status": 12}"#);
    for tool in ["wait", "status", "grep"] {
        bench.call(&results_of(&[tool]), ANSWER);
    }
    let items = bench.items_told();
    let calls = items.iter().filter(|item| item.kind != Kind::Answer);
    let counted: Vec<_> = calls.map(|item| item.call.treatment).collect();
    assert_eq!(counted, [Treatment::Ignored, Treatment::CountedFrom(12), Treatment::Usual]);
    assert_eq!(items.len(), 6, "their answers too");
}

#[test]
fn a_refusal_says_which_tool_call_was_repeated() {
    let bench = Bench::new("");
    let request = results_of(&["lookup"]);
    let forwarded = (0..20).take_while(|_| bench.call(&request, ANSWER)).count();
    bench.begin(&[], false);
    let reply = bench.host.replies.borrow_mut().pop().unwrap();
    let error: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    let repeated = format!("(the same tool call lookup with the same result {} times", forwarded + 1);
    assert!(message.contains(&repeated), "{message}");
}

#[test]
fn an_mcp_call_with_a_new_result_is_news_and_with_an_old_one_is_not() {
    const PAGES: [&str; 8] = [
        "the tide tables of the harbour",
        "a list of ships that came in",
        "weather for fishermen",
        "prices of fresh herring",
        "who mends nets and sails",
        "lost and found at the pier",
        "songs of the sea",
        "how to tie a bowline",
    ];
    let result = |text: &str| {
        format!(r#"{{"jsonrpc": "2.0", "id": 1, "result": {{"content": [{{"type": "text", "text": "{text}"}}]}}}}"#)
    };
    let clicked = result("Clicked the button for the next page.");
    let rounds = |bench: &Bench, page: &dyn Fn(usize) -> String| {
        let round = |number: &usize| {
            call_with_result(bench, "click", &clicked) && call_with_result(bench, "read", &result(&page(*number)))
        };
        (0..40).take_while(round).count()
    };
    let new_page = |number: usize| format!("Page {number}: {}, {}", PAGES[number % 8], PAGES[number / 8]);
    assert_eq!(rounds(&Bench::new(""), &new_page), 40, "new pages");
    assert!(rounds(&Bench::new(""), &|_| PAGES[0].to_owned()) < 7, "the same page again and again");

    let bench = Bench::new("");
    let round = |number: &usize| {
        call_with_result(&bench, "click", &clicked)
            && call_with_result(&bench, &format!("read page {number}"), &result(PAGES[0]))
    };
    assert!((0..40).take_while(round).count() < 40, "the same page, though it is asked for by another number");
}

#[test]
fn a_job_whose_state_is_told_by_structured_content_alone_may_be_polled() {
    const STATES: [&str; 5] = ["queued for a worker", "fetching", "unpacking the archive", "sorting", "writing pages"];
    let result = |state: &str| {
        let content = r#""content": [{"type": "text", "text": "get_job completed."}]"#;
        format!(
            r#"{{"jsonrpc": "2.0", "id": 1, "result": {{{content}, "structuredContent": {{"state": "{state}"}}}}}}"#
        )
    };
    let polls = |state: &dyn Fn(usize) -> String| {
        let bench = Bench::new("");
        (0..15).take_while(|number| call_with_result(&bench, "get_job", &result(&state(*number)))).count()
    };
    assert_eq!(polls(&|number| format!("{}, {}", STATES[number % 5], STATES[number / 5])), 15, "new states");
    assert_eq!(polls(&|_| STATES[0].to_owned()), 5, "the same state");
}

#[test]
fn the_same_mcp_call_with_the_same_empty_result_is_a_loop_and_thirty_different_ones_are_not() {
    for response in [
        r#""result": {"content": []}"#,
        r#""result": {"content": [{"type": "text", "text": ""}]}"#,
        r#""result": {"content": [], "isError": true}"#,
        r#""error": {"code": -32603}"#,
    ] {
        let response = format!(r#"{{"jsonrpc": "2.0", "id": 1, {response}}}"#);
        let bench = Bench::new("");
        let forwarded = (0..20).take_while(|_| call_with_result(&bench, "save", &response)).count();
        assert_eq!(forwarded, 5, "{response}");
    }
    let bench = Bench::new("");
    let saved = r#"{"jsonrpc": "2.0", "id": 1, "result": {"content": []}}"#;
    assert!((0..30).all(|number| call_with_result(&bench, &format!("save page {number}"), saved)));
}
