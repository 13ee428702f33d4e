//! JSON-RPC: MCP tools and A2A agents.

use agent_kill_switch::turn::Format::{A2a, Mcp};
use agent_kill_switch::turn::{Answer, ToolTurn};
use agent_kill_switch::wire::Counting::{Literal, Progress};

use crate::support::*;

#[test]
fn a_tool_call_is_the_call_and_its_words() {
    for counting in [Literal, Progress] {
        let turn = decode_as(counting, "/mcp", fixture("mcp", "request_call.json")).unwrap();
        assert_eq!(turn.format, Mcp);
        assert_eq!(turn.input, fingerprint(&["find_orders", FIND.1]), "{counting:?}");
        assert_eq!(turn.tools, ToolTurn::Call(signature(&[FIND])), "{counting:?}");
        assert_eq!(turn.tool_names, "find_orders");
    }
}

#[test]
fn a_tool_call_is_the_same_whatever_its_id_and_order() {
    let one = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "f", "arguments": {"a": 1}}}"#;
    let other = r#"{"params": {"_meta": {"progressToken": 9}, "arguments": {"a": 1}, "name": "f"}, "method": "tools/call", "id": "z", "jsonrpc": "2.0"}"#;
    assert_eq!(decode("/mcp", one), decode("/mcp", other));
}

#[test]
fn a_result_is_its_content_in_one_piece_and_streamed() {
    assert_eq!(answer(Mcp, "application/json", fixture("mcp", "answer_text.json")), words(&[ANSWER]));
    let stream = fixture("mcp", "answer_text.sse");
    for size in [1, 10, 10_000] {
        assert_eq!(answer_in_chunks(Mcp, "text/event-stream", stream.chunks(size)), words(&[ANSWER]), "{size}");
    }
}

#[test]
fn results_take_many_shapes() {
    let cases = [
        (r#"{"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two three"}]}"#, "one two three"),
        (r#"{"content": [{"type": "text", "text": "no such file"}], "isError": true}"#, "no such file"),
        (
            r#"{"content": [{"type": "text", "text": "one two three"}], "structuredContent": {"a": "b"}}"#,
            "one two three",
        ),
        (
            r#"{"content": [{"type": "resource", "resource": {"mimeType": "text/plain", "text": "one two three"}}]}"#,
            "one two three",
        ),
        (r#"{"toolResult": "one two three"}"#, r#"{"toolResult": "one two three"}"#),
    ];
    for (result, expected) in cases {
        let body = format!(r#"{{"jsonrpc": "2.0", "id": 1, "result": {result}}}"#);
        assert_eq!(json_answer(Mcp, &body), words(&[expected]), "{result}");
    }
}

#[test]
fn an_image_in_a_result_is_opaque() {
    let read = |data: &str| {
        let content = format!(r#"[{{"type": "image", "data": "{data}", "mimeType": "image/png"}}]"#);
        json_answer(Mcp, &format!(r#"{{"result": {{"content": {content}}}}}"#))
    };
    assert_ne!(read("iVBOR1w0KGgoAAAA1NS"), read("iVBOR2w0KGgoAAAA2NS"));
    assert_eq!(read("iVBOR1w0KGgoAAAA1NS"), read("iVBOR1w0KGgoAAAA1NS"));
}

#[test]
fn an_error_says_something() {
    let body = r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Unknown tool: f"}}"#;
    assert_eq!(json_answer(Mcp, body), words(&["Unknown tool: f"]));
}

#[test]
fn notifications_and_requests_on_the_way_are_not_the_answer() {
    let events = [
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"half"}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{}}"#,
    ];
    assert_eq!(event_answer(Mcp, &events), Answer::Unknown);
}

#[test]
fn a_message_to_an_agent_is_its_parts() {
    for counting in [Literal, Progress] {
        let turn = decode_as(counting, "/a2a", fixture("a2a", "request_user.json")).unwrap();
        assert_eq!((turn.format, turn.input), (A2a, fingerprint(&[USER])), "{counting:?}");
    }
}

#[test]
fn every_version_of_sending_a_message_is_read() {
    for method in ["message/send", "message/stream", "tasks/send", "SendMessage", "SendStreamingMessage"] {
        let body = format!(
            r#"{{"jsonrpc": "2.0", "method": "{method}", "params": {{"message": {{"parts": [{{"text": "plan a trip"}}]}}}}}}"#
        );
        assert_eq!(decode("/", &body).unwrap().input, fingerprint(&["plan a trip"]), "{method}");
    }
}

#[test]
fn a_message_or_a_task_with_the_same_words_is_the_same_answer() {
    for name in ["answer_text.json", "answer_task.json"] {
        assert_eq!(answer(A2a, "application/json", fixture("a2a", name)), words(&[ANSWER]), "{name}");
    }
    let stream = fixture("a2a", "answer_task.sse");
    for size in [1, 10, 10_000] {
        assert_eq!(answer_in_chunks(A2a, "text/event-stream", stream.chunks(size)), words(&[ANSWER]), "{size}");
    }
}

#[test]
fn data_and_files_are_parts_too() {
    let read = |part: &str| json_answer(A2a, &format!(r#"{{"result": {{"kind": "message", "parts": [{part}]}}}}"#));
    assert_eq!(read(r#"{"kind": "data", "data": {"fare": "cheap one"}}"#), words(&[r#"{"fare": "cheap one"}"#]));
    let file =
        |bytes: &str| read(&format!(r#"{{"kind": "file", "file": {{"mimeType": "image/png", "bytes": "{bytes}"}}}}"#));
    assert_ne!(file("iVBOR1w0KGgoAAAA1NS"), file("iVBOR2w0KGgoAAAA2NS"));
}

#[test]
fn a_task_that_has_only_begun_has_no_answer() {
    let body = r#"{"result": {"kind": "task", "id": "t", "status": {"state": "working", "message": {"parts": [{"text": "on it"}]}}}}"#;
    assert_eq!(json_answer(A2a, body), Answer::Unknown);
    let asks = body.replace("working", "input-required");
    assert_eq!(json_answer(A2a, &asks), words(&["on it"]));
}

#[test]
fn a_result_wrapped_by_its_kind_is_read() {
    for result in [
        r#"{"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "all is booked"}]}}"#,
        r#"{"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [{"parts": [{"text": "all is booked"}]}]}}"#,
        r#"{"artifactUpdate": {"taskId": "t", "artifact": {"parts": [{"text": "all is booked"}]}}}"#,
    ] {
        assert_eq!(
            json_answer(A2a, &format!(r#"{{"jsonrpc": "2.0", "result": {result}}}"#)),
            words(&["all is booked"])
        );
    }
}
