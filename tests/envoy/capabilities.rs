//! The shipped configurations let the filter call what it needs, and nothing else.
//!
//! All tests with Envoy run with the list of `envoy/envoy.yaml`. The tests here find out which functions are really used.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::wait_until;
use lab::{Answer, EnvoyConfig, Filter, capabilities};
use serde_json::{Value, json};

use crate::support::{CHAT, SIXTH_REFUSED, ask, by_hand, chunk, counter, head_by_hand, looping, repeated, run, sent};

/// Functions that are used only when the module cannot go on: std writes to stderr that memory has run out.
const LAST_RESORT: [&str; 1] = ["fd_write"];
/// Functions of the module that Envoy always calls, whatever is allowed.
const ALWAYS: [&str; 2] = ["_initialize", "proxy_on_memory_allocate"];

#[test]
fn what_is_used_is_what_is_allowed() {
    run(async {
        let mesh = exercised(|filter| filter.capabilities.clear()).await;
        let allowed: BTreeSet<String> = capabilities::allowed().into_iter().collect();
        let expected: BTreeSet<String> =
            allowed.into_iter().filter(|name| !LAST_RESORT.contains(&name.as_str())).collect();
        // Some functions are called a little later, such as those that end a stream.
        let _ = tokio::time::timeout(SOON, async {
            while !expected.is_subset(&used(&mesh.envoy.log())) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await;
        let used = used(&mesh.envoy.log());
        let missing: Vec<_> = used.difference(&expected).collect();
        let superfluous: Vec<_> = expected.difference(&used).collect();
        assert!(used == expected, "missing: {missing:?}, superfluous: {superfluous:?}");
    });
}

#[test]
fn nothing_that_the_filter_needs_is_refused() {
    run(async {
        let mesh = exercised(|_| ()).await;
        let log = mesh.envoy.log();
        assert!(used(&log).contains("proxy_http_call"), "the calls are logged");
        assert!(!log.contains("restricted"), "{:?}", log.lines().find(|line| line.contains("restricted")));
    });
}

#[test]
fn envoy_refuses_a_function_that_is_not_allowed() {
    run(async {
        let options = MeshOptions {
            envoy: Box::new(|config| {
                changed(config, |filter| filter.capabilities.retain(|name| name != "proxy_http_call"))
            }),
            sidecar_runs: false,
            ..MeshOptions::default()
        };
        let mesh = Mesh::with(options).await;
        wait_until("the call to the sidecar is refused", SOON, || async {
            mesh.envoy.log().contains("restricted proxy-wasm capability: proxy_http_call")
        })
        .await;
        assert_eq!(looping(&mesh.caller("stranger"), 3).await, [200; 3], "traffic flows without policies");
    });
}

#[test]
fn every_shipped_configuration_has_the_same_list() {
    let expected: BTreeSet<String> = capabilities::allowed().into_iter().collect();
    assert!(expected.len() > 30, "{expected:?}");
    for file in ["envoy/envoy.yaml", "envoy/istio-envoyfilter.yaml", "deploy/compose/envoy.yaml"] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        let manifest: Value = serde_yaml_ng::from_str(&text).unwrap();
        let bootstrap = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0";
        let filter = manifest.pointer(bootstrap).or_else(|| manifest.pointer("/spec/configPatches/0/patch/value"));
        let config = &filter.unwrap_or_else(|| panic!("{file} has the filter"))["typed_config"]["config"];
        let list = config["capability_restriction_config"]["allowed_capabilities"].as_object();
        let names: BTreeSet<String> = list.unwrap_or_else(|| panic!("{file} has a list")).keys().cloned().collect();
        assert_eq!(names, expected, "{file}");
    }
}

/// Starts a mesh whose Envoy logs every call of a function, and does everything in it that needs one: configuration by
/// environment, sync, a kill and its report, scores, metrics, streams, trailers, an answer that is cut, and headers that are changed.
async fn exercised(change: fn(&mut Filter)) -> Mesh {
    let options = MeshOptions {
        workers: 1,
        filter: json!({"agent_id": [{"path_prefix": "/agents/"}, {"header": "x-agent-id"}]}),
        envoy: Box::new(move |config| {
            let config = EnvoyConfig { upstream_http2: true, ..config };
            changed(changed(config, token_from_environment), change)
        }),
        wasm_log: "trace",
        ..MeshOptions::default()
    };
    let mesh = Mesh::with(options).await;
    mesh.enable("looper", json!({})).await;
    assert_eq!(looping(&mesh.caller("looper"), 6).await, SIXTH_REFUSED);
    assert_eq!(mesh.kills("looper", 1).await.len(), 1);
    mesh.scores("looper", 6).await;
    assert_eq!(counter(&mesh, "kills").await, 1);

    mesh.enable("streams", json!({})).await;
    let trailers = vec![("x-cost".to_owned(), "3".to_owned())];
    let answer = Answer { pieces: 4, trailers, ..Answer::text("Once upon a time there was an end.") };
    assert_eq!(repeated(&mesh.caller("streams"), &ask("Tell me a long story."), Some(&answer), 1).await, [200]);
    let head = format!("{}\r\n", head_by_hand(CHAT, "streams", "transfer-encoding: chunked"));
    let body = chunk(ask("Tell me a short story.").body_text().as_bytes());
    let request = [head.as_bytes(), &body, b"0\r\nx-checksum: 12\r\n\r\n"].concat();
    assert_eq!(sent(&mesh, request).await.status().await, 200);

    mesh.enable("chant", json!({"answer_loop": "cut"})).await;
    let chant = Answer::text("I will look at the order again and then I will tell you. ".repeat(20));
    assert!(mesh.caller("chant").call(&ask("Where is my order?"), Some(&chant)).await.is_err(), "the answer is cut");

    let body = ask("hello").body_text();
    let request = by_hand("POST /agents/by-path/v1/chat/completions", "", "accept-encoding: gzip", &body);
    assert_eq!(sent(&mesh, request).await.status().await, 200);
    assert_eq!(mesh.llm.received_from("").len(), 1, "the path was changed, so the call reached the model");
    mesh
}

fn changed(mut config: EnvoyConfig, change: impl FnOnce(&mut Filter)) -> EnvoyConfig {
    config.filter.as_mut().map(change);
    config
}

/// Passes the token in the environment and not in the configuration, as `envoy/envoy.yaml` does.
fn token_from_environment(filter: &mut Filter) {
    let fields = filter.config.as_object_mut().unwrap();
    let token = fields.remove("token").unwrap();
    fields.insert("token_env".to_owned(), json!("KILL_SWITCH_TOKEN"));
    filter.environment.insert("KILL_SWITCH_TOKEN".to_owned(), token.as_str().unwrap().to_owned());
}

/// Returns the functions of Envoy and of the module that were called, by a log at level trace.
fn used(log: &str) -> BTreeSet<String> {
    let of_host = log.split("[vm->host] ").skip(1).filter_map(|call| call.split('(').next()?.rsplit('.').next());
    let of_module = log.split("[host->vm] ").skip(1).filter_map(|call| call.split('(').next());
    of_host.chain(of_module).filter(|name| !ALWAYS.contains(name)).map(str::to_owned).collect()
}
