//! The launchers with a real Envoy: it starts, forwards requests, reports statistics, and ends when its handle is dropped.

use std::time::Duration;

use lab::chat::Caller;
use lab::envoy_yaml::named;
use lab::mesh::SOON;
use lab::proc::{Envoy, Sidecar, SidecarOptions, wait_until, wait_until_some};
use lab::scenario::{self, Closes, first_refused};
use lab::{Answer, EnvoyConfig, Filter, MockLlm, envoy_yaml};
use serde_json::json;

#[tokio::test]
async fn every_scenario_passes_through_an_envoy_without_the_filter() {
    let llm = MockLlm::start().await;
    let envoy = Envoy::start(&envoy_yaml(&EnvoyConfig::new(llm.address())), 2).await;
    let mut sent = 0;
    for scenario in scenario::all() {
        let replies = scenario.play(&Caller::new(envoy.url(), scenario.name), &llm).await.unwrap();
        assert_eq!(first_refused(&replies), None, "{}", scenario.name);
        for (reply, step) in replies.iter().zip(&scenario.steps) {
            assert_eq!(reply.status, step.answer.status, "{}: {}", scenario.name, reply.body);
            let expected = if step.closes == Closes::InTheMiddle { "" } else { &step.answer.text };
            assert_eq!(reply.answer().text, expected, "{}", scenario.name);
        }
        assert_eq!(llm.received_from(scenario.name).len(), scenario.steps.len(), "{}", scenario.name);
        sent += scenario.steps.len() as u64;
    }
    wait_until("Envoy has counted them all", SOON, || async {
        let stats = envoy.stats().await;
        let [all, active] = ["total", "active"].map(|name| stats[&format!("http.agents.downstream_rq_{name}")]);
        (all, active) == (sent, 0)
    })
    .await;
    assert!(envoy.prometheus().await.contains("envoy_http_downstream_rq_total"));
    envoy.quit().await;
}

#[tokio::test]
async fn filters_access_log_limits_and_http2_are_as_configured() {
    let llm = MockLlm::start().await;
    let mut config = EnvoyConfig::new(llm.address());
    config.access_log = Some("%REQ(X-AGENT-ID)% %RESPONSE_CODE% %RESPONSE_CODE_DETAILS%".to_owned());
    config.before = vec![named("envoy.filters.http.cors", "envoy.extensions.filters.http.cors.v3.Cors")];
    config.routes = vec![json!({"match": {"path": "/closed"}, "direct_response": {"status": 418}})];
    config.buffer_limit = Some(2 << 20);
    config.upstream_http2 = true;
    let envoy = Envoy::start(&envoy_yaml(&config), 1).await;
    llm.enqueue([Answer { trailers: vec![("x-cost".into(), "1".into())], ..Answer::text("with trailers") }]);
    let step = &scenario::row("P7/ollama").steps[0];
    let reply = Caller::new(envoy.url(), "logged").call(&step.request, None).await.unwrap();
    assert_eq!(reply.answer().text, "with trailers");
    let closed = lab::http::client().get(format!("{}/closed", envoy.url())).send().await.unwrap();
    assert_eq!(closed.status(), 418);
    let lines = wait_until_some("two lines of access log", SOON, || async {
        Some(envoy.access_log()).filter(|lines| lines.len() == 2)
    })
    .await;
    assert_eq!(lines, ["logged 200 via_upstream", "- 418 direct_response"]);
}

#[tokio::test]
async fn a_configuration_that_envoy_refuses_is_reported_with_its_log() {
    let llm = MockLlm::start().await;
    let good = EnvoyConfig::new(llm.address());
    assert_eq!(Envoy::validate(&envoy_yaml(&good)), Ok(()));
    let mut bootstrap = good.bootstrap();
    bootstrap["static_resources"]["listeners"][0]["nonsense"] = json!(1);
    let refused = Envoy::validate(&bootstrap.to_string()).unwrap_err();
    assert!(refused.contains("nonsense"), "{refused}");
    let log = Envoy::try_start(&bootstrap.to_string(), 1).await.unwrap_err();
    assert!(log.contains("nonsense") && log.contains("ended with"), "{log}");
}

#[tokio::test]
async fn the_filter_is_configured_as_envoy_expects_it() {
    let llm = MockLlm::start().await;
    let filter = Filter::new("/does/not/exist.wasm", json!({"sidecar": "kill-switch"}));
    let config = EnvoyConfig::new(llm.address()).with_filter(filter, llm.address());
    let refused = Envoy::validate(&envoy_yaml(&config)).unwrap_err();
    assert!(refused.contains("/does/not/exist.wasm"), "only the module is wrong: {refused}");
    let filter = config.bootstrap()["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
        ["typed_config"]["http_filters"][0]["typed_config"]["config"]
        .clone();
    assert_eq!(filter["vm_config"]["vm_id"], "agent-kill-switch");
    assert_eq!(
        (&filter["allow_on_headers_stop_iteration"], &filter["failure_policy"]),
        (&json!(true), &json!("FAIL_RELOAD"))
    );
}

#[tokio::test]
async fn an_envoy_that_is_dropped_no_longer_listens() {
    let llm = MockLlm::start().await;
    let envoy = Envoy::start(&envoy_yaml(&EnvoyConfig::new(llm.address())), 1).await;
    let (url, id) = (envoy.url(), envoy.id());
    drop(envoy);
    assert!(lab::http::client().get(&url).send().await.is_err());
    assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "the process is reaped");
}

/// Only the launcher is tested, so the mock LLM takes the place of the sidecar.
#[tokio::test]
async fn a_sidecar_is_restarted_at_the_same_address() {
    let options = SidecarOptions {
        binary: Some(env!("CARGO_BIN_EXE_mock-llm").into()),
        arguments: ["--listen", "{listen}"].map(str::to_owned).to_vec(),
        ready_path: "/healthz".to_owned(),
        ..SidecarOptions::default()
    };
    let mut sidecar = Sidecar::stopped(options);
    let healthy = async |url: String| lab::http::client().get(url).send().await.is_ok();
    let url = format!("{}/healthz", sidecar.url());
    assert!(!healthy(url.clone()).await);
    for graceful in [true, false] {
        sidecar.resume().await;
        assert!(healthy(url.clone()).await);
        if graceful {
            sidecar.stop().await
        } else {
            sidecar.kill()
        }
        assert!(!healthy(url.clone()).await);
    }
    assert_eq!(sidecar.log().matches("listening on").count(), 2, "{}", sidecar.log());
}

#[tokio::test]
#[should_panic(expected = "timed out after 20ms and ")]
async fn a_wait_that_times_out_panics() {
    wait_until("something impossible", Duration::from_millis(20), || async { false }).await;
}

#[tokio::test]
async fn a_connection_per_call_reaches_every_worker() {
    let llm = MockLlm::start().await;
    let envoy = Envoy::start(&envoy_yaml(&EnvoyConfig::new(llm.address())), 2).await;
    let caller = Caller::new(envoy.url(), "spread").without_keep_alive();
    let step = &scenario::row("1").steps[0];
    wait_until("both workers had a connection", SOON, || async {
        caller.call(&step.request, None).await.unwrap();
        let stats = envoy.stats().await;
        let had = |worker: u32| stats.get(&format!("listener.agents.worker_{worker}.downstream_cx_total")).copied();
        had(0) > Some(0) && had(1) > Some(0)
    })
    .await;
}
