//! How an agent is identified: each source works, the sources are used in their order, and a malformed id is not replaced
//! by another source.

use lab::EnvoyConfig;
use lab::mesh::{Mesh, MeshOptions};
use lab::tls::{Peer, Tls};
use serde_json::{Value, json};

use crate::support::{Shared, ask, by_hand, counter, deactivated, run, sent};

static MESH: Shared = Shared::new(|| MeshOptions {
    filter: json!({"agent_id": [
        {"property": ["metadata", "filter_metadata", "envoy.filters.http.jwt_authn", "jwt_payload", "sub"]},
        {"path_prefix": "/agents/"},
        {"path_prefix": "/whole/", "strip": false},
        {"header": "x-agent-id"},
        {"api_key": "authorization"},
    ]}),
    envoy: Box::new(|config| EnvoyConfig { before: vec![jwt_filter()], ..config }),
    ..MeshOptions::default()
});

/// The claims `{"iss": "lab", "sub": "by-jwt"}`, signed with the key below.
const JWT: &str = "x-jwt: eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6ImxhYiJ9.\
                   eyJpc3MiOiJsYWIiLCJzdWIiOiJieS1qd3QifQ.kNwsIM_3GrLEeQ0U5vRCfW_hYmc4scKMuS8wrUMVbkU";
const JWT_KEY: &str = "YSBrZXkgZm9yIHRlc3RzLCBhbmQgZm9yIG5vdGhpbmcgZWxzZQ";

fn jwt_filter() -> Value {
    let key = json!({"keys": [{"kty": "oct", "kid": "lab", "alg": "HS256", "k": JWT_KEY}]});
    json!({
        "name": "envoy.filters.http.jwt_authn",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
            "providers": {"lab": {
                "issuer": "lab",
                "local_jwks": {"inline_string": key.to_string()},
                "from_headers": [{"name": "x-jwt"}],
                "payload_in_metadata": "jwt_payload",
            }},
            "rules": [{"match": {"prefix": "/"}, "requires": {"requires_any": {"requirements": [
                {"provider_name": "lab"}, {"allow_missing": {}},
            ]}}}],
        },
    })
}

const PATH: &str = "/v1/chat/completions";
/// The first half of `printf 'sk-lab-123' | sha256sum`.
const KEY_AGENT: &str = "key:5b1f26a118382850d23f404999e928e0";

/// Calls with this path and these header lines, and returns the response, head and body.
async fn call(mesh: &Mesh, path: &str, headers: &str) -> String {
    let body = ask("hello").body_text();
    let request = by_hand(&format!("POST {path}"), "", headers, &body).replace("x-agent-id: \r\n", "");
    sent(mesh, request).await.to_end().await
}

#[test]
fn each_source_names_the_agent_and_the_first_with_a_value_wins() {
    run(async {
        let mesh = MESH.get().await;
        for agent in ["by-jwt", "by-path", "by-whole", "by-header", KEY_AGENT] {
            deactivated(&mesh, agent).await;
        }
        let (header, key) = ("x-agent-id: by-header", "authorization: Bearer sk-lab-123");
        let (path, whole) = (format!("/agents/by-path{PATH}"), format!("/whole/by-whole{PATH}"));
        let everything = format!("{JWT}\r\n{header}\r\n{key}");
        let all_but_jwt = format!("{header}\r\n{key}");
        let cases: [(&str, &str, &str); 8] = [
            (PATH, JWT, "by-jwt"),
            (&path, "accept: */*", "by-path"),
            (&whole, "accept: */*", "by-whole"),
            (PATH, header, "by-header"),
            (PATH, key, KEY_AGENT),
            (&path, &everything, "by-jwt"),
            (&path, &all_but_jwt, "by-path"),
            (PATH, &all_but_jwt, "by-header"),
        ];
        for (path, headers, agent) in cases {
            let answer = call(&mesh, path, headers).await;
            assert!(answer.starts_with("HTTP/1.1 403"), "{path} {headers}: {answer}");
            assert!(answer.contains(&format!("Agent {agent} is inactive")), "{path} {headers}: {answer}");
        }
    });
}

#[test]
fn a_prefix_is_stripped_from_the_path_unless_configured_otherwise() {
    run(async {
        let mesh = MESH.get().await;
        let cases = [
            ("/agents/a1/v1/chat/completions?x=1", "/v1/chat/completions?x=1"),
            ("/agents/a1", "/"),
            ("/agents/a1?x=1", "/?x=1"),
            ("/whole/a1/v1/chat/completions", "/whole/a1/v1/chat/completions"),
        ];
        for (sent, expected) in cases {
            let answer = call(&mesh, sent, &format!("x-case: {sent}")).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{sent}: {answer}");
            let received = mesh.llm.received().into_iter().find(|request| request.header("x-case") == sent);
            assert_eq!(received.unwrap().path, expected, "{sent}");
        }
    });
}

#[test]
fn a_malformed_id_is_not_replaced_by_another_source() {
    run(async {
        let mesh = MESH.get().await;
        deactivated(&mesh, "by-header").await;
        let before = counter(&mesh, "requests.bad_agent_id").await;
        let too_long = format!("/agents/{}{PATH}", "x".repeat(129));
        for path in ["/agents/not%20one/v1/chat/completions", &too_long] {
            let answer = call(&mesh, path, "x-agent-id: by-header").await;
            assert!(
                answer.starts_with("HTTP/1.1 200"),
                "{path} has a malformed id and is not a call of by-header: {answer}"
            );
        }
        for headers in ["x-agent-id: by-header\r\nx-agent-id: other", "x-agent-id: other\r\nx-agent-id: by-header"] {
            let answer = call(&mesh, PATH, headers).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "two different ids are a malformed one: {answer}");
        }
        let answer = call(&mesh, PATH, "x-agent-id: ..").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(counter(&mesh, "requests.bad_agent_id").await - before, 5);
        let answer = call(&mesh, PATH, "x-agent-id: by-header\r\nx-agent-id: by-header").await;
        assert!(answer.starts_with("HTTP/1.1 403"), "the same id twice is one id: {answer}");
        let before = counter(&mesh, "requests.no_agent").await;
        assert!(call(&mesh, PATH, "accept: */*").await.starts_with("HTTP/1.1 200"), "a request without an id passes");
        assert_eq!(counter(&mesh, "requests.no_agent").await - before, 1);
    });
}

#[test]
fn a_certificate_names_the_agent_and_requests_without_an_id_are_refused_if_one_is_required() {
    const SPIFFE: &str = "spiffe://lab.test/agents/a7";
    let Some(tls) = Tls::make(SPIFFE) else { return };
    run(async {
        let socket = tls.transport_socket();
        let mesh = Mesh::with(MeshOptions {
            filter: json!({
                "agent_id": [{"property": ["connection", "uri_san_peer_certificate"]}, {"header": "x-agent-id"}],
                "require_agent": true,
            }),
            envoy: Box::new(|config| EnvoyConfig { transport_socket: Some(socket), ..config }),
            ..MeshOptions::default()
        })
        .await;
        deactivated(&mesh, SPIFFE).await;
        let cases = [
            (Peer::Certified, "someone-else", "403", "Agent spiffe://lab.test/agents/a7 is inactive"),
            (Peer::Anonymous, "someone-else", "200", "chat.completion"),
            (Peer::Anonymous, "no such id", "400", "bad_agent_id"),
            (Peer::Anonymous, "", "400", "missing_agent_id"),
        ];
        for (peer, header, status, words) in cases {
            let request = by_hand(&format!("POST {PATH}"), header, "", &ask("hello").body_text());
            let answer = tls.call(mesh.envoy.address(), peer, &request).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{peer:?} {header:?}: {answer}");
            assert!(answer.contains(words), "{peer:?} {header:?}: {answer}");
        }
    });
}
