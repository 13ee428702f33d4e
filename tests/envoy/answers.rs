//! Answers are never delayed, and count only if the model gave them in full.
//!
//! The agents here count literally: a repeated question without answers scores 1 for each repeat, so an answer that
//! counts by mistake is noticed.

use lab::mesh::{Mesh, MeshOptions};
use lab::{Answer, EnvoyConfig};
use serde_json::{Value, json};

use crate::support::{CHAT, SIXTH_REFUSED, Shared, ask, by_hand, counter, head_by_hand, looping, repeated, run, sent};

static MESH: Shared = Shared::new(|| MeshOptions {
    envoy: Box::new(|config| EnvoyConfig {
        routes: routes(),
        clusters: vec![json!({"name": "nobody", "type": "STATIC", "load_assignment": {"cluster_name": "nobody"}})],
        ..config
    }),
    ..MeshOptions::default()
});
/// HTTP/2 to the upstream, whose answers end in trailers; the client's own `accept-encoding`; and a size limit above what
/// Envoy buffers.
static HTTP2: Shared = Shared::new(|| MeshOptions {
    filter: json!({"accept_encoding": "keep", "max_request_bytes": 16_777_216}),
    envoy: Box::new(|config| EnvoyConfig { upstream_http2: true, buffer_limit: Some(4 << 20), ..config }),
    ..MeshOptions::default()
});

const QUESTION: &str = "Has the order that I placed last week been shipped by now?";
const ANSWER: &str = "I could not determine the shipping status of that order.";

fn routes() -> Vec<Value> {
    let redirects = json!({"redirect_response_codes": [307], "max_internal_redirects": 2});
    vec![
        json!({"match": {"prefix": "/direct"}, "direct_response": {"status": 200, "body": {"inline_string": ANSWER}}}),
        json!({"match": {"prefix": "/nobody"}, "route": {"cluster": "nobody"}}),
        json!({"match": {"prefix": "/moved"}, "route": {"cluster": "llm", "internal_redirect_policy": redirects}}),
    ]
}

/// Asks the same question eight times at a path, where the upstream gives this answer, and returns the statuses.
async fn eight_calls(mesh: &Mesh, agent: &str, path: &str, answer: &Answer) -> Vec<u16> {
    mesh.enable(agent, json!({"counting": "literal"})).await;
    let script = format!("x-lab-script: {}", answer.to_header());
    let start = format!("POST {path}/v1/chat/completions");
    let mut statuses = Vec::new();
    for _ in 0..8 {
        let mut raw = sent(mesh, by_hand(&start, agent, &script, &ask(QUESTION).body_text())).await;
        statuses.push(raw.status().await);
        raw.to_end().await;
    }
    statuses
}

/// Checks that eight calls were judged, and that no answer was counted.
async fn assert_no_answer_counted(mesh: &Mesh, agent: &str) {
    let scores = mesh.scores(agent, 8).await;
    let mut counts: Vec<[u64; 2]> = scores
        .iter()
        .map(|score| ["similar_prompts", "similar_responses"].map(|name| score[name].as_u64().unwrap()))
        .collect();
    // Two calls within one millisecond on two workers may be reported in either order.
    counts.sort_unstable();
    assert_eq!(counts, [0, 1, 2, 3, 4, 5, 6, 7].map(|prompts| [prompts, 0]), "{agent}");
}

#[test]
fn a_streamed_answer_is_never_held_back() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("reader", json!({})).await;
        let script = Answer { pieces: 2, gate: "reader".to_owned(), ..Answer::text("one two") };
        let mut request = ask("Count to two.");
        request.body["stream"] = json!(true);
        let script = format!("x-lab-script: {}", script.to_header());
        let mut raw = sent(&mesh, by_hand(CHAT, "reader", &script, &request.body_text())).await;
        let seen = raw.until("data:").await;
        assert!(!seen.contains("[DONE]"), "the first event came before the second was sent: {seen}");
        mesh.llm.open("reader");
        raw.until("[DONE]").await;
    });
}

#[test]
fn replies_of_envoy_itself_do_not_count_as_answers() {
    run(async {
        let mesh = MESH.get().await;
        for (agent, path, status) in [("direct", "/direct", 200), ("nobody", "/nobody", 503)] {
            assert_eq!(eight_calls(&mesh, agent, path, &Answer::text(ANSWER)).await, [status; 8], "{agent}");
            assert_no_answer_counted(&mesh, agent).await;
        }
    });
}

#[test]
fn a_request_that_envoy_refuses_while_it_is_held_does_not_count() {
    run(async {
        let mesh = HTTP2.get().await;
        mesh.enable("endless", json!({})).await;
        for _ in 0..2 {
            // This is more than Envoy may buffer, but not the whole body.
            let head = head_by_hand(CHAT, "endless", "content-length: 8000000\r\n");
            assert_eq!(sent(&mesh, format!("{head}{}", "x".repeat(4_500_000))).await.status().await, 413);
        }
        assert_eq!(looping(&mesh.caller("endless"), 6).await, SIXTH_REFUSED);
        assert_eq!(mesh.scores("endless", 6).await.len(), 6, "only these six calls were judged");
    });
}

#[test]
fn failures_of_the_upstream_do_not_count_as_answers() {
    run(async {
        let mesh = MESH.get().await;
        for status in [429, 500, 302] {
            let agent = format!("failing-{status}");
            let failure = Answer { status, ..Answer::text(ANSWER) };
            assert_eq!(eight_calls(&mesh, &agent, "", &failure).await, [status; 8]);
            assert_no_answer_counted(&mesh, &agent).await;
        }
    });
}

#[test]
fn an_answer_that_is_cut_off_does_not_count() {
    run(async {
        let mesh = MESH.get().await;
        let cut = Answer { cut_after: Some(1), ..Answer::text(ANSWER) };
        assert_eq!(eight_calls(&mesh, "cut", "", &cut).await, [200; 8], "the upstream cuts the connection");
        assert_no_answer_counted(&mesh, "cut").await;

        mesh.enable("aborts", json!({"counting": "literal"})).await;
        let held = Answer { pieces: 8, gate: "never opened".to_owned(), ..Answer::text(ANSWER) };
        let mut request = ask(QUESTION);
        request.body["stream"] = json!(true);
        for _ in 0..8 {
            let script = format!("x-lab-script: {}", held.to_header());
            let mut raw = sent(&mesh, by_hand(CHAT, "aborts", &script, &request.body_text())).await;
            raw.until("data:").await;
        }
        assert_no_answer_counted(&mesh, "aborts").await;
    });
}

#[test]
fn uncompressed_answers_are_requested_and_compressed_ones_counted_as_unread() {
    run(async {
        let gzip = Answer { gzip: true, ..Answer::text(ANSWER) };
        for (shared, agent, asked) in [(&MESH, "identity", "identity"), (&HTTP2, "keep", "gzip, br")] {
            let mesh = shared.get().await;
            mesh.enable(agent, json!({"counting": "literal"})).await;
            let before = counter(&mesh, "answers_unread").await;
            let caller = mesh.caller(agent).with("accept-encoding", "gzip, br");
            for _ in 0..8 {
                let reply = caller.call(&ask(QUESTION), Some(&gzip)).await.unwrap();
                assert_eq!((reply.status, reply.header("content-encoding")), (200, "gzip"));
            }
            assert_no_answer_counted(&mesh, agent).await;
            assert_eq!(counter(&mesh, "answers_unread").await - before, 8);
            let received = mesh.llm.received_from(agent);
            assert!(received.iter().all(|request| request.header("accept-encoding") == asked), "{agent}");
        }
    });
}

#[test]
fn answers_that_end_in_trailers_count() {
    run(async {
        let mesh = HTTP2.get().await;
        mesh.enable("trailers", json!({})).await;
        let answer = Answer { trailers: vec![("x-cost".to_owned(), "3".to_owned())], ..Answer::text(ANSWER) };
        assert_eq!(repeated(&mesh.caller("trailers"), &ask(QUESTION), Some(&answer), 6).await, SIXTH_REFUSED);
    });
}

#[test]
fn an_internal_redirect_does_not_count_twice() {
    run(async {
        let mesh = MESH.get().await;
        mesh.llm.decide(|ask| {
            let location = ("location".to_owned(), "http://llm/v1/chat/completions".to_owned());
            let moved = Answer { status: 307, headers: vec![location], ..Answer::default() };
            Some(if ask.path.starts_with("/moved") { moved } else { Answer::text(ANSWER) })
        });
        for (number, counting) in [(1, "literal"), (2, "progress")] {
            let agent = format!("moved-{counting}");
            mesh.enable(&agent, json!({"counting": counting})).await;
            let mut request = ask(QUESTION);
            request.path = "/moved/v1/chat/completions".to_owned();
            assert_eq!(repeated(&mesh.caller(&agent), &request, None, 6).await, SIXTH_REFUSED, "{counting}");
            assert_eq!(mesh.llm.received_from(&agent).len(), 10, "five calls, each sent to both paths");
            assert_eq!(counter(&mesh, "requests.redirected").await, 5 * number);
            let kill = mesh.kills(&agent, 1).await.remove(0);
            assert_eq!((&kill["similar_prompts"], &kill["similar_responses"]), (&json!(5), &json!(4)), "{kill}");
        }
    });
}
