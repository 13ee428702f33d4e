//! The alert rules and the dashboard: every metric that they use exists, and Prometheus accepts the rules.

use std::collections::BTreeSet;
use std::process::Command;

use lab::proc::{Envoy, wasm_module};
use lab::skip;
use serde_json::Value;

use crate::support::{kind, of, read, rendered, root, text};

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_the_rules_and_the_dashboard_is_exposed() {
    let own = read("deploy/compose/envoy.yaml")
        .replace("/etc/envoy/agent_kill_switch.wasm", &wasm_module().display().to_string());
    let own = own.replace("\"token_env\": \"KILL_SWITCH_TOKEN\"", "\"token\": \"nobody-is-there\"");
    let own = ["10000", "9901", "9902"]
        .iter()
        .fold(own, |own, port| own.replace(&format!("port_value: {port}"), "port_value: 0"));
    let envoy = Envoy::start(&own.replace("address: 0.0.0.0", "address: 127.0.0.1"), 1).await;
    let mut exposed = words(&envoy.prometheus().await);
    exposed.extend(words(&read("sidecar/src/api/metrics.rs")));

    let rules: Value = serde_yaml_ng::from_str(&read("deploy/prometheus/rules.yaml")).unwrap();
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/kill-switch.json")).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap().iter().map(|rule| &rule["expr"]);
    let panels = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let used: Vec<&str> = rules.chain(panels.map(|target| &target["expr"])).map(text).collect();
    assert!(used.len() > 20, "rules and panels are found");
    let outcomes: BTreeSet<_> =
        agent_kill_switch::metrics::OUTCOMES.iter().map(|(_, name)| name.rsplit('.').next().unwrap()).collect();
    for expression in used {
        for name in words(expression) {
            let family = name.strip_suffix("_bucket").unwrap_or(&name).to_owned();
            assert!(exposed.contains(&family) || exposed.contains(&name), "{name} in {expression}");
        }
        for outcome in
            expression.split("outcome=~\"").skip(1).flat_map(|rest| rest.split('"').next().unwrap().split('|'))
        {
            assert!(outcome.ends_with(".*") || outcomes.contains(outcome), "{outcome} in {expression}");
        }
    }
}

#[test]
fn the_alert_about_unjudged_requests_counts_every_outcome_of_theirs() {
    let judged = ["allowed", "tripped", "ignored", "redirected"];
    let nothing_to_judge = ["off", "unknown_agent", "no_agent", "bad_agent_id", "no_policy", "empty", "not_a_call"];
    let stopped_before =
        ["refused_inactive", "refused_blocked", "refused_no_policy", "refused_agent_id", "refused_session"];
    let others = [&judged[..], &nothing_to_judge, &stopped_before].concat();
    let outcomes = agent_kill_switch::metrics::OUTCOMES.iter().map(|(_, name)| name.rsplit('.').next().unwrap());
    let unjudged: BTreeSet<_> = outcomes.filter(|outcome| !others.contains(outcome)).collect();
    let rules: Value = serde_yaml_ng::from_str(&read("deploy/prometheus/rules.yaml")).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    let alert = rules.iter().find(|rule| rule["alert"] == "KillSwitchUnjudged").unwrap();
    let (_, counted) = text(&alert["expr"]).split_once("outcome=~\"").unwrap();
    assert_eq!(counted.split('"').next().unwrap().split('|').collect::<BTreeSet<_>>(), unjudged);
}

#[test]
fn prometheus_accepts_the_rules_and_they_fire_when_they_should() {
    if Command::new("promtool").arg("--version").output().is_err() {
        return skip::because("promtool is not installed, so the alert rules were not evaluated");
    }
    for arguments in [["check", "rules", "rules.yaml"], ["test", "rules", "rules_test.yaml"]] {
        let output =
            Command::new("promtool").args(arguments).current_dir(root().join("deploy/prometheus")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "promtool {}: {said}", arguments.join(" "));
    }
}

#[test]
fn the_rules_for_the_operator_are_those_for_prometheus() {
    let rules: Value = serde_yaml_ng::from_str(&read("deploy/prometheus/rules.yaml")).unwrap();
    assert_eq!(of("prometheus-rule.yaml", "PrometheusRule")["spec"], rules);
}

#[test]
fn the_monitoring_overlay_scrapes_the_service_and_carries_the_dashboard() {
    let Some(overlay) = rendered("overlays/monitoring") else { return };
    let (service, monitor) = (kind(&overlay, "Service"), kind(&overlay, "ServiceMonitor"));
    assert_eq!(monitor["spec"]["selector"]["matchLabels"], service["metadata"]["labels"]);
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], service["spec"]["ports"][0]["name"]);
    assert_eq!(service["metadata"]["name"], "kill-switch", "the job that the rules name");
    let dashboard = kind(&overlay, "ConfigMap");
    assert_eq!(dashboard["metadata"]["namespace"], service["metadata"]["namespace"]);
    assert_eq!(text(&dashboard["data"]["kill-switch.json"]), read("deploy/grafana/kill-switch.json"));
}

/// Returns the names of our metrics in a text.
fn words(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter: char| !is_part(letter));
    words.filter(|word| word.starts_with("kill_switch_")).map(str::to_owned).collect()
}
