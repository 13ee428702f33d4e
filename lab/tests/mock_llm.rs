//! What tests can rely on: the mock LLM answers as it is told, in the format of each service, and records every request.

#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::collections::HashSet;
use std::time::Duration;

use lab::chat::{Caller, Conversation, Input, Reply, Request};
use lab::mesh::SOON;
use lab::proc::wait_until;
use lab::{Answer, Format, GateAt, MockLlm};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn the_same_question_gets_the_same_answer_in_a_fresh_envelope() {
    let llm = MockLlm::start().await;
    for format in Format::CHATS {
        for stream in [false, true] {
            let first = ask(&llm, format, stream, "Where is my order?").await;
            let again = ask(&llm, format, stream, "Where is my order?").await;
            let other = ask(&llm, format, stream, "What is the weather like?").await;
            let case = format!("{format}, stream {stream}");
            assert_eq!(first.answer(), again.answer(), "{case}");
            assert_ne!(first.body, again.body, "{case}: ids and times are fresh");
            assert_ne!(first.answer().text, other.answer().text, "{case}");
        }
    }
}

#[tokio::test]
async fn answers_come_from_headers_then_the_queue_then_the_closure_then_by_default() {
    let llm = MockLlm::start().await;
    llm.enqueue([Answer::text("queued")]);
    llm.decide(|ask| ask.last.contains("closure").then(|| Answer::text("decided")));
    let steered = Caller::new(llm.url(), "a").with("x-lab-answer", "steered").with("x-lab-status", "201");
    let reply = steered.call(&question(Format::OpenAiChat, false, "closure"), None).await.unwrap();
    assert_eq!((reply.status, reply.answer().text.as_str()), (201, "steered"));
    assert_eq!(ask(&llm, Format::OpenAiChat, false, "closure").await.answer().text, "queued");
    assert_eq!(ask(&llm, Format::OpenAiChat, false, "closure").await.answer().text, "decided");
    let default = ask(&llm, Format::OpenAiChat, false, "hello").await.answer().text;
    assert!(default.starts_with("I looked into it"), "{default}");
}

#[tokio::test]
async fn an_invalid_header_is_reported_to_the_client() {
    let llm = MockLlm::start().await;
    for (name, value, mistake) in [
        ("x-lab-script", "{\"txt\": 1}", "unknown field `txt`"),
        ("x-lab-status", "soon", "x-lab-status (soon) must be a number"),
        ("x-lab-status", "99", "status (99) must be from 200 to 599"),
        ("x-lab-delay-ms", "-1", "x-lab-delay-ms (-1) must be a number"),
    ] {
        let caller = Caller::new(llm.url(), "a").with(name, value);
        let reply = caller.call(&question(Format::Anthropic, false, "hi"), None).await.unwrap();
        assert_eq!(reply.status, 400, "{name}: {value}");
        assert!(reply.error_message().contains(mistake), "{name}: {value}: {}", reply.body);
    }
}

#[tokio::test]
async fn errors_have_the_shape_of_the_api() {
    let llm = MockLlm::start().await;
    for (format, pointer, expected) in [
        (Format::OpenAiChat, "/error/code", json!("rate_limit_exceeded")),
        (Format::Anthropic, "/error/type", json!("rate_limit_error")),
        (Format::Gemini, "/error/status", json!("RESOURCE_EXHAUSTED")),
        (Format::OllamaChat, "/error", json!("slow down")),
    ] {
        llm.enqueue([Answer::error(429, "slow down")]);
        let reply = ask(&llm, format, true, "hi").await;
        assert_eq!(reply.status, 429, "{format}");
        assert_eq!(reply.json().pointer(pointer), Some(&expected), "{format}: {}", reply.body);
        assert_eq!(reply.error_message(), "slow down", "{format}");
    }
}

#[tokio::test]
async fn streams_end_as_each_api_ends_them() {
    let llm = MockLlm::start().await;
    for (path, body, content_type, end) in [
        ("/v1/chat/completions", json!({"stream": true}), "text/event-stream; charset=utf-8", "data: [DONE]\n\n"),
        ("/v1/completions", json!({"stream": true}), "text/event-stream; charset=utf-8", "data: [DONE]\n\n"),
        (
            "/v1/messages",
            json!({"stream": true}),
            "text/event-stream; charset=utf-8",
            "data: {\"type\":\"message_stop\"}\n\n",
        ),
        ("/v1beta/models/g:streamGenerateContent?alt=sse", json!({}), "text/event-stream; charset=utf-8", "}\r\n\r\n"),
        ("/v1beta/models/g:streamGenerateContent", json!({}), "application/json", "]\n"),
        ("/api/chat", json!({}), "application/x-ndjson", "}\n"),
        ("/api/generate", json!({"prompt": "hi"}), "application/x-ndjson", "}\n"),
    ] {
        let reply = post(&llm, path, &body).await;
        assert_eq!(reply.header("content-type"), content_type, "{path}");
        assert!(reply.body.ends_with(end), "{path}: {}", reply.body);
    }
    let array: Vec<Value> =
        serde_json::from_str(&post(&llm, "/v1beta/models/g:streamGenerateContent", &json!({})).await.body).unwrap();
    assert!(array.len() > 5, "the array contains several responses");
}

#[tokio::test]
async fn tools_and_other_agents_are_answered_in_json_rpc() {
    let llm = MockLlm::start().await;
    llm.decide(|_| Some(Answer::text("42 results")));
    let call =
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "search", "arguments": {}}});
    let reply = post(&llm, "/mcp", &call).await.json();
    assert_eq!((&reply["id"], &reply["result"]["content"][0]["text"]), (&json!(7), &json!("42 results")));

    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(&llm, "/mcp", &told).await.status, 202);

    let message = json!({"role": "user", "messageId": "m", "parts": [{"kind": "text", "text": "hi"}]});
    let send = |method: &str| json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": {"message": message}});
    let reply = post(&llm, "/a2a", &send("message/send")).await.json();
    assert_eq!((&reply["id"], &reply["result"]["parts"][0]["text"]), (&json!("x"), &json!("42 results")));
    let streamed = lab::sse::read(&post(&llm, "/a2a", &send("message/stream")).await.body);
    assert_eq!(streamed.last().unwrap()["result"]["final"], true);
}

#[tokio::test]
async fn requests_are_recorded_and_can_be_waited_for() {
    let llm = MockLlm::start().await;
    let caller = Caller::new(llm.url(), "recorded");
    let request = question(Format::OpenAiChat, false, "hello");
    let calling = tokio::spawn(async move { caller.call(&request, None).await.unwrap() });
    let received = llm.wait_for("a whole request", SOON, |all| all.iter().any(|one| one.whole)).await;
    calling.await.unwrap();
    assert_eq!(received[0].json()["messages"][1]["content"], "hello");
    assert_eq!((received[0].method.as_str(), received[0].path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!((llm.received_from("recorded").len(), llm.received_from("other").len(), llm.count()), (1, 0, 1));
}

#[tokio::test]
async fn a_request_that_breaks_off_is_recorded_as_not_whole() {
    let llm = MockLlm::start().await;
    let mut connection = TcpStream::connect(llm.address()).await.unwrap();
    let head = "POST /v1/messages HTTP/1.1\r\nhost: llm\r\nx-agent-id: early\r\ncontent-length: 100\r\n\r\n{";
    connection.write_all(head.as_bytes()).await.unwrap();
    let received = llm.wait_for("the headers", SOON, |all| !all.is_empty()).await;
    drop(connection);
    assert_eq!((received[0].header("x-agent-id"), received[0].whole), ("early", false));
}

#[tokio::test]
async fn an_upgraded_connection_echoes() {
    let llm = MockLlm::start().await;
    let mut connection = TcpStream::connect(llm.address()).await.unwrap();
    let head = "GET /v1/realtime HTTP/1.1\r\nhost: llm\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut heard = String::new();
    while !heard.ends_with("\r\n\r\n") {
        heard.push(char::from(connection.read_u8().await.unwrap()));
    }
    assert!(heard.starts_with("HTTP/1.1 101"), "{heard}");
    connection.write_all(b"hello").await.unwrap();
    let mut echo = [0; 5];
    connection.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"hello");
}

#[tokio::test]
async fn a_stream_waits_at_its_gate_until_the_gate_is_opened() {
    let llm = MockLlm::start().await;
    llm.enqueue([Answer { gate: "middle".to_owned(), ..Answer::text("one two three") }]);
    let request = question(Format::OpenAiChat, true, "hi");
    let url = format!("{}{}", llm.url(), request.path);
    let mut response = lab::http::client().post(url).body(request.body_text()).send().await.unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"data:") && !String::from_utf8_lossy(&first).contains("[DONE]"), "{first:?}");
    llm.open("another");
    assert!(tokio::time::timeout(Duration::from_millis(50), response.chunk()).await.is_err(), "the gate is closed");
    llm.open("middle");
    assert!(response.text().await.unwrap().ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn an_answer_can_wait_before_it_begins_and_before_it_ends() {
    let llm = MockLlm::start().await;
    let caller = Caller::new(llm.url(), "a");
    let answer = |gate: &str, gate_at| Answer { gate: gate.to_owned(), gate_at, ..Answer::text("one two three") };
    for stream in [false, true] {
        let request = question(Format::OpenAiChat, stream, "hi");
        let gate = format!("start, stream {stream}");
        let script = answer(&gate, GateAt::Start);
        let calls = async { tokio::join!(caller.call(&request, Some(&script)), caller.call(&request, Some(&script))) };
        let opened = async {
            wait_until("both wait", SOON, || async { llm.under_way(&gate) == 2 }).await;
            llm.open(&gate);
        };
        let ((first, second), ()) = tokio::join!(calls, opened);
        for reply in [first, second] {
            assert_eq!(reply.unwrap().answer().text, "one two three", "stream {stream}");
        }

        let gate = format!("end, stream {stream}");
        let whole = |body: &str| if stream { body.ends_with("[DONE]\n\n") } else { body.ends_with('}') };
        let reply = caller.call_until(&request, Some(&answer(&gate, GateAt::End)), whole).await.unwrap();
        assert_eq!(reply.answer().text, "one two three", "stream {stream}: all of it has come");
        wait_until("the mock LLM notices that its client is gone", SOON, || async { llm.under_way(&gate) == 0 }).await;
    }
}

#[tokio::test]
async fn a_cut_stream_breaks_off_and_a_delayed_one_does_not() {
    let llm = MockLlm::start().await;
    for stream in [false, true] {
        llm.enqueue([Answer { cut_after: Some(1), ..Answer::text("one two three") }]);
        let cut = Caller::new(llm.url(), "a").call(&question(Format::OpenAiChat, stream, "hi"), None).await;
        assert!(cut.is_err(), "stream {stream}: the connection is cut: {cut:?}");
    }
    llm.enqueue([Answer { delay_ms: 20, piece_delay_ms: 2, pieces: 3, ..Answer::text("one two three") }]);
    let started = std::time::Instant::now();
    assert_eq!(ask(&llm, Format::Anthropic, true, "hi").await.answer().text, "one two three");
    assert!(started.elapsed() >= Duration::from_millis(20));
}

#[tokio::test]
async fn a_gzip_stream_unpacks_to_the_plain_one() {
    let llm = MockLlm::start().await;
    llm.enqueue([Answer { gzip: true, ..Answer::text("packed and sent") }]);
    let request = question(Format::OpenAiChat, true, "hi");
    let url = format!("{}{}", llm.url(), request.path);
    let response = lab::http::client().post(url).body(request.body_text()).send().await.unwrap();
    assert_eq!(response.headers()["content-encoding"], "gzip");
    let packed = response.bytes().await.unwrap();
    let mut plain = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed[..]), &mut plain).unwrap();
    assert_eq!(lab::chat::read(Format::OpenAiChat, &plain).text, "packed and sent");
}

#[tokio::test]
async fn tool_calls_get_fresh_ids() {
    let llm = MockLlm::start().await;
    llm.decide(|_| Some(Answer::call("search", json!({"q": 1}))));
    let mut ids = HashSet::new();
    for stream in [false, true] {
        for format in [Format::OpenAiChat, Format::Anthropic, Format::OllamaChat] {
            let call = ask(&llm, format, stream, "hi").await.answer().tool_calls.remove(0);
            assert_eq!((call.name.as_str(), &call.arguments), ("search", &json!({"q": 1})), "{format}");
            assert!(ids.insert(call.id.clone()), "{format}: {} was used before", call.id);
        }
    }
}

fn question(format: Format, stream: bool, text: &str) -> Request {
    let mut conversation = Conversation::new(format, stream);
    conversation.say(&Input::Open(text.to_owned()));
    conversation.request()
}

async fn ask(llm: &MockLlm, format: Format, stream: bool, text: &str) -> Reply {
    Caller::new(llm.url(), "test").call(&question(format, stream, text), None).await.unwrap()
}

async fn post(llm: &MockLlm, path: &str, body: &Value) -> Reply {
    let request = Request::new(Format::Other, path, body.clone());
    Caller::new(llm.url(), "test").call(&request, None).await.unwrap()
}
