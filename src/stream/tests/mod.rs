mod answer_loop;
mod conversations;
mod ends;
mod faults;
mod pause;
mod refusals;
mod tools;
mod unjudged;
mod usage;

use super::request::TAIL_BYTES;
use super::*;
use crate::agent::record::{Details, Now, Record, Value};
use crate::agent::store_policy;
use crate::config::Config;
use crate::detect::window::Window;
use crate::host::fake::Fake;
use crate::host::{Host as _, StreamHost as _};
use crate::shared::agent_key;
use crate::wire::{Action, AgentPolicy, KillReport, Scope, StoppedSession};

/// A worker, its host, and agent `a` with the kill switch on.
struct Bench {
    worker: Rc<Worker>,
    host: Fake,
}

impl Bench {
    fn new(config: &str) -> Self {
        let config = format!("{{\"cluster\": \"kill-switch\"{config}}}");
        let config = Config::parse(config.as_bytes(), &|_| None).unwrap();
        let bench = Self { worker: Rc::new(Worker::new(config, "envoy-1".into())), host: Fake::new() };
        bench.policy(|_| {});
        bench
    }

    fn policy(&self, change: impl FnOnce(&mut AgentPolicy)) {
        let mut policy = policy();
        change(&mut policy);
        let record = Record::new(&policy, 1);
        let now = Now { clock_ms: self.host.now_ms(), steady_ms: self.host.steady_ms() };
        self.host.overwrite(&agent_key("a"), record.encode(&Details::new(&policy, &record, now)));
        self.worker.round.set(Some(1));
    }

    fn headers(&self, headers: &[(&str, &str)]) {
        let mut all = vec![(":path", "/v1/chat/completions"), (":method", "POST"), ("x-agent-id", "a")];
        all.retain(|(name, _)| !headers.iter().any(|(given, _)| given == name));
        all.extend(headers);
        *self.host.request.borrow_mut() =
            all.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        self.host.properties.borrow_mut().clear();
    }

    /// A new request whose headers have been read.
    fn begin(&self, headers: &[(&str, &str)], ended: bool) -> (Stream, Flow) {
        self.headers(headers);
        let mut stream = Stream::new(Rc::clone(&self.worker));
        let flow = stream.request_headers(&self.host, ended);
        (stream, flow)
    }

    /// The whole body of a request.
    fn body(&self, stream: &mut Stream, body: &str) -> Flow {
        *self.host.body.borrow_mut() = body.into();
        stream.request_body(&self.host, body.len(), true)
    }

    /// A request with this body, and its answer if it is forwarded. True if it was.
    fn call(&self, body: &str, answer: &str) -> bool {
        let (mut stream, flow) = self.begin(&[], false);
        if flow == Flow::Continue {
            return true;
        }
        if self.host.replies.borrow().is_empty() {
            self.body(&mut stream, body);
        }
        if self.host.replies.borrow_mut().pop().is_some() {
            return false;
        }
        self.answer(&mut stream, 200, answer);
        true
    }

    fn answer(&self, stream: &mut Stream, status: u16, body: &str) {
        let headers = [(":status", status.to_string()), ("content-type", "application/json".to_owned())];
        *self.host.response.borrow_mut() =
            headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        self.host.properties.borrow_mut().insert("response.code_details".into(), b"via_upstream".to_vec());
        stream.response_headers(&self.host, false);
        self.pass(stream, body, true);
    }

    /// Lets a part of an answer pass.
    fn pass(&self, stream: &mut Stream, part: &str, ended: bool) -> Flow {
        *self.host.chunk.borrow_mut() = part.as_bytes().to_vec();
        stream.response_body(&self.host, part.len(), ended)
    }

    /// A request whose headers have been read and whose body is about to arrive.
    fn held(&self, headers: &[(&str, &str)]) -> Stream {
        let (stream, flow) = self.begin(headers, false);
        assert_eq!(flow, Flow::Hold);
        *self.host.body.borrow_mut() = QUESTION.into();
        stream
    }

    /// The score of the latest call.
    fn score(&self) -> String {
        String::from_utf8(self.host.property(&[SCORE_PROPERTY]).unwrap()).unwrap()
    }

    /// Changes the record of agent `a`, as another worker or the sync would.
    fn change(&self, change: impl FnOnce(Record) -> Record) {
        let bytes = self.host.get(&agent_key("a")).bytes;
        let value = Value::decode(&bytes).unwrap();
        self.host.overwrite(&agent_key("a"), value.with_policy(&change(value.record), &value.details()));
    }

    fn counted(&self, outcome: Outcome) -> u64 {
        self.host.metric(Metric::Requests(outcome))
    }

    fn reports(&self) -> Vec<KillReport> {
        let shared = self.host.shared.borrow();
        let slots = shared.iter().filter(|(key, (bytes, _))| key.starts_with("aks/4/out/") && !bytes.is_empty());
        let reports = slots.flat_map(|(_, (bytes, _))| bytes.split(|byte| *byte == b'\n'));
        reports.map(|report| serde_json::from_slice(report).unwrap()).collect()
    }
}

fn policy() -> AgentPolicy {
    serde_json::from_str(r#"{"agent_id": "a", "active": true, "kill_switch_enabled": true}"#).unwrap()
}

const QUESTION: &str = r#"{"messages": [{"role": "user", "content": "Where is my parcel, please?"}]}"#;
const ANSWER: &str = r#"{"choices": [{"message": {"content": "I cannot find that parcel in the system."}}]}"#;

#[test]
fn the_sixth_identical_call_is_refused_reported_once_and_all_later_ones_are_refused() {
    let bench = Bench::new("");
    let forwarded: Vec<bool> = (0..8).map(|_| bench.call(QUESTION, ANSWER)).collect();
    assert_eq!(forwarded, [true, true, true, true, true, false, false, false]);
    let [report] = bench.reports().try_into().unwrap();
    assert_eq!((report.score, report.threshold, report.generation), (13.0, 10.0, 0));
    assert_eq!((report.signals.similar_prompts, report.signals.similar_responses), (5, 4));
    assert_eq!(report.matches.len(), 5);
    assert_eq!(report.excerpt, None, "no text unless asked for");
    assert_eq!(bench.host.metric(Metric::Kills), 1);
    assert_eq!(bench.counted(Outcome::RefusedInactive), 2);
    assert!(bench.host.lines()[0].starts_with("agent a deactivated: the same input 6 times"));
}

#[test]
fn an_excerpt_is_reported_if_the_operator_asks_for_it() {
    let bench = Bench::new(r#", "evidence": "excerpt""#);
    while bench.call(QUESTION, ANSWER) {}
    assert_eq!(bench.reports()[0].excerpt.as_deref(), Some("Where is my parcel, please?"));
}

#[test]
fn a_request_that_was_held_while_its_agent_was_stopped_is_refused() {
    type Change = fn(Record) -> Record;
    let cases: [(&str, Change, u16, Outcome); 3] = [
        ("killed", |record| record.killed(), 403, Outcome::RefusedInactive),
        ("deactivated", |record| Record { active: false, ..record }, 403, Outcome::RefusedInactive),
        ("blocked", |record| record.blocked(5_000_000), 429, Outcome::RefusedBlocked),
    ];
    for (name, change, status, outcome) in cases {
        for session in [None, Some(("x-session", "s1"))] {
            let bench = Bench::new(r#", "session_header": "x-session""#);
            bench.call(QUESTION, ANSWER);
            let mut stream = bench.held(session.as_slice());
            bench.change(change);
            assert_eq!(stream.request_body(&bench.host, QUESTION.len(), true), Flow::Hold, "{name}");
            let statuses: Vec<u16> = bench.host.replies.borrow().iter().map(|reply| reply.status).collect();
            assert_eq!((statuses, bench.counted(outcome)), (vec![status], 1), "{name}");
            assert!(bench.reports().is_empty(), "the one who stopped it reports it");
        }
    }
}

#[test]
fn a_request_from_before_an_activation_counts_as_the_first_call_after_it() {
    let bench = Bench::new("");
    for _ in 0..5 {
        bench.call(QUESTION, ANSWER);
    }
    let mut stream = bench.held(&[]);
    bench.change(|record| Record { generation: 1, ..record });
    assert_eq!(stream.request_body(&bench.host, QUESTION.len(), true), Flow::Continue);
    assert!(bench.host.replies.borrow().is_empty());
    assert_eq!(bench.score(), "0");
}

#[test]
fn a_request_from_before_an_activation_does_not_overwrite_the_window_after_it() {
    let bench = Bench::new("");
    bench.call(QUESTION, ANSWER);
    let mut slow = bench.held(&[]);
    bench.change(|record| Record { generation: 1, ..record });
    for _ in 0..3 {
        assert!(bench.call(QUESTION, ANSWER));
    }
    bench.body(&mut slow, QUESTION);
    bench.answer(&mut slow, 200, ANSWER);
    assert!(bench.call(QUESTION, ANSWER));
    assert_eq!(bench.score(), "10", "the fifth call of the new window");
    assert!(!bench.call(QUESTION, ANSWER), "the loop is stopped at its sixth call");
}

#[test]
fn an_agent_activated_while_its_request_was_scored_is_not_killed() {
    let bench = Bench::new("");
    for _ in 0..5 {
        bench.call(QUESTION, ANSWER);
    }
    let mut stream = bench.held(&[]);
    // Activated between the write of the window and the write of the kill.
    *bench.host.before_set.borrow_mut() = Some(Box::new(|host| {
        *host.before_set.borrow_mut() = Some(Box::new(|host| {
            let bytes = host.get(&agent_key("a")).bytes;
            let record = Record { generation: 1, ..Value::decode(&bytes).unwrap().record };
            host.overwrite(&agent_key("a"), record.encode(&Details::default()));
        }));
    }));
    assert_eq!(stream.request_body(&bench.host, QUESTION.len(), true), Flow::Continue);
    assert!(bench.host.replies.borrow().is_empty() && bench.reports().is_empty());
}

#[test]
fn a_request_costs_one_read_of_shared_data_and_so_does_its_answer() {
    let bench = Bench::new("");
    bench.call(QUESTION, ANSWER);
    bench.host.accesses.set((0, 0));
    let mut stream = bench.held(&[]);
    assert_eq!(bench.host.accesses.get(), (1, 0));
    bench.body(&mut stream, QUESTION);
    assert_eq!(bench.host.accesses.get(), (1, 1), "scored on what the headers read");
    bench.answer(&mut stream, 200, ANSWER);
    assert_eq!(bench.host.accesses.get(), (2, 2));
}

/// A request with a history that begins with this message, this many bytes long, and ends with the usual question.
fn with_history(opening: &str, bytes: usize) -> String {
    let said = |role, text: &str| format!("{{\"role\": \"{role}\", \"content\": \"{text}\"}}, ");
    let words = "word ".repeat(500);
    let round = [said("assistant", &words), said("user", &words)].concat();
    let history = [said("user", opening), round.repeat(bytes / round.len()), said("assistant", "Yes?")].concat();
    QUESTION.replace("[{", &format!("[{history}{{"))
}

#[test]
fn only_the_ends_of_a_long_body_are_fetched_unless_they_are_not_enough() {
    let bench = Bench::new("");
    let long = QUESTION.replace("parcel", &"parcel ".repeat(20_000));
    let history = with_history("Good morning!", 100_000);
    let of_a_million_tokens = with_history("Good afternoon!", 7_000_000);
    let ends = TAIL_BYTES + 4096;
    for (body, fetched) in [(&long, TAIL_BYTES + long.len()), (&history, ends), (&of_a_million_tokens, ends)] {
        bench.host.fetched.set(0);
        bench.call(body, ANSWER);
        assert_eq!(bench.host.fetched.get(), fetched);
    }
    assert_eq!(bench.counted(Outcome::Allowed), 3);
    bench.call(&with_history("Good morning!", 1_000), ANSWER);
    assert_eq!(bench.score(), "1", "the same question as at the end of the long body, in the same conversation");
    bench.call(&with_history("Good evening!", 1_000), ANSWER);
    assert_eq!(bench.score(), "0", "another conversation");
}

#[test]
fn a_write_by_another_worker_in_between_loses_nothing() {
    let bench = Bench::new("");
    bench.call(QUESTION, ANSWER);
    *bench.host.before_set.borrow_mut() = Some(Box::new(|host| {
        let bytes = host.get(&agent_key("a")).bytes;
        host.overwrite(&agent_key("a"), bytes);
    }));
    bench.call(QUESTION, ANSWER);
    assert_eq!(bench.score(), "1", "the second call saw the first");
}

#[test]
fn block_refuses_for_a_while_and_then_starts_a_fresh_window() {
    let bench = Bench::new("");
    bench.policy(|policy| {
        policy.action = Action::Block;
        policy.retry_after_seconds = 30;
    });
    let forwarded = (0..6).filter(|_| bench.call(QUESTION, ANSWER)).count();
    assert_eq!(forwarded, 5);
    bench.begin(&[], false);
    let reply = bench.host.replies.borrow_mut().pop().unwrap();
    assert_eq!(reply.status, 429);
    assert!(reply.headers.contains(&("retry-after", "30".into())), "{:?}", reply.headers);
    bench.host.wait(30_000);
    assert!((0..5).all(|_| bench.call(QUESTION, ANSWER)), "a fresh window");
    assert!(!bench.call(QUESTION, ANSWER));
    assert_eq!(bench.reports().len(), 2);
    assert!(bench.reports().iter().all(|report| report.action == Action::Block));
}

#[test]
fn observe_forwards_and_reports_each_loop_once() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.action = Action::Observe);
    assert!((0..11).all(|_| bench.call(QUESTION, ANSWER)));
    assert_eq!(bench.host.metric(Metric::WouldKills), 1);
    bench.call(QUESTION, ANSWER);
    assert_eq!(bench.host.metric(Metric::WouldKills), 2);
}

#[test]
fn the_body_is_not_touched_if_the_kill_switch_is_off() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.kill_switch_enabled = false);
    assert!((0..20).all(|_| bench.call(QUESTION, ANSWER)));
    assert_eq!(bench.counted(Outcome::Off), 20);
    assert_eq!(bench.host.get(&agent_key("a")).bytes.len(), Record::BYTES, "no window");
}

#[test]
fn requests_that_cannot_be_scored_are_forwarded_and_counted() {
    let bench = Bench::new(r#", "max_request_bytes": 2000"#);
    type Case<'a> = (&'a [(&'a str, &'a str)], bool, Outcome);
    let cases: [Case<'_>; 11] = [
        (&[("x-agent-id", "")], false, Outcome::NoAgent),
        (&[("x-agent-id", "no spaces")], false, Outcome::BadAgentId),
        (&[("x-agent-id", "..")], false, Outcome::BadAgentId),
        (&[("x-agent-id", "a"), ("x-agent-id", "b")], false, Outcome::BadAgentId),
        (&[("x-agent-id", "stranger")], false, Outcome::UnknownAgent),
        (&[("content-length", "2001")], false, Outcome::TooLarge),
        (&[("content-encoding", "gzip")], false, Outcome::Compressed),
        (&[("upgrade", "websocket")], false, Outcome::NotHttp),
        (&[("content-type", "application/grpc+proto")], false, Outcome::NotHttp),
        (&[(":path", "/v1/embeddings")], false, Outcome::NotACall),
        (&[], true, Outcome::Empty),
    ];
    for (headers, ended, outcome) in cases {
        let before = bench.counted(outcome);
        let (_, flow) = bench.begin(headers, ended);
        assert_eq!((flow, bench.counted(outcome)), (Flow::Continue, before + 1), "{outcome:?}");
    }
    for (body, outcome) in [
        ("{\"messages\": [", Outcome::Malformed),
        ("  ", Outcome::Empty),
        ("{\"input_file_id\": \"f1\"}", Outcome::NotACall),
    ] {
        let before = bench.counted(outcome);
        assert!(bench.call(body, ANSWER));
        assert_eq!(bench.counted(outcome), before + 1, "{outcome:?}");
    }
    assert!(bench.host.replies.borrow().is_empty());
}

#[test]
fn a_body_that_grows_over_the_limit_is_forwarded() {
    let bench = Bench::new(r#", "max_request_bytes": 2000"#);
    let mut stream = bench.held(&[]);
    assert_eq!(stream.request_body(&bench.host, 1999, false), Flow::Hold);
    assert_eq!(stream.request_body(&bench.host, 2001, false), Flow::Continue);
    assert_eq!(stream.request_body(&bench.host, 500, true), Flow::Continue);
    assert_eq!(bench.counted(Outcome::TooLarge), 1);
}

#[test]
fn trailers_end_a_body() {
    let bench = Bench::new("");
    let mut stream = bench.held(&[]);
    assert_eq!(stream.request_body(&bench.host, QUESTION.len(), false), Flow::Hold);
    assert_eq!(stream.request_trailers(&bench.host), Flow::Continue);
    assert_eq!(bench.counted(Outcome::Allowed), 1);
}

#[test]
fn what_is_known_of_an_answer_depends_on_how_the_stream_ends() {
    const DONE: &str = "data: {\"choices\": [{\"delta\": {\"content\": \"Yes.\"}}]}\n\ndata: [DONE]\n\n";
    const FINISHED: &str =
        "data: {\"choices\": [{\"delta\": {\"content\": \"Yes.\"}, \"finish_reason\": \"stop\"}]}\n\n";
    const HALF: &str = "data: {\"choices\": [{\"delta\": {\"content\": \"Yes.\"}}]}\n\n";
    const FAILED: &str = "data: {\"error\": {\"message\": \"overloaded\"}}\n\n";
    let (client, upstream) = ("downstream_remote_disconnect", "upstream_reset_after_response_started{remote_reset}");
    let cases = [
        ("the last event has passed", "200", DONE, "via_upstream", "text", 0),
        ("the client leaves when the model has finished", "200", FINISHED, client, "text", 1),
        ("the client does not wait", "200", HALF, client, "abandoned", 1),
        ("the model does not begin", "", "", client, "attempt", 1),
        ("the model does not begin after its headers", "200", ": ping\n\n", client, "attempt", 1),
        ("the answer reports an error, and the client leaves", "200", FAILED, client, "attempt", 1),
        ("Envoy follows a redirect", "", "", "internal_redirect", "unknown", 0),
        ("the client resets its stream", "200", HALF, "http2.remote_reset", "abandoned", 1),
        ("the upstream breaks off", "200", HALF, upstream, "attempt", 1),
        ("Envoy answers itself", "200", DONE, "direct_response", "unknown", 0),
        ("the provider is overloaded", "529", "", "via_upstream", "attempt", 0),
        ("Envoy finds no upstream", "503", "", "no_healthy_upstream", "attempt", 0),
        ("the request is wrong", "422", "", "via_upstream", "rejected", 0),
    ];
    for (name, status, body, details, expected, cut) in cases {
        let bench = Bench::new("");
        let mut stream = bench.held(&[]);
        bench.body(&mut stream, QUESTION);
        bench.host.properties.borrow_mut().insert("response.code_details".into(), details.into());
        if !status.is_empty() {
            // While a response is under way, its details say where it comes from.
            let begun = if details == client || details == upstream { "via_upstream" } else { details };
            bench.host.properties.borrow_mut().insert("response.code_details".into(), begun.into());
            let headers = [(":status", status), ("content-type", "text/event-stream")];
            *bench.host.response.borrow_mut() = headers.map(|(name, value)| (name.into(), value.into())).into();
            if details.starts_with("http2") {
                bench.host.response.borrow_mut().push(("x-envoy-upstream-service-time".into(), b"1".to_vec()));
            }
            stream.response_headers(&bench.host, false);
            bench.pass(&mut stream, body, false);
            bench.host.properties.borrow_mut().insert("response.code_details".into(), details.into());
        }
        stream.closed(&bench.host);
        let bytes = bench.host.get(&agent_key("a")).bytes;
        let value = Value::decode(&bytes).unwrap();
        let found = match value.record.window(value.window).calls().first() {
            None => "attempt",
            Some(call) => match call.answer {
                Answer::Text(_) => "text",
                Answer::Abandoned => "abandoned",
                Answer::Rejected(422) => "rejected",
                Answer::Unknown => "unknown",
                _ => "another answer",
            },
        };
        assert_eq!((found, bench.host.metric(Metric::AnswersCut)), (expected, cut), "{name}");
    }
}

#[test]
fn another_pass_over_a_scored_request_is_not_scored_again() {
    let bench = Bench::new("");
    bench.call(QUESTION, ANSWER);
    bench.headers(&[("x-envoy-original-url", "http://llm/v1/chat/completions")]);
    bench.host.set_property(CALL_PROPERTY, "0 1 ");
    let mut stream = Stream::new(Rc::clone(&bench.worker));
    assert_eq!(stream.request_headers(&bench.host, false), Flow::Continue);
    assert_eq!(bench.counted(Outcome::Redirected), 1);
    assert_eq!(bench.counted(Outcome::Allowed), 1);
}

#[test]
fn without_policy_traffic_passes_or_is_refused_as_configured() {
    let allow = Bench::new("");
    allow.worker.round.set(None);
    assert_eq!(allow.begin(&[("x-agent-id", "b")], false).1, Flow::Continue);
    assert_eq!(allow.counted(Outcome::NoPolicy), 1);

    let deny = Bench::new(r#", "on_no_policy": "deny""#);
    deny.worker.round.set(None);
    deny.begin(&[("x-agent-id", "b")], false);
    assert_eq!(deny.host.replies.borrow()[0].status, 503);
}

#[test]
fn a_record_of_an_older_round_of_full_syncs_does_not_count() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.active = false);
    bench.worker.round.set(Some(2));
    assert!(bench.call(QUESTION, ANSWER));
    assert_eq!(bench.counted(Outcome::UnknownAgent), 1);
}

#[test]
fn a_refusal_that_needs_the_body_waits_for_it() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.active = false);
    let mut stream = bench.held(&[(":path", "/mcp")]);
    assert!(bench.host.replies.borrow().is_empty());
    let body = r#"{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "x"}}"#;
    bench.body(&mut stream, body);
    let reply = bench.host.replies.borrow()[0].clone();
    let answer: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(answer["id"], 7);
    assert!(answer["error"]["message"].as_str().unwrap().contains("inactive"));
}

#[test]
fn the_upstream_is_asked_for_uncompressed_answers_unless_configured_otherwise() {
    for (config, expected) in [("", "identity"), (r#", "accept_encoding": "keep""#, "gzip, br")] {
        let bench = Bench::new(config);
        bench.begin(&[("accept-encoding", "gzip, br")], false);
        assert_eq!(bench.host.request_headers().get("accept-encoding"), Some(expected.as_bytes()));
    }
}
