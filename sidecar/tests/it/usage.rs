//! What agents used and were refused: from the filters' reports to the API, the command line, events and alerts.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::process::{Process, binary, cli};
use crate::support::receiver::Receiver;
use crate::support::{Api, Sidecar, eventually, kill_with};

pub const PRICES: &str = "currency: USD\nmodels:\n  gpt-4.1*: {input: 2.00, output: 8.00}\n";

/// A report of what agents used and were refused.
pub fn report(agents: &[(&str, u64, Value)]) -> Value {
    let agent = |(id, refused, usage): &(&str, u64, Value)| json!({"agent_id": id, "requests": 1, "refused": refused, "usage": usage});
    json!({"envoy": "edge", "agents": agents.iter().map(agent).collect::<Vec<_>>()})
}

pub fn used(model: &str, calls: u64) -> Value {
    json!({"model": model, "calls": calls, "input_tokens": calls * 1_000, "output_tokens": calls * 100})
}

fn with_cost(mut used: Value, cost: Value) -> Value {
    used["cost"] = cost;
    used
}

/// Starts a sidecar with prices, in `dir`.
pub fn start_with_prices(dir: &Path) -> Process {
    std::fs::write(dir.join("prices.yaml"), PRICES).unwrap();
    Process::start(dir, &["--prices", "prices.yaml"])
}

/// Reports, and waits until what was reported is written.
pub async fn written(api: &Api, agents: &[(&str, u64, Value)]) {
    api.report("/v1/observations", report(agents)).await.ok();
    eventually("the observations are written", || async {
        let path = format!("/v1/agents/{}/usage", agents[0].0);
        let usage = api.get(&path).await;
        usage.status == 200 && !usage.json()["days"].as_array().unwrap().is_empty()
    })
    .await;
}

#[tokio::test]
async fn reports_add_up_by_day_and_model_for_each_agent_and_for_all() {
    let sidecar = Sidecar::start().await;
    let write = async |agents: &[(&str, u64, Value)]| {
        sidecar.api.report("/v1/observations", report(agents)).await.ok();
        sidecar.service.write_observations().await.unwrap();
    };
    write(&[("a", 2, json!([used("gpt", 1), used("", 1)])), ("b", 0, json!([used("gpt", 4)]))]).await;
    // Two reports of workers within a second are one write.
    sidecar.api.report("/v1/observations", report(&[("a", 1, json!([used("gpt", 2)]))])).await.ok();
    write(&[("a", 1, json!([used("gpt", 3)]))]).await;
    sidecar.pass(24 * 3600);
    write(&[("a", 7, json!([]))]).await;

    let of_a = sidecar.api.get("/v1/agents/a/usage").await.ok();
    let model = |used: Value| with_cost(used, Value::Null);
    let first = json!({"day": "2024-01-15", "refused": 4, "models": [model(used("", 1)), model(used("gpt", 6))]});
    let second = json!({"day": "2024-01-16", "refused": 7, "models": []});
    assert_eq!(of_a, json!({"days": [first, second], "currency": null}), "no prices, no money");
    assert_eq!(sidecar.api.get("/v1/agents/a/usage?days=1").await.ok()["days"], json!([second]));
    let all = sidecar.api.get("/v1/usage").await.ok();
    assert_eq!(all["days"][0]["models"], json!([model(used("", 1)), model(used("gpt", 10))]));
    sidecar.api.get("/v1/agents/nobody/usage").await.problem(404);
    for days in ["0", "401", "many"] {
        let problem = sidecar.api.get(&format!("/v1/usage?days={days}")).await.problem(422);
        assert_eq!(problem["detail"], "days must be a whole number from 1 to 400");
    }
}

#[tokio::test]
async fn a_report_that_lies_can_neither_overflow_the_sums_nor_fill_the_table() {
    let sidecar = Sidecar::start().await;
    let huge = json!({"model": "\u{1b}[2J".repeat(100), "calls": u64::MAX, "input_tokens": u64::MAX});
    let many: Vec<_> = (0..100).map(|n| used(&format!("m{n}"), 1)).collect();
    for _ in 0..2 {
        sidecar
            .api
            .report("/v1/observations", report(&[("a", u64::MAX, json!([huge])), ("b", 0, json!(many))]))
            .await
            .ok();
        sidecar.service.write_observations().await.unwrap();
    }
    let used = sidecar.api.get("/v1/agents/a/usage").await.ok()["days"][0].clone();
    assert_eq!(used["refused"], 2 * u64::from(u32::MAX));
    let model = &used["models"][0];
    assert_eq!((&model["calls"], &model["output_tokens"]), (&json!(2 * u64::from(u32::MAX)), &json!(0)));
    let name = model["model"].as_str().unwrap();
    assert!(name.chars().count() == 64 && !name.contains('\u{1b}'), "{name}");
    let models = sidecar.api.get("/v1/agents/b/usage").await.ok()["days"][0]["models"].clone();
    assert_eq!(models.as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn with_prices_the_cost_of_models_that_have_one_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let process = start_with_prices(dir.path());
    written(&process.api, &[("a", 3, json!([used("gpt-4.1-mini", 500), used("llama", 1)]))]).await;
    let usage = process.api.get("/v1/agents/a/usage").await.ok();
    assert_eq!(usage["currency"], "USD");
    let models = [with_cost(used("gpt-4.1-mini", 500), json!(1.4)), with_cost(used("llama", 1), Value::Null)];
    assert_eq!(usage["days"][0]["models"], json!(models));

    let run = |arguments: &[&str]| cli(dir.path(), &process.api, arguments);
    let table = String::from_utf8(run(&["usage", "a"]).stdout).unwrap();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1][1..], ["gpt-4.1-mini", "500", "500000", "50000", "1.4000", "USD", "3"], "{table}");
    assert_eq!(lines[2][1..], ["llama", "1", "1000", "100", "-", "-"], "{table}");
    let all: Value = serde_json::from_slice(&run(&["usage", "--days", "1", "-o", "json"]).stdout).unwrap();
    assert_eq!(all["days"], usage["days"]);
}

#[test]
fn a_wrong_file_of_prices_keeps_the_server_from_starting_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for (text, said) in [
        (None, "prices.yaml: No such file or directory"),
        (Some("currency: USD\nmodels: {gpt: {input: 2}}"), "prices.yaml: models.gpt: missing field `output`"),
        (
            Some("currency: USD\nmodels: {gpt: {input: -2, output: 1}}"),
            "prices.yaml: models.gpt.input (-2) must be a number of at least 0",
        ),
    ] {
        if let Some(text) = text {
            std::fs::write(dir.path().join("prices.yaml"), text).unwrap();
        }
        let mut command = binary();
        command.current_dir(dir.path()).env("KILL_SWITCH_PRICES", "prices.yaml");
        let output = command.args(["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(said), "{error}");
        assert!(!dir.path().join("kill-switch.db").exists(), "nothing was created");
    }
}

#[tokio::test]
async fn the_event_and_the_alert_of_a_kill_say_what_the_loop_took() {
    let (sidecar, receiver) = (Sidecar::guarding("a").await, Receiver::start().await);
    sidecar.api.post("/v1/alerts", json!({"channel": "slack", "target": receiver.url})).await.ok();
    let loop_usage = json!({"input_tokens": 5_000, "output_tokens": 90});
    let report = kill_with("k1", "a", 1, json!({"loop_calls": 6, "loop_usage": loop_usage}));
    sidecar.api.report("/v1/kills", report).await.ok();
    let event = &sidecar.api.events("event_type=kill_switch").await[0];
    assert_eq!((&event["loop_calls"], &event["loop_usage"]), (&json!(6), &loop_usage));
    sidecar.deliver().await;
    let text = &receiver.received()[0].body;
    assert!(text.contains("6 calls, whose answers stated 5,000 input and 90 output tokens"), "{text}");
}
