//! Envoy accepts the example configurations, including the filter's own part.

use std::path::Path;

use lab::proc::{Envoy, envoy_version, wasm_module};

fn validated(text: &str) -> Result<(), String> {
    let text = text.replace("/etc/envoy/agent_kill_switch.wasm", &wasm_module().display().to_string());
    Envoy::validate_with(&text, &[("KILL_SWITCH_TOKEN", "a-token-of-the-enforcer-scope")])
}

#[test]
fn every_bootstrap_in_the_envoy_folder_is_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("envoy");
    let mut checked = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        // Older releases do not send OpenTelemetry's access log by HTTP.
        let is_too_new = path.ends_with("otel.yaml") && envoy_version() < (1, 37);
        if path.extension().is_some_and(|kind| kind == "yaml") && text.contains("\nstatic_resources:") && !is_too_new {
            validated(&text).unwrap_or_else(|problem| panic!("{}: {problem}", path.display()));
            checked += 1;
        }
    }
    assert!(checked > 0, "envoy/envoy.yaml exists");
}

#[test]
fn a_mistake_in_the_filters_configuration_is_refused_by_name() {
    let text =
        include_str!("../../envoy/envoy.yaml").replace("\"cluster\": \"kill-switch\"", "\"clustre\": \"kill-switch\"");
    let problem = validated(&text).unwrap_err();
    assert!(problem.contains("\"clustre\" is not a known field: did you mean cluster?"), "{problem}");
}
