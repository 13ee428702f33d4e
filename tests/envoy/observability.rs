//! What operators see: metrics, the access log, and a configuration error that names its field.

use agent_kill_switch::metrics;
use lab::chat::Request;
use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::{Envoy, wait_until, wait_until_some, wasm_module};
use lab::{Answer, EnvoyConfig, Filter, Format, MockLlm, envoy_yaml};
use serde_json::{Value, json};

use crate::support::{CHAT, SIXTH_REFUSED, Shared, ask, by_hand, looping, repeated, run, sent};

static MESH: Shared = Shared::new(|| MeshOptions {
    envoy: Box::new(|config| EnvoyConfig { access_log: Some(ACCESS_LOG.to_owned()), ..config }),
    ..MeshOptions::default()
});

const ACCESS_LOG: &str = "%FILTER_STATE(wasm.kill_switch_agent:PLAIN)% %FILTER_STATE(wasm.kill_switch_score:PLAIN)% \
                          %FILTER_STATE(wasm.kill_switch_verdict:PLAIN)% %RESPONSE_CODE% %RESPONSE_CODE_DETAILS%";

#[test]
fn every_metric_exists_from_the_start_in_envoy_and_for_prometheus() {
    run(async {
        let mesh = MESH.get().await;
        let (stats, prometheus) = (mesh.envoy.get("/stats").await, mesh.envoy.prometheus().await);
        for (_, name, _) in metrics::all() {
            assert!(stats.contains(&format!("wasmcustom.{name}: ")), "{name} in /stats");
            let name = name.replace('.', "_");
            assert!(prometheus.contains(&format!("# TYPE {name} ")), "{name} for Prometheus");
        }
    });
}

#[test]
fn every_kind_of_request_is_counted() {
    run(async {
        let mesh = Mesh::start().await;
        for (agent, settings) in [
            ("kill", json!({})),
            ("block", json!({"action": "block"})),
            ("observe", json!({"action": "observe"})),
            ("off", json!({"kill_switch_enabled": false})),
        ] {
            mesh.enable(agent, settings).await;
            looping(&mesh.caller(agent), 7).await;
        }
        looping(&mesh.caller("stranger"), 1).await;
        looping(&mesh.caller("no id"), 1).await;
        mesh.enable("odd", json!({})).await;
        let body = ask("hello").body_text();
        let gzip = format!("x-lab-script: {}", Answer { gzip: true, ..Answer::text("hello") }.to_header());
        for request in [
            by_hand(CHAT, "", "", &body),
            by_hand("GET /v1/models", "odd", "", ""),
            by_hand("POST /v1/embeddings", "odd", "", &body),
            by_hand(CHAT, "odd", "content-type: application/grpc", &body),
            by_hand(CHAT, "odd", "content-encoding: gzip", &body),
            by_hand(CHAT, "odd", &gzip, &body),
            by_hand(CHAT, "odd", "", "{\"messages\": [}"),
            by_hand(CHAT, "odd", "", &"x".repeat(9 << 20)),
        ] {
            let mut raw = sent(&mesh, request).await;
            assert_eq!(raw.status().await, 200);
            raw.to_end().await;
        }
        let expected = [
            // Five calls of each stopped loop, seven of the observed one, and the call whose answer could not be read.
            ("requests.allowed", 5 + 5 + 7 + 1),
            ("requests.tripped", 2),
            ("requests.refused_inactive", 1),
            ("requests.refused_blocked", 1),
            ("requests.off", 7),
            ("requests.unknown_agent", 1),
            ("requests.bad_agent_id", 1),
            ("requests.no_agent", 1),
            ("requests.empty", 1),
            ("requests.not_a_call", 1),
            ("requests.not_http", 1),
            ("requests.compressed", 1),
            ("requests.malformed", 1),
            ("requests.too_large", 1),
            ("kills", 1),
            ("blocks", 1),
            ("would_kills", 1),
            ("answers_unread", 1),
        ];
        let counted = async |name: &str| mesh.envoy.stat(&format!("wasmcustom.kill_switch.{name}")).await;
        for (name, count) in expected {
            wait_until(name, SOON, || async { counted(name).await >= count }).await;
        }
        for (name, count) in expected {
            assert_eq!(counted(name).await, count, "{name}");
        }
        assert!(counted("sync_age_seconds").await < 60);
        wait_until("the filter's own time is measured", SOON, || async {
            mesh.envoy.prometheus().await.contains("kill_switch_filter_us_count{} 20")
        })
        .await;
    });
}

#[test]
fn the_access_log_has_agent_score_and_verdict() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("logged", json!({})).await;
        assert_eq!(looping(&mesh.caller("logged"), 6).await, SIXTH_REFUSED);
        assert_eq!(looping(&mesh.caller("logged"), 1).await, [403]);
        let lines = wait_until_some("seven lines", SOON, || async {
            let lines = mesh.envoy.access_log().into_iter().filter(|line| line.contains("logged"));
            Some(lines.collect::<Vec<_>>()).filter(|lines| lines.len() == 7)
        })
        .await;
        assert_eq!(lines[0], "logged 0 allow 200 via_upstream");
        assert_eq!(lines[5], "logged 13 agent_inactive 403 agent_inactive", "the request that showed the loop");
        assert_eq!(lines[6], "logged - agent_inactive 403 agent_inactive", "a request that was not judged");
        let log = mesh.envoy.log();
        let line = log.lines().find(|line| line.contains("agent logged deactivated")).unwrap();
        assert!(line.contains("(score 13, threshold 10)"), "{line}");
    });
}

#[test]
fn the_name_of_a_tool_cannot_forge_a_line_of_the_log() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("forger", json!({})).await;
        let name = "grep\n[2024-01-15 10:30:00.000][1][critical][main] forged\r\u{1b}[2J\u{202e}";
        let call = json!({"id": "c1", "type": "function", "function": {"name": name, "arguments": "{}"}});
        let body = json!({"model": "mock-1", "messages": [
            {"role": "user", "content": "Where does the word occur in the sources of this project?"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "there is no such word in any of the files"},
        ]});
        let request = Request::new(Format::OpenAiChat, "/v1/chat/completions", body);
        let statuses = repeated(&mesh.caller("forger"), &request, None, 10).await;
        assert_eq!(statuses.last(), Some(&403), "{statuses:?}");
        let log = mesh.envoy.log();
        let line = log.lines().find(|line| line.contains("agent forger deactivated")).unwrap();
        assert!(line.contains("grep\u{FFFD}[2024") && line.contains("(score "), "{line}");
        assert!(!log.lines().any(|line| line.starts_with("[2024-01-15")), "{log}");
        assert!(!log.contains('\u{1b}') && !log.contains('\u{202e}'));
    });
}

#[test]
fn a_configuration_error_stops_envoy_with_a_line_that_names_the_field() {
    run(async {
        let llm = MockLlm::start().await;
        let cases: [(Value, &str); 3] = [
            (json!({"cluster": "kill-switch", "session_slots": 0}), "session_slots (0) must be a whole number"),
            (json!({"cluster": "kill-switch", "treshold": 5}), "treshold"),
            (json!({"hold": "body"}), "cluster"),
        ];
        for (config, words) in cases {
            let plain = EnvoyConfig::new(llm.address());
            let yaml = envoy_yaml(&plain.with_filter(Filter::new(wasm_module(), config.clone()), llm.address()));
            let log = Envoy::try_start(&yaml, 2).await.err().unwrap_or_else(|| panic!("Envoy starts with {config}"));
            let found =
                log.lines().any(|line| line.contains("agent kill switch: the configuration") && line.contains(words));
            assert!(found, "{config}: {log}");
        }
    });
}
