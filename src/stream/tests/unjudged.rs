//! Requests that cannot be judged, with `on_unjudged: deny`, requests that look so and can, and requests that are no calls.

use super::*;
use serde_json::{Value as Json, json};

const DENY: &str = r#", "max_request_bytes": 2000, "on_unjudged": "deny""#;

/// Returns status and JSON body of the only refusal.
fn refusal(bench: &Bench) -> (u16, Json) {
    let reply = bench.host.replies.borrow_mut().pop().unwrap();
    assert!(bench.host.replies.borrow().is_empty());
    (reply.status, serde_json::from_slice(&reply.body).unwrap())
}

#[test]
fn what_the_headers_tell_to_be_unreadable_is_refused() {
    let bench = Bench::new(DENY);
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a str);
    let cases: [Case<'_>; 5] = [
        (&[("content-type", "application/grpc")], "gRPC"),
        (&[("upgrade", "h2c")], "upgrade"),
        (&[("content-encoding", "gzip")], "content-encoding"),
        (&[("content-encoding", "identity"), ("content-encoding", "br")], "content-encoding"),
        (&[("content-length", "200000")], "longer"),
    ];
    for (headers, because) in cases {
        let (_, flow) = bench.begin(headers, false);
        assert_eq!(flow, Flow::Hold, "{headers:?}");
        let (status, body) = refusal(&bench);
        assert_eq!((status, &body["error"]["code"]), (403, &Json::from("call_not_judged")), "{headers:?}");
        assert_eq!(body["error"]["type"], "permission_error");
        let message = body["error"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("Agent a sent a call that cannot be checked") && message.contains(because),
            "{message}"
        );
    }
    assert_eq!(bench.counted(Outcome::RefusedUnjudged), 5);
}

#[test]
fn grpc_is_refused_wherever_a_call_may_be_sent() {
    let grpc = ("content-type", "application/grpc");
    let judge_unknown = format!(r#"{DENY}, "judge_unknown": true"#);
    for (config, path) in [(DENY, "/v1/chat/completion%73"), (judge_unknown.as_str(), "/in-house")] {
        let bench = Bench::new(config);
        assert_eq!(bench.begin(&[(":path", path), grpc], false).1, Flow::Hold, "{path}");
        assert_eq!(refusal(&bench).0, 403, "{path}");
    }
}

#[test]
fn what_the_body_tells_to_be_unreadable_is_refused() {
    let bench = Bench::new(DENY);
    for body in ["{\"messages\": [", "\u{1f}\u{8b} not JSON at all"] {
        let (mut stream, _) = bench.begin(&[], false);
        assert_eq!(bench.body(&mut stream, body), Flow::Hold);
        let (status, body) = refusal(&bench);
        assert_eq!((status, &body["error"]["code"]), (403, &Json::from("call_not_judged")));
    }
    let mut stream = bench.held(&[(":path", "/v1/messages")]);
    assert_eq!(stream.request_body(&bench.host, 2001, false), Flow::Hold);
    let (status, body) = refusal(&bench);
    assert_eq!((status, &body["type"], &body["error"]["type"]), (403, &"error".into(), &"permission_error".into()));
    assert_eq!(bench.counted(Outcome::RefusedUnjudged), 3);
}

#[test]
fn a_short_body_is_waited_for_so_that_the_connection_stays_open() {
    let bench = Bench::new(DENY);
    let (mut stream, flow) = bench.begin(&[("content-encoding", "gzip"), ("content-length", "20")], false);
    assert_eq!((flow, bench.host.replies.borrow().len()), (Flow::Hold, 0));
    assert_eq!(bench.body(&mut stream, "twenty unclear bytes"), Flow::Hold);
    assert_eq!(refusal(&bench).0, 403);
}

#[test]
fn what_is_not_a_call_is_forwarded() {
    let bench = Bench::new(DENY);
    for (headers, ended) in [
        (&[(":path", "/v1/embeddings"), ("content-encoding", "gzip")][..], false),
        (&[(":path", "/chat.Service/Talk"), ("content-type", "application/grpc")], false),
        (&[(":path", "/v1/realtime"), (":method", "GET"), ("upgrade", "websocket")], false),
        (&[("content-type", "application/grpc")], true),
    ] {
        assert_eq!(bench.begin(headers, ended).1, Flow::Continue, "{headers:?}");
    }
    assert!(bench.call("{\"input_file_id\": \"f1\"}", ANSWER));
    assert!(bench.host.replies.borrow().is_empty());
}

#[test]
fn what_is_not_a_call_is_compared_if_the_operator_says_so() {
    for (judge_unknown, forwarded) in [("false", 20), ("true", 5)] {
        let bench = Bench::new(&format!(r#", "judge_unknown": {judge_unknown}"#));
        let order = |_: &i32| {
            let (mut stream, _) = bench.begin(&[(":path", "/orders")], false);
            bench.body(&mut stream, r#"{"article": "a lamp with a green shade", "count": 2}"#);
            bench.answer(&mut stream, 200, r#"{"error": "there are no such lamps any more"}"#);
            bench.host.replies.borrow_mut().pop().is_none()
        };
        assert_eq!((0..20).take_while(order).count(), forwarded, "judge_unknown: {judge_unknown}");
        let not_a_call = if forwarded == 20 { 20 } else { 0 };
        assert_eq!(bench.counted(Outcome::NotACall), not_a_call);
    }
}

#[test]
fn an_inactive_agent_gets_the_errors_of_its_provider_where_nothing_is_asked_of_a_model() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.active = false);
    // Where the message is, and a member that no other format has.
    for (path, message, own) in [
        ("/v1/embeddings", "/error/message", "/error/param"),
        ("/v1/files", "/error/message", "/error/param"),
        ("/v1/vector_stores/v1/search", "/error/message", "/error/param"),
        ("/v1/messages/batches", "/error/message", "/type"),
        ("/v1beta/models/m:countTokens", "/error/message", "/error/status"),
        ("/api/embed", "/error", "/error"),
        ("/v2/embed", "/message", "/message"),
        ("/orders", "/detail", "/title"),
    ] {
        let (mut stream, _) = bench.begin(&[(":path", path), ("content-length", "2")], false);
        bench.body(&mut stream, "{}");
        let (status, body) = refusal(&bench);
        let message = body.pointer(message).and_then(Json::as_str).unwrap_or_default();
        assert!(status == 403 && message.starts_with("Agent a is inactive"), "{path}: {status} {body}");
        assert!(body.pointer(own).is_some(), "{path}: {body}");
    }
}

#[test]
fn agents_that_cannot_be_stopped_are_not_refused_either() {
    let bench = Bench::new(DENY);
    for (enabled, action) in [(false, Action::Deactivate), (true, Action::Observe)] {
        bench.policy(|policy| (policy.kill_switch_enabled, policy.action) = (enabled, action));
        assert_eq!(bench.begin(&[("content-encoding", "gzip")], false).1, Flow::Continue);
    }
    assert!(bench.host.replies.borrow().is_empty());
}

#[test]
fn a_body_whose_encoding_is_identity_is_judged_however_that_is_written() {
    let bench = Bench::new("");
    for encoding in ["identity", "Identity", " IDENTITY "] {
        let (mut stream, flow) = bench.begin(&[("content-encoding", encoding)], false);
        assert_eq!(flow, Flow::Hold, "{encoding:?}");
        bench.body(&mut stream, QUESTION);
    }
    assert_eq!(bench.counted(Outcome::Allowed), 3);
}

#[test]
fn two_different_ids_are_a_malformed_one_and_the_same_id_twice_is_not() {
    let bench = Bench::new(r#", "require_agent": true"#);
    let (_, flow) = bench.begin(&[("x-agent-id", "a"), ("x-agent-id", "b")], false);
    assert_eq!((flow, bench.counted(Outcome::RefusedAgentId)), (Flow::Hold, 1));
    let (status, body) = refusal(&bench);
    assert_eq!((status, &body["error"]["code"]), (400, &Json::from("bad_agent_id")));
    assert!(
        body["error"]["message"].as_str().unwrap().starts_with("\"two different values\" is not an agent id"),
        "{body}"
    );
    assert_eq!(bench.begin(&[("x-agent-id", "a"), ("x-agent-id", "a")], false).1, Flow::Hold);
    assert!(bench.host.replies.borrow().is_empty());

    let by_key = Bench::new(r#", "require_agent": true, "agent_id": [{"api_key": "authorization"}]"#);
    by_key.begin(&[("authorization", "Bearer one"), ("authorization", "Bearer two")], false);
    let (status, body) = refusal(&by_key);
    assert_eq!((status, &body["error"]["code"]), (400, &Json::from("bad_agent_id")));
    assert!(!body.to_string().contains("Bearer"), "keys are not repeated: {body}");
}

#[test]
fn every_request_of_a_json_rpc_array_gets_its_refusal() {
    let call = |id: &str| format!(r#"{{"jsonrpc": "2.0", {id}"method": "tools/call", "params": {{"name": "f"}}}}"#);
    let notification = r#"{"jsonrpc": "2.0", "method": "notifications/progress"}"#;
    for (body, ids) in [
        (format!("[{notification}, {}]", call(r#""id": 5, "#)), json!([5])),
        (format!("[{}, {}]", call(r#""id": 1, "#), call(r#""id": "two", "#)), json!([1, "two"])),
        // The reply stays short, however many requests there are.
        (format!("[{}]", vec![call(r#""id": 1, "#); 500].join(",")), vec![1; 100].into()),
    ] {
        let bench = Bench::new("");
        bench.policy(|policy| policy.active = false);
        let (mut stream, _) = bench.begin(&[(":path", "/mcp")], false);
        bench.body(&mut stream, &body);
        let (status, replies) = refusal(&bench);
        let answered: Vec<_> = replies.as_array().unwrap().iter().map(|reply| reply["id"].clone()).collect();
        assert_eq!((status, Json::from(answered)), (200, ids), "{replies}");
        assert!(replies[0]["error"]["message"].as_str().unwrap().contains("inactive"), "{replies}");
    }
}

#[test]
fn clients_of_bedrock_get_its_errors_whatever_the_body_looks_like() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.active = false);
    let (mut stream, _) = bench.begin(&[(":path", "/model/anthropic.claude/invoke")], false);
    bench.body(
        &mut stream,
        r#"{"anthropic_version": "bedrock-2023-05-31", "messages": [{"role": "user", "content": "hi"}]}"#,
    );
    let reply = bench.host.replies.borrow_mut().pop().unwrap();
    let error = reply.headers.iter().find(|(name, _)| *name == "x-amzn-errortype").map(|(_, value)| value.as_str());
    assert_eq!((reply.status, error), (403, Some("AccessDeniedException")));
}
