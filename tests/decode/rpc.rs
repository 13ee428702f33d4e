//! JSON-RPC: MCP tools and A2A agents.

use agent_kill_switch::turn::Format::{A2a, Mcp};
use agent_kill_switch::turn::{Answer, ToolTurn};
use agent_kill_switch::wire::Counting::{Literal, Progress};

use crate::support::*;

#[test]
fn a_tool_call_is_both_the_call_and_the_input() {
    for counting in [Literal, Progress] {
        let turn = decode_as(counting, "/mcp", fixture("mcp", "request_call.json")).unwrap();
        assert_eq!(turn.format, Mcp);
        assert_eq!(turn.input, fingerprint(&["find_orders", FIND.1]), "{counting:?}");
        assert_eq!(turn.tools, ToolTurn::Call(signature(&[FIND])), "{counting:?}");
        assert_eq!(turn.tool_names, ["find_orders"]);
    }
}

#[test]
fn the_id_and_the_order_of_members_do_not_matter() {
    let one = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "f", "arguments": {"a": 1}}}"#;
    let other = r#"{"params": {"_meta": {"progressToken": 9}, "arguments": {"a": 1}, "name": "f"}, "method": "tools/call", "id": "z", "jsonrpc": "2.0"}"#;
    assert_eq!(decode("/mcp", one), decode("/mcp", other));
}

#[test]
fn an_answer_is_the_same_whole_and_streamed() {
    for (format, folder, whole, streamed) in [
        (Mcp, "mcp", &["answer_text.json"][..], "answer_text.sse"),
        (A2a, "a2a", &["answer_text.json", "answer_task.json"], "answer_task.sse"),
    ] {
        for name in whole {
            assert_eq!(answer(format, "application/json", fixture(folder, name)), words(&[ANSWER]), "{folder} {name}");
        }
        let stream = fixture(folder, streamed);
        for size in [1, 10, 10_000] {
            let streamed = answer_in_chunks(format, "text/event-stream", stream.chunks(size));
            assert_eq!(streamed, words(&[ANSWER]), "{folder} in chunks of {size}");
        }
    }
}

#[test]
fn results_may_have_many_shapes() {
    let cases = [
        (r#"{"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two three"}]}"#, "one two three"),
        (r#"{"content": [{"type": "text", "text": "no such file"}], "isError": false}"#, "no such file"),
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
fn structured_content_counts_beside_the_text_and_without_it() {
    let result = |content: &str, structured: &str| {
        let result = format!(r#"{{"content": [{content}], "structuredContent": {structured}}}"#);
        json_answer(Mcp, &format!(r#"{{"jsonrpc": "2.0", "id": 1, "result": {result}}}"#))
    };
    let (text, structured) = (r#"{"type": "text", "text": "one two three"}"#, r#"{"a": "b"}"#);
    assert_eq!(result(text, structured), words(&["one two three", structured]));
    assert_eq!(result("", structured), words(&[structured]), "an empty list of contents");
}

#[test]
fn images_and_files_are_compared_byte_by_byte() {
    assert_opaque(|data| {
        let content = format!(r#"[{{"type": "image", "data": "{data}", "mimeType": "image/png"}}]"#);
        json_answer(Mcp, &format!(r#"{{"result": {{"content": {content}}}}}"#))
    });
    assert_opaque(|bytes| {
        let part = format!(r#"{{"kind": "file", "file": {{"mimeType": "image/png", "bytes": "{bytes}"}}}}"#);
        json_answer(A2a, &format!(r#"{{"result": {{"kind": "message", "parts": [{part}]}}}}"#))
    });
}

#[test]
fn the_message_of_an_error_is_the_answer() {
    let body = r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Unknown tool: f"}}"#;
    let answer = json_answer(Mcp, body).text().unwrap();
    assert!(answer.failing && answer.is_same(fingerprint(&["Unknown tool: f"])));
}

#[test]
fn notifications_and_requests_are_not_the_answer() {
    let events = [
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"half"}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{}}"#,
    ];
    assert_eq!(event_answer(Mcp, &events), Answer::Unknown);
}

#[test]
fn the_input_of_a_message_to_an_agent_is_its_parts() {
    for counting in [Literal, Progress] {
        let turn = decode_as(counting, "/a2a", fixture("a2a", "request_user.json")).unwrap();
        assert_eq!((turn.format, turn.input), (A2a, fingerprint(&[USER])), "{counting:?}");
    }
}

#[test]
fn a_message_is_read_in_every_version_of_the_protocol() {
    for method in ["message/send", "message/stream", "tasks/send", "SendMessage", "SendStreamingMessage"] {
        let body = format!(
            r#"{{"jsonrpc": "2.0", "method": "{method}", "params": {{"message": {{"parts": [{{"text": "plan a trip"}}]}}}}}}"#
        );
        assert_eq!(decode("/", &body).unwrap().input, fingerprint(&["plan a trip"]), "{method}");
    }
}

#[test]
fn data_in_a_message_is_read_as_text() {
    let body = r#"{"result": {"kind": "message", "parts": [{"kind": "data", "data": {"fare": "cheap one"}}]}}"#;
    assert_eq!(json_answer(A2a, body), words(&[r#"{"fare": "cheap one"}"#]));
}

#[test]
fn a_task_in_progress_has_no_answer() {
    let body = r#"{"result": {"kind": "task", "id": "t", "status": {"state": "working", "message": {"parts": [{"text": "on it"}]}}}}"#;
    assert_eq!(json_answer(A2a, body), Answer::Unknown);
    let asks = body.replace("working", "input-required");
    assert_eq!(json_answer(A2a, &asks), words(&["on it"]));
}

#[test]
fn a_result_inside_a_member_that_names_its_kind_is_read() {
    for result in [
        r#"{"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "all is booked"}]}}"#,
        r#"{"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [{"parts": [{"text": "all is booked"}]}]}}"#,
        r#"{"artifactUpdate": {"taskId": "t", "artifact": {"parts": [{"text": "all is booked"}]}}}"#,
    ] {
        let body = format!(r#"{{"jsonrpc": "2.0", "result": {result}}}"#);
        assert_eq!(json_answer(A2a, &body), words(&["all is booked"]), "{result}");
    }
}

#[test]
fn content_is_read_whatever_other_members_its_result_has() {
    for other in [r#""message": {"level": "info"}"#, r#""task": {"id": 1}"#] {
        for (content, expected) in [
            (r#""content": [{"type": "text", "text": "one two three"}]"#, "one two three"),
            (r#""content": [], "structuredContent": {"a": "b"}"#, r#"{"a": "b"}"#),
        ] {
            let body = format!(r#"{{"jsonrpc": "2.0", "id": 1, "result": {{{other}, {content}}}}}"#);
            assert_eq!(json_answer(Mcp, &body), words(&[expected]), "{body}");
        }
    }
}

#[test]
fn a_body_that_is_neither_json_nor_events_is_no_answer() {
    for format in [Mcp, A2a] {
        for body in ["Accepted", "data", "<html>Please wait</html>"] {
            for content_type in ["text/plain; charset=utf-8", "text/html", "application/json", ""] {
                assert_eq!(answer(format, content_type, body), Answer::Unknown, "{content_type}: {body}");
            }
        }
        let body = r#"{"result": {"parts": [{"text": "found it anyway"}]}}"#;
        assert_eq!(answer(format, "text/plain", body), words(&["found it anyway"]));
        assert_eq!(answer(format, "text/plain", format!("data: {body}\n\n")), words(&["found it anyway"]));
    }
}

#[test]
fn a_result_without_text_is_an_empty_text() {
    let empty = fingerprint(&[]);
    for (body, failing) in [
        (r#"{"result": {"content": []}}"#, false),
        (r#"{"result": {"content": [{"type": "text", "text": ""}]}}"#, false),
        (r#"{"result": {"content": [], "isError": true}}"#, true),
        (r#"{"error": {"message": ""}}"#, true),
    ] {
        let events = [r#"{"jsonrpc": "2.0", "method": "notifications/progress"}"#, body];
        for answer in [json_answer(Mcp, body), event_answer(Mcp, &events)] {
            let text = answer.text().unwrap();
            assert!(text.is_same(empty) && !text.informative && text.failing == failing, "{body}");
        }
    }
    let task = r#"{"result": {"kind": "task", "id": "t", "status": {"state": "completed"}}}"#;
    assert!(json_answer(A2a, task).text().is_some_and(|text| text.is_same(empty)));
    assert_eq!(json_answer(Mcp, r#"{"result": {"content": [}"#), Answer::Unknown);
    assert_eq!(json_answer(Mcp, r#"{"jsonrpc": "2.0", "id": 1}"#), Answer::Unknown);
}

#[test]
fn an_error_that_is_null_is_none() {
    let body = r#"{"jsonrpc": "2.0", "id": 1, "error": null, "result": {"content": "one two three"}}"#;
    assert_eq!(json_answer(Mcp, body), words(&["one two three"]));
    let error = json_answer(Mcp, r#"{"id": 1, "error": {"message": "no such tool"}, "result": null}"#).text().unwrap();
    assert!(error.failing && error.is_same(fingerprint(&["no such tool"])));
}

#[test]
fn an_error_without_a_message_is_known_by_its_code() {
    let error = |code: &str| json_answer(Mcp, &format!(r#"{{"error": {{"code": {code}}}}}"#)).text().unwrap();
    assert!(error("-32603").failing && error("-32603").is_same(error("-32603")));
    assert!(!error("-32603").is_same(error("-32602")));
}

#[test]
fn a_task_of_a_tool_that_is_at_work_has_no_answer_and_content_is_one_whatever_its_status() {
    let task = r#"{"result": {"task": {"taskId": "t1", "status": "working", "pollInterval": 5000}}}"#;
    assert_eq!(json_answer(Mcp, task), Answer::Unknown);
    for status in [r#""working""#, r#"{"state": "working"}"#] {
        let body = format!(r#"{{"result": {{"content": [], "status": {status}}}}}"#);
        assert!(json_answer(Mcp, &body).text().is_some(), "{status}");
    }
}

#[test]
fn the_calls_of_a_batch_count_together() {
    let call = |name: &str| {
        format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": "{name}"}}}}"#)
    };
    let batch = format!(r#"[{}, {{"jsonrpc": "2.0", "method": "notifications/x"}}, {}]"#, call("a"), call("b"));
    let turn = decode("/mcp", batch).unwrap();
    assert_eq!((turn.format, turn.tool_names.as_slice()), (Mcp, &["a".to_owned(), "b".to_owned()][..]));
    assert_ne!(turn.tools, decode("/mcp", call("a")).unwrap().tools);
}
