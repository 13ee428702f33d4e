//! A request is held until it is judged, in both ways of holding. Requests that cannot be held pass.

use std::sync::Arc;

use lab::EnvoyConfig;
use lab::Filter;
use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::{envoy_version, wait_until};
use lab::raw::Raw;
use serde_json::{Value, json};

use crate::support::{
    CHAT, SIXTH_REFUSED, Shared, ask, by_hand, chunk, counter, deactivated, head_by_hand, looping, run, sent,
};

/// `hold: headers`: nothing is forwarded before the verdict.
static HEADERS: Shared =
    Shared::new(|| MeshOptions { filter: json!({"max_request_bytes": MAX_BODY}), ..MeshOptions::default() });
/// `hold: body`, for meshes that cannot set Envoy's flag: the headers are forwarded and the body waits.
static BODY: Shared = Shared::new(|| hold_body(json!({"hold": "body", "max_request_bytes": MAX_BODY})));

/// Returns the options of a mesh without Envoy's flag.
fn hold_body(filter: Value) -> MeshOptions {
    let without_flag = |config: EnvoyConfig| EnvoyConfig {
        filter: config.filter.map(|filter| Filter { hold: false, ..filter }),
        ..config
    };
    MeshOptions { filter, envoy: Box::new(without_flag), ..MeshOptions::default() }
}

/// The longest body that is held. Envoy 1.36 holds at most 1 MiB with `hold: headers`.
const MAX_BODY: usize = 1 << 19;
const CHUNKED: &str = "transfer-encoding: chunked\r\n";

/// Returns both meshes with the value of `hold`, and switches the kill switch on for an agent.
async fn both(agent: &str) -> [(&'static str, Arc<Mesh>); 2] {
    let meshes = [("headers", HEADERS.get().await), ("body", BODY.get().await)];
    for (_, mesh) in &meshes {
        mesh.enable(agent, json!({})).await;
    }
    meshes
}

/// Sends bytes on a new connection, and returns the status of the answer.
async fn status(mesh: &Mesh, request: impl AsRef<[u8]>) -> u16 {
    sent(mesh, request).await.status().await
}

#[test]
fn the_request_that_shows_the_loop_never_reaches_the_upstream_in_full() {
    run(async {
        for (hold, mesh) in both("looper").await {
            assert_eq!(looping(&mesh.caller("looper"), 6).await, SIXTH_REFUSED, "{hold}");
            assert_eq!(looping(&mesh.caller("looper"), 4).await, [403; 4], "{hold}");
            let received = mesh.llm.received_from("looper");
            assert_eq!(received.iter().filter(|request| request.whole).count(), 5, "{hold}");
            if hold == "headers" {
                assert_eq!(received.len(), 5, "the upstream does not even get the headers of the sixth request");
            }
        }
    });
}

#[test]
fn a_request_that_is_held_while_its_agent_is_deactivated_is_refused() {
    run(async {
        let mesh = Mesh::start().await;
        mesh.enable("held", json!({})).await;
        let body = ask("Has the order been shipped?").body_text();
        let request = by_hand(CHAT, "held", "", &body);
        let (first, rest) = request.split_at(request.len() - 10);
        let mut held = Vec::new();
        for _ in 0..20 {
            let mut raw = Raw::connect(mesh.envoy.address()).await;
            raw.send(first).await;
            held.push(raw);
        }
        wait_until("Envoy holds all requests", SOON, || async {
            mesh.envoy.stat("http.agents.downstream_rq_active").await == held.len() as u64
        })
        .await;
        mesh.deactivate("held").await;
        mesh.settled().await;
        for raw in &mut held {
            raw.send(rest).await;
            assert_eq!(raw.status().await, 403);
        }
        assert!(mesh.llm.received_from("held").is_empty(), "nothing reached the upstream");
        assert_eq!(counter(&mesh, "requests.refused_inactive").await, held.len() as u64);
    });
}

#[test]
fn bodies_without_a_length_are_judged_and_trailers_end_them() {
    run(async {
        for (agent, end) in [("chunked", "0\r\n\r\n"), ("trailers", "0\r\nx-checksum: 12\r\nx-more: yes\r\n\r\n")] {
            for (hold, mesh) in both(agent).await {
                let answer = "x-lab-answer: I could not determine the shipping status of that order.\r\n";
                let body = ask("Has the order that I placed last week been shipped by now?").body_text();
                let (first, second) = body.as_bytes().split_at(body.len() / 2);
                let head = format!("{}{answer}\r\n", head_by_hand(CHAT, agent, CHUNKED.trim_end()));
                let request = [head.as_bytes(), &chunk(first), &chunk(second), end.as_bytes()].concat();
                let mut statuses = Vec::new();
                for _ in 0..6 {
                    statuses.push(status(&mesh, &request).await);
                }
                assert_eq!(statuses, SIXTH_REFUSED, "{agent}, hold: {hold}");
                let whole = mesh.llm.received_from(agent).into_iter().filter(|request| request.whole);
                assert!(whole.into_iter().all(|request| request.body == body), "{agent}, hold: {hold}");
            }
        }
    });
}

#[test]
fn bodies_over_the_limit_pass_in_full_and_are_counted() {
    run(async {
        for (hold, mesh) in both("large").await {
            let before = counter(&mesh, "requests.too_large").await;
            let body = ask(&"word ".repeat(300_000)).body_text();
            assert_eq!(status(&mesh, by_hand(CHAT, "large", "", &body)).await, 200, "{hold}");
            let (first, rest) = body.as_bytes().split_at(MAX_BODY + 1);
            let mut raw = sent(&mesh, head_by_hand(CHAT, "large", CHUNKED)).await;
            raw.send(chunk(first)).await;
            // If one read brought the whole body, Envoy 1.36 would refuse the body before the filter can release it.
            wait_until("the body is released", SOON, || async {
                counter(&mesh, "requests.too_large").await - before == 2
            })
            .await;
            raw.send([chunk(rest).as_slice(), b"0\r\n\r\n"].concat()).await;
            assert_eq!(raw.status().await, 200, "{hold}");
            assert!(mesh.llm.received_from("large").iter().all(|request| request.body == body), "{hold}");
        }
    });
}

#[test]
fn a_body_of_several_megabytes_is_judged() {
    run(async {
        let request = ask(&"word ".repeat(600_000));
        // Envoy 1.36 applies request_body_buffer_limit only to requests whose headers were forwarded.
        let held_at_headers = if envoy_version() < (1, 37) { (413, 0) } else { (200, 1) };
        let cases = [
            ("headers", MeshOptions::default(), held_at_headers),
            ("body", hold_body(json!({"hold": "body"})), (200, 1)),
        ];
        for (hold, options, expected) in cases {
            let mesh = Mesh::with(options).await;
            mesh.enable("long", json!({})).await;
            let status = mesh.caller("long").call(&request, None).await.unwrap().status;
            assert_eq!((status, counter(&mesh, "requests.allowed").await), expected, "{hold}");
        }
    });
}

#[test]
fn requests_without_a_body_pass() {
    run(async {
        for (hold, mesh) in both("bodiless").await {
            let before = counter(&mesh, "requests.empty").await;
            for start in ["GET /v1/models", "HEAD /v1/models", "POST /v1/chat/completions", "DELETE /v1/files/1"] {
                let end = if start.starts_with("POST") { "content-length: 0\r\n\r\n" } else { "\r\n" };
                let request = format!("{}{end}", head_by_hand(start, "bodiless", ""));
                assert_eq!(status(&mesh, request).await, 200, "{start}, hold: {hold}");
            }
            assert_eq!(counter(&mesh, "requests.empty").await - before, 4, "{hold}");
        }
    });
}

#[test]
fn a_client_that_waits_for_permission_to_send_its_body_gets_it() {
    run(async {
        for (hold, mesh) in both("polite").await {
            let body = ask("hello").body_text();
            let request = by_hand(CHAT, "polite", "expect: 100-continue", &body);
            let (head, _) = request.split_at(request.len() - body.len());
            let mut raw = sent(&mesh, head).await;
            raw.until("100 Continue").await;
            raw.send(&body).await;
            raw.until("200 OK").await;
            raw.until("chat.completion").await;
            assert_eq!(mesh.llm.received_from("polite").len(), 1, "{hold}");
        }
    });
}

#[test]
fn upgrades_and_grpc_pass_for_an_active_agent_and_are_refused_for_an_inactive_one() {
    run(async {
        for (hold, mesh) in both("other").await {
            let before = counter(&mesh, "requests.not_http").await;
            let mut socket = sent(&mesh, upgrade("other")).await;
            assert_eq!(socket.status().await, 101, "{hold}");
            socket.send("anybody there?").await;
            socket.until("anybody there?").await;
            let grpc = format!("{}\r\n{}", head_by_hand(CHAT, "other", GRPC), "0\r\n\r\n");
            assert_eq!(status(&mesh, grpc).await, 200, "{hold}");
            assert_eq!(counter(&mesh, "requests.not_http").await - before, 2, "{hold}");

            mesh.deactivate("other").await;
            mesh.settled().await;
            assert_eq!(status(&mesh, upgrade("other")).await, 403, "{hold}: an upgrade");
            // The request has no end, and the refusal must not wait for it.
            let open = format!("{}\r\n", head_by_hand("POST /chat.Chat/Talk", "other", GRPC));
            let answer = sent(&mesh, open).await.until("\r\n\r\n").await;
            assert!(answer.contains("grpc-status: 7"), "{hold}: gRPC status 7 is permission denied: {answer}");
        }
    });
}

#[test]
fn a_refusal_that_depends_on_the_body_is_worded_for_it() {
    run(async {
        let call = r#"{"jsonrpc": "2.0", "id": "n-7", "method": "tools/call", "params": {"name": "lookup"}}"#;
        for (hold, mesh) in both("caller").await {
            deactivated(&mesh, "caller").await;
            let mut raw = sent(&mesh, by_hand("POST /mcp", "caller", "", call)).await;
            assert_eq!(raw.status().await, 200, "{hold}: an error of JSON-RPC");
            let answer = raw.until("agent_inactive").await;
            assert!(answer.contains(r#""id": "n-7", "error""#), "{hold}: {answer}");
        }
    });
}

const GRPC: &str = "content-type: application/grpc\r\ntransfer-encoding: chunked\r\nte: trailers";

fn upgrade(agent: &str) -> String {
    format!(
        "GET /socket HTTP/1.1\r\nhost: llm\r\nx-agent-id: {agent}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-key: bGFib3JhdG9yeSBrZXkhIQ==\r\nsec-websocket-version: 13\r\n\r\n"
    )
}

#[test]
fn nothing_changes_for_an_agent_whose_kill_switch_is_off() {
    run(async {
        for (hold, mesh) in both("off").await {
            mesh.enable("off", json!({"kill_switch_enabled": false})).await;
            assert_eq!(looping(&mesh.caller("off").with("accept-encoding", "gzip"), 12).await, [200; 12], "{hold}");
            let received = mesh.llm.received_from("off");
            assert!(received.iter().all(|request| request.header("accept-encoding") == "gzip"), "{hold}");
            assert_eq!(received.last().map(|request| request.json()["model"].clone()), Some(Value::from("mock-1")));
        }
    });
}
