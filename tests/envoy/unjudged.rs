//! `on_unjudged: deny`: what cannot be judged is refused in the format of the client's API and never reaches the upstream.

use lab::mesh::{Mesh, MeshOptions};
use serde_json::{Value, json};

use crate::support::{CHAT, ask, by_hand, counter, run, sent};

/// Sends a request and returns its status and the JSON of its body, or null.
async fn answer(mesh: &Mesh, request: String) -> (u16, Value) {
    let answer = sent(mesh, request).await.to_end().await;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| serde_json::from_str(body).unwrap_or_default());
    (status, body.unwrap_or_default())
}

async fn mesh(hold: &str) -> Mesh {
    let filter = json!({"on_unjudged": "deny", "max_request_bytes": 65536, "hold": hold});
    let mesh = Mesh::with(MeshOptions { filter, ..MeshOptions::default() }).await;
    mesh.enable("strict", json!({})).await;
    mesh.enable("observed", json!({"action": "observe"})).await;
    mesh
}

#[test]
fn calls_that_cannot_be_judged_are_refused_and_everything_else_is_forwarded() {
    run(async {
        for hold in ["headers", "body"] {
            let mesh = mesh(hold).await;
            let body = ask("hello").body_text();
            let long = ask(&"word ".repeat(40_000)).body_text();
            let refused = [
                ("a false encoding", by_hand(CHAT, "strict", "content-encoding: gzip", &body)),
                ("not JSON", by_hand(CHAT, "strict", "", "{\"messages\": [}")),
                ("too long", by_hand(CHAT, "strict", "", &long)),
            ];
            let count = refused.len() as u64;
            for (what, request) in refused {
                let (status, body) = answer(&mesh, request).await;
                assert_eq!(
                    (status, &body["error"]["code"]),
                    (403, &json!("call_not_judged")),
                    "{hold}, {what}: {body}"
                );
            }
            let (status, _) = answer(&mesh, by_hand(CHAT, "strict", "content-type: application/grpc", &body)).await;
            // Envoy turns a refusal of gRPC into a gRPC status.
            assert_eq!(status, 200, "{hold}");
            assert_eq!(counter(&mesh, "requests.refused_unjudged").await, count + 1, "{hold}");
            let reached = mesh.llm.received_from("strict");
            assert!(reached.is_empty(), "{hold}: {reached:?}");

            for request in [
                by_hand(CHAT, "strict", "content-encoding: Identity", &body),
                by_hand("POST /v1/embeddings", "strict", "content-encoding: gzip", &body),
                by_hand(CHAT, "observed", "content-encoding: gzip", &body),
            ] {
                assert_eq!(answer(&mesh, request).await.0, 200, "{hold}");
            }
        }
    });
}
