//! A model that repeats itself within one answer is reported, or cut off, through a real Envoy.

use lab::Answer;
use lab::Format;
use lab::agent::Kind;
use lab::answer::GateAt;
use lab::chat::{Caller, Conversation, Input, Request};
use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::{envoy_version, wait_until};
use serde_json::{Value, json};

use crate::support::{Shared, counter, replies, run, statuses};

static MESH: Shared = Shared::new(MeshOptions::default);

const LINE: &str = "I will look at the order again and then I will tell you. ";
const REASON: &str = "the model repeated the same 13 words 15 times in one answer";
const ROUNDS: usize = 80;

fn ask(format: Format, stream: bool) -> Request {
    let mut conversation = Conversation::new(format, stream);
    conversation.say(&Input::User("Where is my order?".to_owned()));
    conversation.request()
}

fn chant() -> Answer {
    Answer::text(LINE.repeat(ROUNDS))
}

/// Whether a client can tell a stream that was reset from one that has ended. Envoy 1.36 resets streams of HTTP/2 without an
/// error.
fn shows_reset(http2: bool) -> bool {
    !http2 || envoy_version() >= (1, 37)
}

/// Lets the model repeat itself until the client's stream ends. Returns how often the line has come. The upstream waits at
/// its end, and must notice that nobody reads any more.
async fn cut_off(mesh: &Mesh, (caller, http2): (&Caller, bool), request: &Request, agent: &str) -> usize {
    let endless = Answer { gate: agent.to_owned(), gate_at: GateAt::End, piece_delay_ms: 1, ..chant() };
    let received = std::sync::Mutex::new(String::new());
    let note = |body: &str| {
        body.clone_into(&mut received.lock().unwrap());
        false
    };
    let outcome = caller.call_until(request, Some(&endless), note).await;
    let is_reset = outcome.is_err();
    assert_eq!(is_reset, shows_reset(http2), "{agent}: the stream must not end as if the answer were complete");
    let closed = || async { mesh.llm.under_way(agent) == 0 };
    wait_until("the upstream's stream is closed", SOON, closed).await;
    let received = received.into_inner().unwrap();
    received.matches("order").count()
}

/// Checks that a kill was recorded for the repetition.
async fn assert_kill(mesh: &Mesh, agent: &str) {
    let kill = mesh.kills(agent, 1).await.remove(0);
    assert_eq!((&kill["reason"], &kill["period"], &kill["rounds"]), (&json!(REASON), &json!(13), &json!(15)), "{kill}");
    assert_eq!(kill.get("score"), None, "{kill}");
    assert_eq!(kill["deactivated_by"], "kill_switch");
}

#[test]
fn row_p15_observe_reports_the_repetition_and_the_client_gets_every_byte() {
    run(async {
        let mesh = MESH.get().await;
        let formats = [
            (Format::OpenAiChat, true),
            (Format::Anthropic, true),
            (Format::OllamaChat, true),
            (Format::Gemini, true),
            (Format::OpenAiChat, false),
        ];
        for (number, (format, stream)) in formats.into_iter().enumerate() {
            let agent = format!("chant-{number}");
            mesh.enable(&agent, json!({})).await;
            let reply = mesh.caller(&agent).call(&ask(format, stream), Some(&chant())).await.unwrap();
            assert_eq!(reply.status, 200);
            assert_eq!(reply.answer().text, chant().text, "{format:?}: the client gets every byte");
            let event = mesh.event(&agent, "answer_loop").await;
            let expected = json!({"reason": REASON, "period": 13, "rounds": 15, "words": 200, "answers": 1});
            for (name, value) in expected.as_object().unwrap() {
                assert_eq!(&event[name], value, "{format:?}: {event}");
            }
            assert_ne!(event["envoy"], Value::Null);
            assert_eq!(mesh.agent(&agent).await["active"], true);
            assert_eq!(mesh.events(&agent, "answer_loop").await.len(), 1, "{format:?}");
        }
        assert!(counter(&mesh, "answer_loops").await >= 5);
        assert!(mesh.sidecar_metric("kill_switch_answer_loops_total").await >= 5.0);
    });
}

#[test]
fn row_p15_cut_ends_the_stream_and_the_retry_is_refused_with_the_reason() {
    run(async {
        let mesh = MESH.get().await;
        let cases = [
            ("cut-openai", Format::OpenAiChat, true, false),
            ("cut-anthropic", Format::Anthropic, true, false),
            ("cut-ollama", Format::OllamaChat, true, false),
            ("cut-openai-http2", Format::OpenAiChat, true, true),
            ("cut-anthropic-http2", Format::Anthropic, true, true),
        ];
        for (agent, format, stream, http2) in cases {
            mesh.enable(agent, json!({"answer_loop": "cut"})).await;
            let caller = if http2 { mesh.caller(agent).over_http2() } else { mesh.caller(agent) };
            let lines = cut_off(&mesh, (&caller, http2), &ask(format, stream), agent).await;
            assert!((1..ROUNDS / 2).contains(&lines), "{agent}: {lines} of {ROUNDS} lines came");
            assert_kill(&mesh, agent).await;
            let retry = caller.call(&ask(format, stream), None).await.unwrap();
            assert_eq!(retry.status, 403, "{agent}");
            assert!(retry.body.contains(REASON), "{agent}: {}", retry.body);
        }
    });
}

#[test]
fn an_answer_that_is_not_streamed_is_cut_as_well() {
    run(async {
        let mesh = MESH.get().await;
        for http2 in [false, true] {
            let agent = if http2 { "cut-whole-http2" } else { "cut-whole" };
            mesh.enable(agent, json!({"answer_loop": "cut"})).await;
            let caller = if http2 { mesh.caller(agent).over_http2() } else { mesh.caller(agent) };
            let outcome = caller.call(&ask(Format::OpenAiChat, false), Some(&chant())).await;
            assert_eq!(outcome.is_err(), shows_reset(http2), "{agent}: {outcome:?}");
            assert_kill(&mesh, agent).await;
        }
    });
}

#[test]
fn a_cut_blocks_the_agent_or_stops_the_conversation_if_the_policy_says_so() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("cut-block", json!({"answer_loop": "cut", "action": "block"})).await;
        let caller = mesh.caller("cut-block");
        cut_off(&mesh, (&caller, false), &ask(Format::OpenAiChat, true), "cut-block").await;
        let retry = caller.call(&ask(Format::OpenAiChat, true), None).await.unwrap();
        assert_eq!(retry.status, 429);
        assert!(retry.body.contains(REASON), "{}", retry.body);
        assert_eq!(mesh.event("cut-block", "blocked").await["reason"], REASON);

        mesh.enable("cut-observe", json!({"answer_loop": "cut", "action": "observe"})).await;
        let reply = mesh.caller("cut-observe").call(&ask(Format::OpenAiChat, true), Some(&chant())).await.unwrap();
        assert_eq!(reply.answer().text, chant().text, "an agent that is only observed is never cut off");
        mesh.event("cut-observe", "answer_loop").await;
    });
}

#[test]
fn other_streams_on_the_same_connection_go_on_after_a_cut() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("cut-one", json!({"answer_loop": "cut"})).await;
        mesh.enable("cut-none", json!({"answer_loop": "cut"})).await;
        let caller = mesh.caller("cut-one").over_http2();
        let other = caller.clone().as_agent("cut-none");
        let waits = Answer { gate: "cut-none".to_owned(), ..Answer::text("A short answer in two pieces.") };
        let request = ask(Format::OpenAiChat, true);
        let answer = tokio::spawn({
            let request = request.clone();
            async move { other.call(&request, Some(&waits)).await }
        });
        wait_until("the other answer has begun", SOON, || async { mesh.llm.under_way("cut-none") == 1 }).await;
        cut_off(&mesh, (&caller, true), &request, "cut-one").await;
        mesh.llm.open("cut-none");
        assert_eq!(answer.await.unwrap().unwrap().answer().text, "A short answer in two pieces.");
        assert_eq!(statuses(&replies(Kind::Chatty, &mesh.caller("cut-none"), 3).await), [200; 3]);
    });
}
