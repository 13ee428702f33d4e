//! How refusals are worded, depending on path, body and configuration.

use super::*;

/// Returns what a client of a deactivated agent gets: the status, the content type and the body.
fn refused(config: &str, path: &str, body: &str) -> (u16, String, String) {
    let bench = Bench::new(config);
    bench.change(|record| record.killed());
    let (mut stream, _) = bench.begin(&[(":path", path)], false);
    if bench.host.replies.borrow().is_empty() {
        assert_eq!(bench.body(&mut stream, body), Flow::Hold, "{path}");
    }
    let reply = bench.host.replies.borrow_mut().pop().expect("a reply");
    assert!(bench.host.replies.borrow().is_empty(), "{path}: one reply");
    let content_type = reply.headers.iter().find(|(name, _)| *name == "content-type").expect("a content type");
    (reply.status, content_type.1.clone(), String::from_utf8_lossy(&reply.body).into_owned())
}

const HOLDS: [&str; 2] = ["", r#", "hold": "body""#];

#[test]
fn an_mcp_client_gets_an_error_with_its_id_however_requests_are_held() {
    let call = r#"{"jsonrpc": "2.0", "id": 42, "method": "tools/call", "params": {"name": "lookup"}}"#;
    for hold in HOLDS {
        let (status, _, body) = refused(hold, "/mcp", call);
        assert_eq!(status, 200, "{hold}");
        assert!(body.starts_with(r#"{"jsonrpc": "2.0", "id": 42, "error": "#), "{hold}: {body}");
    }
}

#[test]
fn a_completion_is_streamed_if_the_body_asks_for_a_stream_however_requests_are_held() {
    let call = r#"{"stream": true, "messages": [{"role": "user", "content": "Hello"}]}"#;
    for hold in HOLDS {
        let config = format!(r#", "inactive_reply": "completion"{hold}"#);
        let (status, content_type, body) = refused(&config, "/v1/chat/completions", call);
        assert_eq!((status, content_type.as_str()), (200, "text/event-stream"), "{hold}");
        assert!(body.ends_with("data: [DONE]\n\n"), "{hold}: {body}");
    }
}

#[test]
fn with_hold_body_a_refusal_that_needs_no_body_reaches_no_upstream() {
    let bench = Bench::new(HOLDS[1]);
    bench.change(|record| record.killed());
    let (_, flow) = bench.begin(&[("content-length", "70")], false);
    assert_eq!((flow, bench.host.replies.borrow().len()), (Flow::Hold, 1));
}

#[test]
fn requests_that_are_not_calls_get_the_error_of_their_provider_whatever_their_body_looks_like() {
    let anthropic = r#"{"type": "error", "error": "#;
    let openai = r#"{"error": {"message": "#;
    let gemini = r#"{"error": {"code": 403, "#;
    let bedrock = r#"{"message": "#;
    let chat = r#"{"model": "m", "messages": [{"role": "user", "content": "Hello"}]}"#;
    let contents = r#"{"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}"#;
    for (path, body, expected) in [
        ("/v1/messages/count_tokens", chat, anthropic),
        ("/v1/threads", chat, openai),
        ("/v1/responses/input_tokens", r#"{"input": [{"role": "user", "content": "Hello"}]}"#, openai),
        ("/v1beta/models/gemini-pro:countTokens", contents, gemini),
        ("/v1beta/cachedContents", contents, gemini),
        ("/model/m/invoke-with-response-stream", chat, bedrock),
    ] {
        for style in ["error", "completion"] {
            let config = format!(r#", "inactive_reply": "{style}""#);
            let (status, _, refusal) = refused(&config, path, body);
            assert_eq!(status, 403, "{path} {style}");
            assert!(refusal.starts_with(expected), "{path} {style}: {refusal}");
        }
    }
}

#[test]
fn with_hold_body_an_upstream_that_answers_early_does_not_release_the_body() {
    let call = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "lookup"}}"#;
    for (is_killed, outcome) in [(true, Outcome::RefusedInactive), (false, Outcome::Allowed)] {
        let bench = Bench::new(HOLDS[1]);
        if is_killed {
            bench.change(|record| record.killed());
        }
        let (mut stream, flow) = bench.begin(&[(":path", "/mcp")], false);
        assert_eq!(flow, Flow::Continue);
        stream.response_headers(&bench.host, false);
        let flow = bench.body(&mut stream, call);
        assert_eq!((flow == Flow::Hold, bench.counted(outcome)), (is_killed, 1), "killed: {is_killed}");
    }
}
