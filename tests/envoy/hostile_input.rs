//! Whatever a client or an upstream sends, Envoy survives, its memory stays bounded, and the filter continues to work.

use std::time::Duration;

use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::{envoy_version, wait_until};
use lab::{Answer, prose};
use serde_json::json;

use crate::support::{
    CHAT, SIXTH_REFUSED, Shared, ask, by_hand, chunk, counter, head_by_hand, looping, repeated, run, sent,
};

static MESH: Shared = Shared::new(MeshOptions::default);

const MIB: u64 = 1 << 20;

/// Checks that the same Envoy still judges, and that no worker has lost its VM.
async fn assert_works(mesh: &Mesh, agent: &str) {
    mesh.enable(agent, json!({})).await;
    assert_eq!(looping(&mesh.caller(agent).without_keep_alive(), 6).await, SIXTH_REFUSED, "the filter still works");
    let log = mesh.envoy.log();
    assert!(!log.contains("[error][wasm]") && !log.contains("[critical][wasm]"), "no VM was lost: {log}");
}

#[test]
fn headers_and_paths_that_are_not_text_do_no_harm() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("odd", json!({})).await;
        let body = ask("hello").body_text();
        let odd: [(&str, &[u8]); 6] = [
            ("x-odd", b"\xff\xfe\x80"),
            ("x-agent-id", b"\xff\xfe"),
            ("x-agent-id", b"caf\xc3\xa9"),
            ("content-encoding", b"\xff"),
            ("accept-encoding", b"gzip\xff"),
            ("content-type", b"application/json; charset=\xe9"),
        ];
        for (name, value) in odd {
            let own = if name == "x-agent-id" { "" } else { "x-agent-id: odd\r\n" };
            let before = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: llm\r\n{own}{name}: ");
            let after = format!("\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
            let request = [before.as_bytes(), value, after.as_bytes()].concat();
            assert_eq!(sent(&mesh, request).await.status().await, 200, "{name}: {value:?}");
        }
        let path = b"POST /\xff\xfe/v1/messages HTTP/1.1\r\nhost: llm\r\nx-agent-id: odd\r\n\
                     content-length: 2\r\nconnection: close\r\n\r\n{}";
        assert!(sent(&mesh, path).await.status().await < 500);
        assert_works(&mesh, "after-odd-headers").await;
    });
}

#[test]
fn a_body_of_20_mb_passes_in_full_and_is_counted() {
    run(async {
        let mesh = MESH.get().await;
        let agent = "large";
        mesh.enable(agent, json!({})).await;
        let before = counter(&mesh, "requests.too_large").await;
        let request = ask(&"word ".repeat(4 << 20));
        let body = request.body_text();
        assert!(body.len() as u64 > 20 * MIB);
        assert_eq!(mesh.caller(agent).call(&request, None).await.unwrap().status, 200, "with a length");

        let mut raw = sent(&mesh, head_by_hand(CHAT, agent, "transfer-encoding: chunked\r\n")).await;
        for piece in body.as_bytes().chunks(300_000) {
            raw.send(chunk(piece)).await;
        }
        raw.send("0\r\n\r\n").await;
        // Envoy 1.36 applies request_body_buffer_limit only to requests whose headers were forwarded, and refuses longer
        // bodies than its listener buffers. docs/compatibility.md says so, and `holding.rs` shows the way out.
        let (status, passed) = if envoy_version() < (1, 37) { (413, 1) } else { (200, 2) };
        assert_eq!(raw.status().await, status, "without a length");

        let received = mesh.llm.received_from(agent);
        assert_eq!(received.len(), passed);
        assert!(received.iter().all(|request| request.body == body.as_bytes()), "the upstream got all of it");
        assert_eq!(mesh.envoy.stat("wasmcustom.kill_switch.requests.too_large").await - before, passed as u64);
        assert_works(&mesh, "after-large").await;
    });
}

#[test]
fn a_body_sent_byte_by_byte_is_judged_after_its_last_byte() {
    run(async {
        let mesh = MESH.get().await;
        let agent = "dripping";
        mesh.enable(agent, json!({})).await;
        let question = ask("Has order #1 been shipped by now, and if not, why has it not been shipped?");
        let answer = Answer::text("I could not determine the shipping status of that order.");
        assert_eq!(repeated(&mesh.caller(agent), &question, Some(&answer), 5).await, [200; 5]);
        let body = question.body_text();
        let mut raw = sent(&mesh, head_by_hand(CHAT, agent, &format!("content-length: {}\r\n", body.len()))).await;
        for byte in body.as_bytes() {
            assert!(raw.is_silent(), "there is no verdict before the body is complete");
            raw.send([*byte]).await;
            // The bytes are meant to arrive one by one.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(raw.status().await, 403);
        assert_eq!(mesh.llm.received_from(agent).len(), 5);
    });
}

#[test]
fn invented_agent_ids_do_not_grow_memory() {
    run(async {
        let mesh = Mesh::start().await;
        let ids = |from: usize, count: usize| (from..from + count).map(|number| format!("invented-{number}"));
        call_as(&mesh, ids(0, 200)).await;
        let before = memory(&mesh).await;
        call_as(&mesh, ids(200, 2000)).await;
        wait_until("the sidecar knows them, and Envoy knows that", SOON, || async {
            mesh.settled().await;
            mesh.api("GET", "/v1/agents/invented-2199", None).await.0 == 200
        })
        .await;
        mesh.settled().await;
        let after = memory(&mesh).await;
        let grown = after.saturating_sub(before);
        eprintln!("memory: {} KiB before, {} KiB grown by 2,000 invented agents", before >> 10, grown >> 10);
        assert!(grown < 32 * MIB, "{grown} bytes for 2,000 agents");
        assert_eq!(counter(&mesh, "requests.bad_agent_id").await, 0);
        assert_works(&mesh, "after-invented").await;
    });
}

/// Makes one call of each agent, twenty at a time.
async fn call_as(mesh: &Mesh, agents: impl Iterator<Item = String>) {
    let agents: Vec<String> = agents.collect();
    let shared = mesh.caller("");
    for some in agents.chunks(20) {
        let calls: Vec<_> = some
            .iter()
            .map(|agent| {
                let caller = shared.clone().as_agent(agent);
                tokio::spawn(async move { caller.call(&ask("hello"), None).await.unwrap().status })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.unwrap(), 200);
        }
    }
}

/// Returns the resident memory of the process in bytes: Envoy's own figures do not include the modules' memory.
async fn memory(mesh: &Mesh) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", mesh.envoy.id())).unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn senseless_answers_pass_in_full() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("babel", json!({})).await;
        let words = "word ".repeat(1 << 20);
        let events = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{words}\"}}}}]}}\n\n");
        let answers = [
            ("one event of 5 MB", "text/event-stream", events),
            (
                "one text of 5 MB",
                "application/json",
                format!("{{\"choices\":[{{\"message\":{{\"content\":\"{words}\"}}}}]}}"),
            ),
            ("brackets", "application/json", "[".repeat(300_000)),
            (
                "half a character",
                "application/json",
                "{\"choices\":[{\"message\":{\"content\":\"\\ud83d\"}}]}".to_owned(),
            ),
            ("a line without an end", "application/x-ndjson", "x".repeat(3 << 20)),
            ("nothing", "text/event-stream", String::new()),
            ("no JSON", "application/json", "<html>502</html>".to_owned()),
        ];
        let script = answers.clone().map(|(_, content_type, body)| {
            let headers = vec![("content-type".to_owned(), content_type.to_owned())];
            Answer { raw: Some(body), headers, ..Answer::default() }
        });
        mesh.llm.decide(move |ask| {
            let number: usize = ask.headers.get("x-case")?.to_str().ok()?.parse().ok()?;
            script.get(number).cloned()
        });
        for (number, (what, _, body)) in answers.into_iter().enumerate() {
            let caller = mesh.caller("babel").with("x-case", &number.to_string());
            let reply = caller.call(&ask(&prose::sentence(number as u64)), None).await.unwrap();
            assert_eq!((reply.status, reply.body == body), (200, true), "{what}");
        }
        assert_works(&mesh, "after-babel").await;
    });
}

#[test]
fn senseless_bodies_pass() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("senseless", json!({})).await;
        let bodies = [
            "[".repeat(200_000),
            format!("{}{}", "{\"messages\":".repeat(20_000), "1"),
            format!("{{\"messages\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000)),
            "{\"messages\": [{\"role\": \"user\", \"content\": \"\\ud800".to_owned(),
            "this is not JSON at all".to_owned(),
            "\u{0}\u{1}\u{2}".to_owned(),
            "null".to_owned(),
            "[]".to_owned(),
            " ".repeat(5000),
        ];
        for body in bodies {
            let start: String = body.chars().take(40).collect();
            assert_eq!(sent(&mesh, by_hand(CHAT, "senseless", "", &body)).await.status().await, 200, "{start:?}");
        }
        assert!(counter(&mesh, "requests.malformed").await >= 3);
        assert_works(&mesh, "after-senseless").await;
    });
}
