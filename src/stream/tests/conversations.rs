//! Conversations: which calls are compared, and what is stopped.

use super::*;
use crate::entries::Kind;

#[test]
fn conversations_have_windows_of_their_own_in_a_bounded_number_of_slots() {
    let bench = Bench::new(r#", "session_header": "x-session", "session_slots": 4"#);
    for session in 0..40 {
        let mut stream = bench.held(&[("x-session", &format!("s{session}"))]);
        bench.body(&mut stream, QUESTION);
        bench.answer(&mut stream, 200, ANSWER);
        assert_eq!(bench.score(), "0", "session {session}");
    }
    let windows = bench.host.shared.borrow().keys().filter(|key| key.starts_with("aks/4/w/")).count();
    assert_eq!(windows, 4);
}

#[test]
fn sixty_thousand_invented_sessions_stay_within_the_limit_of_memory() {
    let window_bytes = Window::max_bytes(20) + 16;
    for (config, most) in [
        (r#", "session_slots": 4096, "max_session_bytes": 1048576"#, (1 << 20) + 8 * window_bytes),
        ("", 256 * window_bytes),
    ] {
        let bench = Bench::new(config);
        for session in 0..60_000 {
            let mut stream = bench.held(&[("x-session-id", &format!("invented-{session}"))]);
            bench.body(&mut stream, QUESTION);
        }
        let shared = bench.host.shared.borrow();
        let slots = shared.iter().filter(|(key, _)| key.starts_with("aks/4/w/"));
        let bytes: usize = slots.map(|(key, (value, _))| key.len() + value.len()).sum();
        println!("{bytes} bytes with the settings {config:?}");
        assert!(bytes <= most, "{bytes} bytes");
        assert!(bytes > most / 2, "{bytes} bytes: the room is used");
    }
}

/// A call of a conversation that has this id. True if it was forwarded.
fn call_in(bench: &Bench, session: &str, body: &str) -> bool {
    let (mut stream, _) = bench.begin(&[("x-session-id", session)], false);
    if bench.host.replies.borrow().is_empty() {
        bench.body(&mut stream, body);
    }
    if bench.host.replies.borrow_mut().pop().is_some() {
        return false;
    }
    bench.answer(&mut stream, 200, ANSWER);
    true
}

#[test]
fn an_id_is_the_same_in_a_header_in_the_body_and_in_the_baggage() {
    let bench = Bench::new("");
    let in_body = QUESTION.replacen('{', r#"{"user": "\u00e9 \"1\"", "#, 1);
    let in_baggage = [("baggage", "a=b, session.id=%C3%A9%20%221%22;p")];
    let cases: [(&[(&str, &str)], &str); 3] =
        [(&[("x-session-id", " \u{e9} \"1\" ")], QUESTION), (&in_baggage, QUESTION), (&[], &in_body)];
    for (number, (headers, body)) in cases.into_iter().enumerate() {
        let mut stream = bench.held(headers);
        bench.body(&mut stream, body);
        bench.answer(&mut stream, 200, ANSWER);
        assert_eq!(bench.score(), ["0", "1", "4"][number], "{headers:?}");
    }
}

#[test]
fn with_the_scope_session_only_the_looping_conversation_is_stopped_and_for_a_while() {
    for (action, code) in [(Action::Deactivate, 403), (Action::Block, 429)] {
        let bench = Bench::new("");
        bench.policy(|policy| {
            policy.scope = Scope::Session;
            policy.action = action;
            policy.session_stop_seconds = 60;
        });
        let forwarded = (0..8).filter(|_| call_in(&bench, "s1", QUESTION)).count();
        assert_eq!(forwarded, 5);
        assert!(call_in(&bench, "s2", QUESTION) && bench.call(QUESTION, ANSWER), "other conversations go on");
        let [report] = bench.reports().try_into().unwrap();
        assert_eq!((report.scope, report.action), (Scope::Session, action));
        let session = report.session.unwrap();
        assert_eq!((session.id.as_deref(), session.key.len(), session.releases), (Some("s1"), 16, 0));
        assert_eq!(bench.host.metric(Metric::SessionsStopped), 1);
        assert_eq!(bench.counted(Outcome::RefusedSession), 2);

        bench.begin(&[("x-session-id", "s1")], false);
        let reply = bench.host.replies.borrow_mut().pop().unwrap();
        let error: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((reply.status, reply.details), (code, "session_stopped"));
        assert_eq!(error["error"]["session"], "s1");
        assert!(error["error"]["message"].as_str().unwrap().contains("the same input 6 times"), "{error}");

        bench.host.wait(60_000);
        assert!((0..5).all(|_| call_in(&bench, "s1", QUESTION)), "a fresh window when the time is up");
        assert!(!call_in(&bench, "s1", QUESTION));
    }
}

#[test]
fn a_conversation_that_a_person_lets_go_on_may_call_again_and_be_stopped_again() {
    let bench = Bench::new("");
    let sync = |stopped_sessions| {
        let policy = AgentPolicy { scope: Scope::Session, stopped_sessions, ..policy() };
        store_policy(&bench.host, &policy, 1).unwrap();
    };
    sync(vec![]);
    while call_in(&bench, "s1", QUESTION) {}
    sync(vec![]);
    assert!(!call_in(&bench, "s1", QUESTION), "the sidecar does not know of it yet");
    let key = bench.reports()[0].session.clone().unwrap().key;
    let released = StoppedSession {
        key,
        until_ms: 0,
        stopped_for_ms: Some(0),
        releases: 1,
        action: Action::Deactivate,
        reason: String::new(),
    };
    sync(vec![released.clone()]);
    assert!((0..5).all(|_| call_in(&bench, "s1", QUESTION)), "it was let go on");
    assert!(!call_in(&bench, "s1", QUESTION));
    sync(vec![released]);
    assert!(!call_in(&bench, "s1", QUESTION), "the release was of the stop before");
    assert_eq!(bench.reports().len(), 2);
    assert!(bench.reports().iter().any(|report| report.session.as_ref().is_some_and(|session| session.releases == 1)));
}

#[test]
fn a_loop_that_would_be_stopped_in_a_conversation_is_reported_once() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.action = Action::Observe);
    assert!((0..11).all(|_| call_in(&bench, "s1", QUESTION)));
    assert_eq!(bench.host.metric(Metric::WouldKills), 1);
}

#[test]
fn a_conversation_without_an_id_is_stopped_by_its_opening() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.scope = Scope::Session);
    let loops = with_history("Good morning!", 100);
    assert_eq!((0..8).filter(|_| bench.call(&loops, ANSWER)).count(), 5);
    assert!(bench.call(&with_history("Good evening!", 100), ANSWER));
    let session = bench.reports()[0].session.clone().unwrap();
    assert_eq!(session.id, None);
}

#[test]
fn a_conversation_without_an_id_begins_with_its_first_message() {
    let bench = Bench::new("");
    let hello = |said: &[&str]| {
        let message = |(n, text): (usize, &&str)| {
            format!(r#"{{"role": "{}", "content": "{text}"}}"#, if n % 2 == 0 { "user" } else { "assistant" })
        };
        let messages: Vec<String> = said.iter().enumerate().map(message).collect();
        format!(r#"{{"messages": [{}]}}"#, messages.join(", "))
    };
    let (question, answer) = ("Where is my parcel, please?", "I cannot find that parcel in the system.");
    let mut said = vec![question];
    let mut forwarded = 0;
    while bench.call(&hello(&said), ANSWER) {
        forwarded += 1;
        said.extend([answer, question]);
    }
    assert_eq!(forwarded, 5, "the call that had no history yet counts");
}

#[test]
fn an_inactive_agent_may_end_its_mcp_session() {
    let bench = Bench::new("");
    bench.policy(|policy| policy.active = false);
    for path in ["/mcp", "/api/v1/mcp"] {
        let end = [(":path", path), (":method", "DELETE"), ("mcp-session-id", "s1")];
        assert_eq!(bench.begin(&end, true).1, Flow::Continue, "{path}");
    }
    assert!(bench.host.replies.borrow().is_empty());
    bench.begin(&[(":path", "/v1/files/f1"), (":method", "DELETE")], true);
    bench.begin(&[(":path", "/v1/vector_stores/v1"), (":method", "DELETE"), ("mcp-session-id", "s1")], true);
    assert_eq!(bench.host.replies.borrow().len(), 2, "anything else is refused");
}

#[test]
fn the_sidecar_is_told_of_every_scored_call_and_of_its_answer() {
    let bench = Bench::new("");
    bench.call(QUESTION, ANSWER);
    bench.policy(|policy| policy.kill_switch_enabled = false);
    bench.call(QUESTION, ANSWER);
    let kinds: Vec<_> = bench.items_told().iter().map(|item| item.kind).collect();
    assert_eq!(kinds, [Kind::Common, Kind::Answer], "the call and its answer, and nothing once it is off");
}
