//! Calls of tools that the policy ignores, or counts from a number of times on.

use super::*;

const RESULT_OVER_MCP: &str =
    r#"{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "The job is still running."}]}}"#;

/// A bench with these rules of tools.
fn bench(tools: &str) -> Bench {
    let bench = Bench::new("");
    bench.policy(|policy| policy.tools = serde_json::from_str(tools).unwrap());
    bench
}

/// Calls a tool over MCP. True if the call was forwarded.
fn call_over_mcp(bench: &Bench, name: &str) -> bool {
    let params = format!(r#"{{"name": "{name}", "arguments": {{}}}}"#);
    let body = format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}"#);
    let (mut stream, flow) = bench.begin(&[(":path", "/mcp")], false);
    if flow == Flow::Hold && bench.host.replies.borrow().is_empty() {
        bench.body(&mut stream, &body);
    }
    if bench.host.replies.borrow_mut().pop().is_some() {
        return false;
    }
    bench.answer(&mut stream, 200, RESULT_OVER_MCP);
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
