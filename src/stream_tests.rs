use super::*;
use crate::config::Config;
use crate::detect::window::Window;
use crate::host::Stored;
use crate::host::fake::Fake;
use crate::wire::{Action, AgentPolicy, KillReport};

/// A worker, its host, and an agent with the kill switch on.
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
        let mut policy: AgentPolicy =
            serde_json::from_str(r#"{"agent_id": "a", "active": true, "kill_switch_enabled": true}"#).unwrap();
        change(&mut policy);
        let bytes = Kept { record: Record::new(&policy), round: 1 }.encode(&[]);
        self.host.shared.borrow_mut().insert(AgentKey::new("a").as_str().to_owned(), (bytes, 1));
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

    /// A request with this body, and its answer if it is forwarded. True if it was.
    fn call(&self, body: &str, answer: &str) -> bool {
        self.headers(&[]);
        let mut stream = Stream::new(Rc::clone(&self.worker));
        if stream.request_headers(&self.host, false) == Flow::Continue {
            return true;
        }
        if self.host.replies.borrow().is_empty() {
            *self.host.body.borrow_mut() = body.as_bytes().to_vec();
            stream.request_body(&self.host, body.len(), true);
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
        *self.host.chunk.borrow_mut() = body.as_bytes().to_vec();
        stream.response_body(&self.host, body.len(), true);
    }

    fn counted(&self, outcome: Outcome) -> u64 {
        self.host.metric(Metric::Requests(outcome))
    }

    fn reports(&self) -> Vec<KillReport> {
        let shared = self.host.shared.borrow();
        let slots = shared.iter().filter(|(key, (bytes, _))| key.starts_with("aks/out/") && !bytes.is_empty());
        slots.map(|(_, (bytes, _))| serde_json::from_slice(bytes).unwrap()).collect()
    }
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
    assert!(bench.host.lines.borrow()[0].starts_with("agent a deactivated: the same input 6 times"));
}

#[test]
fn an_excerpt_is_kept_where_the_operator_asks_for_it() {
    let bench = Bench::new(r#", "evidence": "excerpt""#);
    while bench.call(QUESTION, ANSWER) {}
    assert_eq!(bench.reports()[0].excerpt.as_deref(), Some("Where is my parcel, please?"));
}

#[test]
fn a_worker_that_comes_second_refuses_and_does_not_report() {
    let bench = Bench::new("");
    for _ in 0..5 {
        bench.call(QUESTION, ANSWER);
    }
    bench.headers(&[]);
    let mut stream = Stream::new(Rc::clone(&bench.worker));
    assert_eq!(stream.request_headers(&bench.host, false), Flow::Hold);
    // Another worker kills the agent while this one waits for the body.
    let kept = Kept::decode(&bench.host.get(AgentKey::new("a").as_str()).bytes).unwrap();
    let killed =
        Kept { record: kept.record.killed(), ..kept }.encode(&bench.host.get(AgentKey::new("a").as_str()).bytes);
    bench.host.shared.borrow_mut().insert(AgentKey::new("a").as_str().to_owned(), (killed, 9));
    *bench.host.body.borrow_mut() = QUESTION.into();
    stream.request_body(&bench.host, QUESTION.len(), true);
    assert_eq!(bench.host.replies.borrow()[0].status, 403);
    assert!(bench.reports().is_empty());
}

#[test]
fn an_agent_activated_while_its_request_was_judged_is_not_killed() {
    let bench = Bench::new("");
    for _ in 0..5 {
        bench.call(QUESTION, ANSWER);
    }
    bench.headers(&[]);
    let mut stream = Stream::new(Rc::clone(&bench.worker));
    stream.request_headers(&bench.host, false);
    bench.policy(|policy| policy.generation = 1);
    *bench.host.body.borrow_mut() = QUESTION.into();
    assert_eq!(stream.request_body(&bench.host, QUESTION.len(), true), Flow::Continue);
    assert!(bench.host.replies.borrow().is_empty());
}

#[test]
fn a_request_costs_one_read_of_shared_data_and_so_does_its_answer() {
    let bench = Bench::new("");
    bench.call(QUESTION, ANSWER);
    bench.headers(&[]);
    bench.host.accesses.set((0, 0));
    let mut stream = Stream::new(Rc::clone(&bench.worker));
    stream.request_headers(&bench.host, false);
    assert_eq!(bench.host.accesses.get(), (1, 0));
    *bench.host.body.borrow_mut() = QUESTION.into();
    stream.request_body(&bench.host, QUESTION.len(), true);
    assert_eq!(bench.host.accesses.get(), (1, 1), "judged on what the headers read");
    bench.answer(&mut stream, 200, ANSWER);
    assert_eq!(bench.host.accesses.get(), (2, 2));
}

#[test]
fn of_a_long_body_only_the_end_is_asked_for_unless_it_does_not_tell() {
    let bench = Bench::new("");
    let said = |role| format!("{{\"role\": \"{role}\", \"content\": \"{}\"}}, ", "word ".repeat(500));
    let history = [said("user"), said("assistant")].concat().repeat(20);
    let history = QUESTION.replace("[{", &format!("[{history}{{"));
    let long = QUESTION.replace("parcel", &"parcel ".repeat(20_000));
    for (body, fetched) in [(&long, END + long.len()), (&history, END)] {
        bench.host.fetched.set(0);
        bench.call(body, ANSWER);
        assert_eq!(bench.host.fetched.get(), fetched);
    }
    assert_eq!(bench.counted(Outcome::Allowed), 2);
    bench.call(QUESTION, ANSWER);
    assert_eq!(
        bench.host.noted("kill_switch_score").unwrap(),
        b"1",
        "the same question as at the end of the long body"
    );
}

#[test]
fn a_window_written_by_another_worker_meanwhile_loses_nothing() {
    let bench = Bench::new("");
    bench.call(QUESTION, ANSWER);
    let other = Stored::clone(&bench.host.get(AgentKey::new("a").as_str()));
    *bench.host.before_set.borrow_mut() = Some(Box::new(move |host| {
        host.shared.borrow_mut().insert(AgentKey::new("a").as_str().to_owned(), (other.bytes, 77));
    }));
    bench.call(QUESTION, ANSWER);
    let score = bench.host.noted("kill_switch_score").unwrap();
    assert_eq!(score, b"1", "the second call saw the first");
}

#[test]
fn block_refuses_for_a_while_and_then_starts_afresh() {
    let bench = Bench::new("");
    bench.policy(|policy| {
        policy.action = Action::Block;
        policy.retry_after_seconds = 30;
    });
    let forwarded = (0..6).filter(|_| bench.call(QUESTION, ANSWER)).count();
    assert_eq!(forwarded, 5);
    bench.headers(&[]);
    Stream::new(Rc::clone(&bench.worker)).request_headers(&bench.host, false);
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
fn switched_off_means_no_body_is_touched() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.kill_switch_enabled = false);
    assert!((0..20).all(|_| bench.call(QUESTION, ANSWER)));
    assert_eq!(bench.counted(Outcome::Off), 20);
    assert_eq!(bench.host.get(AgentKey::new("a").as_str()).bytes.len(), Kept::BYTES, "no window");
}

#[test]
fn what_cannot_be_judged_is_forwarded_and_counted() {
    let bench = Bench::new(r#", "max_request_bytes": 2000"#);
    type Case<'a> = (&'a [(&'a str, &'a str)], bool, Outcome);
    let cases: [Case<'_>; 8] = [
        (&[("x-agent-id", "")], false, Outcome::NoAgent),
        (&[("x-agent-id", "no spaces")], false, Outcome::BadAgentId),
        (&[("x-agent-id", "stranger")], false, Outcome::UnknownAgent),
        (&[("content-length", "2001")], false, Outcome::TooLarge),
        (&[("content-encoding", "gzip")], false, Outcome::Compressed),
        (&[("upgrade", "websocket")], false, Outcome::NotHttp),
        (&[("content-type", "application/grpc+proto")], false, Outcome::NotHttp),
        (&[], true, Outcome::Empty),
    ];
    for (headers, ended, outcome) in cases {
        let before = bench.counted(outcome);
        bench.headers(headers);
        let flow = Stream::new(Rc::clone(&bench.worker)).request_headers(&bench.host, ended);
        assert_eq!((flow, bench.counted(outcome)), (Flow::Continue, before + 1), "{outcome:?}");
    }
    for (body, outcome) in [("{\"messages\": [", Outcome::Malformed), ("  ", Outcome::Empty)] {
        let before = bench.counted(outcome);
        assert!(bench.call(body, ANSWER));
        assert_eq!(bench.counted(outcome), before + 1, "{outcome:?}");
    }
    assert!(bench.host.replies.borrow().is_empty());
}

#[test]
fn a_body_that_grows_over_the_cap_is_let_go() {
    let bench = Bench::new(r#", "max_request_bytes": 2000"#);
    bench.headers(&[]);
    let mut stream = Stream::new(Rc::clone(&bench.worker));
    assert_eq!(stream.request_headers(&bench.host, false), Flow::Hold);
    assert_eq!(stream.request_body(&bench.host, 1999, false), Flow::Hold);
    assert_eq!(stream.request_body(&bench.host, 2001, false), Flow::Continue);
    assert_eq!(stream.request_body(&bench.host, 500, true), Flow::Continue);
    assert_eq!(bench.counted(Outcome::TooLarge), 1);
}

#[test]
fn trailers_end_a_body() {
    let bench = Bench::new("");
    bench.headers(&[]);
    let mut stream = Stream::new(Rc::clone(&bench.worker));
    stream.request_headers(&bench.host, false);
    *bench.host.body.borrow_mut() = QUESTION.into();
    assert_eq!(stream.request_body(&bench.host, QUESTION.len(), false), Flow::Hold);
    assert_eq!(stream.request_trailers(&bench.host), Flow::Continue);
    assert_eq!(bench.counted(Outcome::Allowed), 1);
}

#[test]
fn answers_that_are_not_the_upstreams_or_did_not_end_are_not_counted() {
    let bench = Bench::new("");
    for way in 0..3 {
        bench.headers(&[]);
        let mut stream = Stream::new(Rc::clone(&bench.worker));
        stream.request_headers(&bench.host, false);
        *bench.host.body.borrow_mut() = QUESTION.into();
        stream.request_body(&bench.host, QUESTION.len(), true);
        *bench.host.response.borrow_mut() = vec![(":status".into(), b"200".to_vec())];
        let details: &[u8] = if way == 0 { b"direct_response" } else { b"via_upstream" };
        bench.host.properties.borrow_mut().insert("response.code_details".into(), details.to_vec());
        stream.response_headers(&bench.host, false);
        *bench.host.chunk.borrow_mut() = ANSWER.into();
        let ended = way == 0;
        stream.response_body(&bench.host, if way == 1 { ANSWER.len() } else { 20 }, ended);
    }
    bench.call(QUESTION, ANSWER);
    let window =
        Window::decode(&bench.host.get(AgentKey::new("a").as_str()).bytes[Kept::BYTES..], 0, Counting::Progress);
    let answers: Vec<bool> = window.calls().iter().map(|call| call.answer != Answer::Unknown).collect();
    assert_eq!(answers, [false, false, false, true]);
}

#[test]
fn another_pass_over_a_judged_request_is_not_counted_again() {
    let bench = Bench::new("");
    bench.call(QUESTION, ANSWER);
    bench.headers(&[("x-envoy-original-url", "http://llm/v1/chat/completions")]);
    bench.host.note(CALL_NOTE, "0");
    let mut stream = Stream::new(Rc::clone(&bench.worker));
    assert_eq!(stream.request_headers(&bench.host, false), Flow::Continue);
    assert_eq!(bench.counted(Outcome::Redirected), 1);
    assert_eq!(bench.counted(Outcome::Allowed), 1);
}

#[test]
fn without_policy_traffic_passes_or_is_refused_as_configured() {
    let allow = Bench::new("");
    allow.worker.round.set(None);
    allow.headers(&[("x-agent-id", "b")]);
    assert_eq!(Stream::new(Rc::clone(&allow.worker)).request_headers(&allow.host, false), Flow::Continue);
    assert_eq!(allow.counted(Outcome::NoPolicy), 1);

    let deny = Bench::new(r#", "on_no_policy": "deny""#);
    deny.worker.round.set(None);
    deny.headers(&[("x-agent-id", "b")]);
    Stream::new(Rc::clone(&deny.worker)).request_headers(&deny.host, false);
    assert_eq!(deny.host.replies.borrow()[0].status, 503);
}

#[test]
fn a_record_of_an_older_round_of_full_syncs_is_gone() {
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
    bench.headers(&[(":path", "/mcp")]);
    let mut stream = Stream::new(Rc::clone(&bench.worker));
    assert_eq!(stream.request_headers(&bench.host, false), Flow::Hold);
    assert!(bench.host.replies.borrow().is_empty());
    let body = r#"{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "x"}}"#;
    *bench.host.body.borrow_mut() = body.into();
    stream.request_body(&bench.host, body.len(), true);
    let reply = bench.host.replies.borrow()[0].clone();
    let answer: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(answer["id"], 7);
    assert!(answer["error"]["message"].as_str().unwrap().contains("inactive"));
}

#[test]
fn the_upstream_is_asked_for_plain_answers_unless_told_otherwise() {
    for (config, expected) in [("", "identity"), (r#", "accept_encoding": "keep""#, "gzip, br")] {
        let bench = Bench::new(config);
        bench.headers(&[("accept-encoding", "gzip, br")]);
        Stream::new(Rc::clone(&bench.worker)).request_headers(&bench.host, false);
        assert_eq!(bench.host.request_headers().get("accept-encoding"), Some(expected.as_bytes()));
    }
}

#[test]
fn sessions_have_windows_of_their_own_in_a_bounded_number_of_slots() {
    let bench = Bench::new(r#", "session_header": "x-session", "session_slots": 4"#);
    for session in 0..40 {
        bench.headers(&[("x-session", &format!("s{session}"))]);
        let mut stream = Stream::new(Rc::clone(&bench.worker));
        stream.request_headers(&bench.host, false);
        *bench.host.body.borrow_mut() = QUESTION.into();
        stream.request_body(&bench.host, QUESTION.len(), true);
    }
    let windows = bench.host.shared.borrow().keys().filter(|key| key.starts_with("aks/w/")).count();
    assert_eq!(windows, 4);
}

#[test]
fn numbers_of_headers_are_digits_and_nothing_else() {
    for (text, value) in [("0", Some(0)), (" 204 ", Some(204)), ("4294967295", Some(u32::MAX as usize))] {
        assert_eq!(number(text.as_bytes()), value, "{text}");
    }
    for text in ["", " ", "-1", "1.5", "0x1", "12 3", "18446744073709551616", "\u{663}"] {
        assert_eq!(number(text.as_bytes()), None, "{text}");
    }
}
