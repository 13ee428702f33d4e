//! What is known of an answer, by what had passed when it ended or its stream was closed.

use super::*;
use crate::entries::Kind;
use crate::wire::Usage;

/// How an answer comes to its end.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The body ends as it should.
    Body,
    /// The client closes the stream.
    Client,
    /// The upstream breaks off.
    Upstream,
}

const TOOL_CALL: &str =
    r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "screenshot", "arguments": {}}}"#;
const TO_CLAUDE: &str = r#"{"anthropic_version": "1", "messages": [{"role": "user", "content": "Where is it?"}]}"#;
const MCP: (&str, &str) = ("/mcp", TOOL_CALL);
const CHAT: (&str, &str) = ("/v1/chat/completions", QUESTION);
const INVOKE: (&str, &str) = ("/model/m/invoke-with-response-stream", TO_CLAUDE);
const SSE: &str = "text/event-stream";
const JSON: &str = "application/json";
const NOTIFICATION: &str = "data: {\"jsonrpc\": \"2.0\", \"method\": \"notifications/message\", \"params\": {}}\n\n";

impl Bench {
    /// Lets the headers of an answer pass.
    fn answer_headers(&self, stream: &mut Stream, content_type: &str) {
        let headers = [(":status", "200"), ("content-type", content_type), ("x-envoy-upstream-service-time", "1")];
        *self.host.response.borrow_mut() = headers.map(|(name, value)| (name.into(), value.into())).into();
        stream.response_headers(&self.host, false);
    }

    /// Makes a call, and lets this much of its answer pass.
    fn call_until(&self, (path, request): (&str, &str), content_type: &str, body: &str, end: End) {
        let mut stream = self.held(&[(":path", path)]);
        self.body(&mut stream, request);
        self.answer_headers(&mut stream, content_type);
        let details = match end {
            End::Body => {
                self.pass(&mut stream, body, true);
                "via_upstream"
            }
            End::Client => "downstream_remote_disconnect",
            End::Upstream => "upstream_reset_after_response_started{remote_reset}",
        };
        for part in body.as_bytes().chunks(50_000) {
            self.pass(&mut stream, std::str::from_utf8(part).unwrap(), false);
        }
        self.host.properties.borrow_mut().insert("response.code_details".into(), details.into());
        stream.closed(&self.host);
    }

    /// Returns what the window keeps of the latest call.
    fn latest_answer(&self) -> &'static str {
        let bytes = self.host.get(&agent_key("a")).bytes;
        let value = Value::decode(&bytes).unwrap();
        match value.record.window(value.window).calls().last().map(|call| call.answer) {
            None => "attempt",
            Some(Answer::Unknown) => "unknown",
            Some(Answer::Abandoned) => "abandoned",
            Some(Answer::Text(_)) => "text",
            Some(Answer::Tools { .. }) => "tools",
            Some(Answer::Rejected(_) | Answer::Failed) => "another answer",
        }
    }
}

/// A call, the content type and the body of its answer, how it ends, and what is known of it then.
type Case<'a> = ((&'a str, &'a str), &'a str, &'a str, End, &'a str);

fn check(cases: &[Case<'_>]) {
    for (call, content_type, body, end, expected) in cases {
        let bench = Bench::new("");
        bench.call_until(*call, content_type, body, *end);
        let start = &body[..body.len().min(200)];
        assert_eq!(bench.latest_answer(), *expected, "{content_type} {end:?}: {start:?}");
    }
}

#[test]
fn an_answer_is_given_up_only_if_its_end_would_have_been_recognised() {
    let image = "QUJD".repeat(100_000);
    let image = format!(r#"{{"jsonrpc": "2.0", "id": 1, "result": {{"content": [{{"data": "{image}"}}]}}}}"#);
    let large = format!("{NOTIFICATION}data: {image}\n\n");
    let under_way = &large[..300_000];
    let half = "data: {\"choices\": [{\"delta\": {\"content\": \"Yes.\"}}]}\n\n";
    let malformed = format!("{half}data: {{\"choices\": \n\n");
    check(&[
        (MCP, SSE, &large, End::Client, "unknown"),
        (MCP, SSE, under_way, End::Client, "unknown"),
        (MCP, SSE, under_way, End::Upstream, "attempt"),
        (MCP, SSE, NOTIFICATION, End::Client, "unknown"),
        (MCP, JSON, &image, End::Client, "unknown"),
        (CHAT, SSE, half, End::Client, "abandoned"),
        (CHAT, SSE, &malformed, End::Client, "unknown"),
        (CHAT, "text/html", "Please wait", End::Client, "unknown"),
        (CHAT, SSE, ": ping\n\n", End::Client, "attempt"),
        (CHAT, "text/plain", "da", End::Client, "attempt"),
        (INVOKE, JSON, r#"{"bytes": "eyJ0"}"#, End::Client, "unknown"),
    ]);
}

#[test]
fn the_first_half_of_a_document_is_the_beginning_of_an_answer() {
    const OLLAMA: (&str, &str) = ("/api/chat", QUESTION);
    let gemini = ("/v1beta/models/g:streamGenerateContent", r#"{"contents": [{"parts": [{"text": "Where is it?"}]}]}"#);
    let line = "{\"message\": {\"content\": \"Yes.\"}";
    let candidate = "[{\"candidates\": [{\"content\"";
    let event = "data: {\"choices\": [{\"delta\"";
    let wrapped = "{\"bytes\": \"eyJ0\"}{\"bytes";
    check(&[
        (CHAT, JSON, &ANSWER[..50], End::Client, "abandoned"),
        (CHAT, JSON, &ANSWER[..50], End::Upstream, "attempt"),
        (CHAT, JSON, "\n \n", End::Client, "attempt"),
        (OLLAMA, "application/x-ndjson", line, End::Client, "abandoned"),
        (gemini, JSON, candidate, End::Client, "abandoned"),
        (gemini, JSON, "[", End::Client, "attempt"),
        (CHAT, SSE, event, End::Client, "abandoned"),
        (CHAT, SSE, ": keep {\n\nid: {", End::Client, "attempt"),
        (CHAT, SSE, "data: wait", End::Client, "attempt"),
        (INVOKE, JSON, wrapped, End::Client, "unknown"),
    ]);
    let bench = Bench::new("");
    for call in 1..=6 {
        assert!(bench.host.replies.borrow().is_empty(), "call {call}");
        bench.call_until(CHAT, JSON, &ANSWER[..50], End::Client);
    }
    assert_eq!(bench.host.replies.borrow().len(), 1, "the sixth call is refused");
}

#[test]
fn events_are_recognised_whatever_their_content_type_says() {
    let event = r#"data: {"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}]}"#;
    for before in ["", "\n", "event: chunk\n", "id: 7\n", "retry: 5\n", ": ping\n\n", ":\n\n"] {
        let body = format!("{before}{event}\n\ndata: [DONE]\n\n");
        for content_type in ["text/plain", "text/html; charset=utf-8"] {
            check(&[(CHAT, content_type, &body, End::Client, "text"), (CHAT, content_type, &body, End::Body, "text")]);
        }
    }
}

#[test]
fn a_body_that_ends_without_the_end_of_the_answer_is_an_attempt() {
    const OLLAMA: (&str, &str) = ("/api/chat", QUESTION);
    const GEMINI: (&str, &str) =
        ("/v1beta/models/g:streamGenerateContent", r#"{"contents": [{"parts": [{"text": "Where is it?"}]}]}"#);
    const RESPONSES: (&str, &str) = ("/v1/responses", r#"{"input": "Where is it?"}"#);
    const AWS: &str = "application/vnd.amazon.eventstream";
    let delta = "data: {\"choices\": [{\"delta\": {\"content\": \"Yes.\"}}]}\n\n";
    let finished = delta.replace("}}]", "}, \"finish_reason\": \"stop\"}]");
    let line = "{\"message\": {\"content\": \"Yes.\"}, \"done\": false}\n";
    let candidate = r#"{"candidates": [{"content": {"parts": [{"text": "Yes."}]}}]}"#;
    let gemini = format!("data: {candidate}\n\n");
    let blocked = "data: {\"promptFeedback\": {\"blockReason\": \"SAFETY\"}}\n\n";
    let item = "data: {\"type\": \"response.output_text.delta\", \"delta\": \"Yes.\"}\n\n";
    let large = format!("data: {{\"type\": \"response.completed\", \"output\": \"{}\"}}\n\n", "x".repeat(300_000));
    check(&[
        (CHAT, SSE, delta, End::Body, "attempt"),
        (CHAT, SSE, &finished, End::Body, "text"),
        (CHAT, SSE, &format!("{delta}data: [DONE]"), End::Body, "text"),
        (CHAT, SSE, "data: {\"choices\": [{\"delta\": {\"role\": \"assistant\"}}]}\n\n", End::Body, "attempt"),
        (CHAT, SSE, "", End::Body, "attempt"),
        (CHAT, SSE, ": ping\n\n", End::Body, "attempt"),
        (CHAT, SSE, &delta[..30], End::Body, "attempt"),
        (CHAT, JSON, &ANSWER[..50], End::Body, "attempt"),
        (CHAT, JSON, "{}", End::Body, "unknown"),
        (CHAT, JSON, "", End::Body, "unknown"),
        (OLLAMA, "application/x-ndjson", line, End::Body, "attempt"),
        (OLLAMA, "application/x-ndjson", &line.replace("false", "true"), End::Body, "text"),
        (OLLAMA, JSON, line, End::Body, "text"),
        (GEMINI, SSE, &gemini, End::Body, "attempt"),
        (GEMINI, SSE, &gemini.replace("]}}]", "]}, \"finishReason\": \"STOP\"}]"), End::Body, "text"),
        (GEMINI, SSE, blocked, End::Body, "unknown"),
        (GEMINI, JSON, candidate, End::Body, "text"),
        (GEMINI, JSON, &format!("[{candidate},\n{}", &candidate[..40]), End::Body, "attempt"),
        (RESPONSES, SSE, item, End::Body, "attempt"),
        (RESPONSES, SSE, &format!("{item}data: {{\"type\": \"response.done\"}}\n\n"), End::Body, "text"),
        (RESPONSES, SSE, &format!("{item}data: [DONE]\n\n"), End::Body, "text"),
        (RESPONSES, SSE, &format!("{item}{large}"), End::Body, "unknown"),
        (CHAT, AWS, "", End::Body, "attempt"),
        // What is not known of these is not an end that is missing.
        (INVOKE, SSE, "data: {\"bytes\": \"eyJ0\"}\n\n", End::Body, "unknown"),
        (MCP, SSE, NOTIFICATION, End::Body, "unknown"),
        (MCP, SSE, "", End::Body, "unknown"),
        (MCP, JSON, &TOOL_CALL[..40], End::Body, "attempt"),
    ]);
}

#[test]
fn an_answer_of_an_unknown_api_needs_no_end() {
    let bench = Bench::new(r#", "judge_unknown": true"#);
    let order = ("/orders", r#"{"article": "a lamp with a green shade"}"#);
    for body in ["data: {\"state\": \"there are no such lamps\"}\n\n", "data: {\"state\": \"there", ""] {
        bench.call_until(order, SSE, body, End::Body);
        assert_ne!(bench.latest_answer(), "attempt", "{body}");
    }
}

#[test]
fn polling_for_a_new_large_image_over_a_stream_that_the_client_closes_is_allowed() {
    let bench = Bench::new("");
    for number in 0..15 {
        let image = format!("{number:08}").repeat(50_000);
        let result = format!(r#"{{"jsonrpc": "2.0", "id": 1, "result": {{"content": [{{"data": "{image}"}}]}}}}"#);
        bench.call_until(MCP, SSE, &format!("{NOTIFICATION}data: {result}\n\n"), End::Client);
        assert!(bench.host.replies.borrow().is_empty(), "call {}", number + 1);
    }
}

/// The events of a streamed answer: the role, the text, the reason to finish, and what comes after it.
const EVENTS: [&str; 4] = [
    "data: {\"choices\": [{\"delta\": {\"role\": \"assistant\"}, \"finish_reason\": null}]}\n\n",
    "data: {\"choices\": [{\"delta\": {\"content\": \"I cannot find it.\"}, \"finish_reason\": \"\"}]}\n\n",
    "data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"stop\"}]}\n\n",
    "data: [DONE]\n\n",
];
const TOKENS: &str = "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 100, \"completion_tokens\": 20}}\n\n";

impl Bench {
    /// Makes calls until one is refused. Their answers pass up to the reason to finish, and their streams stay open.
    fn calls_until_finished(&self) -> Vec<Stream> {
        let mut open = Vec::new();
        for _ in 0..20 {
            let mut stream = self.held(&[]);
            self.body(&mut stream, QUESTION);
            if self.host.replies.borrow_mut().pop().is_some() {
                break;
            }
            self.answer_headers(&mut stream, SSE);
            EVENTS[..3].iter().for_each(|event| assert_eq!(self.pass(&mut stream, event, false), Flow::Continue));
            open.push(stream);
        }
        open
    }
}

#[test]
fn an_answer_is_known_when_the_model_has_finished_though_its_stream_goes_on() {
    for (rest, tokens) in [(&[][..], None), (&[TOKENS, EVENTS[3]][..], Some((100, 20)))] {
        for end in [End::Body, End::Client, End::Upstream] {
            let bench = Bench::new("");
            let mut open = bench.calls_until_finished();
            assert_eq!(open.len(), 5, "the sixth call is refused");
            for stream in &mut open {
                rest.iter().for_each(|event| assert_eq!(bench.pass(stream, event, false), Flow::Continue));
                if matches!(end, End::Body) {
                    bench.pass(stream, "", true);
                }
                stream.closed(&bench.host);
            }
            let usage = |(input_tokens, output_tokens)| Usage { input_tokens, output_tokens };
            let usage = tokens.map(usage).unwrap_or_default();
            let items = bench.items_told();
            let answers = items.iter().filter(|item| item.kind == Kind::Answer);
            let told: Vec<_> = answers.map(|item| (item.call.answer.text().is_some(), item.call.usage)).collect();
            assert_eq!(told, [(true, usage); 5], "{end:?}: each answer once, with all of its tokens");
            assert_eq!(bench.host.metric(Metric::AnswersUnread), 0);
        }
    }
}

#[test]
fn tokens_that_are_stated_after_the_model_has_finished_are_those_of_the_call() {
    let bench = Bench::new("");
    let whole = EVENTS.concat().replace(EVENTS[3], &[TOKENS, EVENTS[3]].concat());
    for part in [20, 1000] {
        let mut stream = bench.held(&[]);
        bench.body(&mut stream, QUESTION);
        bench.answer_headers(&mut stream, SSE);
        for chunk in whole.as_bytes().chunks(part) {
            bench.pass(&mut stream, std::str::from_utf8(chunk).unwrap(), false);
        }
    }
    let bytes = bench.host.get(&agent_key("a")).bytes;
    let value = Value::decode(&bytes).unwrap();
    let [first, second] = value.record.window(value.window).calls().try_into().unwrap();
    assert_eq!(first.usage, Usage { input_tokens: 100, output_tokens: 20 });
    assert_eq!((first.usage, first.answer, first.in_flight), (second.usage, second.answer, second.in_flight));
    let used: Vec<_> =
        bench.worker.observations.borrow_mut().take().into_iter().flat_map(|agent| agent.usage).collect();
    assert_eq!((used[0].calls, used[0].input_tokens), (2, 200), "each answer is reported once");
}

#[test]
fn a_streamed_answer_costs_one_read_and_one_write_of_shared_data_unless_its_tokens_come_last() {
    let with_tokens = EVENTS[2].replace("}]}", "}], \"usage\": {\"prompt_tokens\": 9}}");
    let [role, text, finish, done] = EVENTS;
    for (events, accesses) in [
        (vec![role, text, finish, done], 1),
        (vec![role, text, &with_tokens, done], 1),
        (vec![role, text, finish, TOKENS, done], 2),
    ] {
        let bench = Bench::new("");
        bench.call(QUESTION, ANSWER);
        let mut stream = bench.held(&[]);
        bench.body(&mut stream, QUESTION);
        bench.host.accesses.set((0, 0));
        bench.answer_headers(&mut stream, SSE);
        events.iter().for_each(|event| assert_eq!(bench.pass(&mut stream, event, false), Flow::Continue));
        assert_eq!(bench.host.accesses.get(), (accesses, accesses), "{events:?}");
    }
}

#[test]
fn an_answer_that_gives_a_reason_to_finish_in_every_part_is_read_to_its_end() {
    let part = |text: &str| format!("data: {}\n\n", EVENTS[1][6..].trim().replace("I cannot find it.", text));
    let parts = |texts: [&str; 2]| texts.map(|text| part(text).replace("\"\"}", "\"stop\"}"));
    let bench = Bench::new("");
    for (number, last) in ["in the garden", "on the roof", "at the station", "behind the sofa"].into_iter().enumerate()
    {
        let mut stream = bench.held(&[]);
        bench.body(&mut stream, QUESTION);
        bench.answer_headers(&mut stream, SSE);
        for event in parts(["I have found it ", last]) {
            bench.pass(&mut stream, &event, false);
        }
        bench.pass(&mut stream, EVENTS[3], true);
        assert_eq!(bench.score(), number.to_string(), "only the question is repeated");
    }
}

#[test]
fn a_request_that_only_looks_like_a_call_is_none_if_its_answer_is_not_one() {
    for (path, answer, refused) in [
        ("/v1/memories", r#"{"results": [{"id": "m1", "memory": "likes tea"}]}"#, false),
        ("/pooling", r#"{"data": [{"embedding": [0.1, 0.2]}]}"#, false),
        ("/v1/messages-to-keep", r#"{"message": "stored", "id": 7}"#, false),
        ("/our-own/llm", ANSWER, true),
        ("/our-own/llm", r#"{"type": "message", "content": [{"type": "text", "text": "In the garden."}]}"#, true),
        ("/our-own/llm", r#"{"reply": "In the garden."}"#, true),
        ("/v1/chat/completions", r#"{"results": []}"#, true),
    ] {
        let bench = Bench::new("");
        let is_refused = |_| {
            let mut stream = bench.held(&[(":path", path)]);
            let refused = bench.body(&mut stream, QUESTION) == Flow::Hold;
            if !refused {
                bench.answer(&mut stream, 200, answer);
            }
            refused
        };
        assert_eq!((0..15).any(is_refused), refused, "{path}");
    }
}
