//! The configurations that people are told to copy are accepted by Envoy itself, the filter's own part included.

use std::path::Path;

use lab::proc::{Envoy, wasm_module};

#[test]
fn every_bootstrap_in_the_envoy_folder_is_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("envoy");
    let mut checked = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if path.extension().is_some_and(|kind| kind == "yaml") && text.contains("\nstatic_resources:") {
            let text = text.replace("/etc/envoy/agent_kill_switch.wasm", &wasm_module().display().to_string());
            let verdict = Envoy::validate_with(&text, &[("KILL_SWITCH_TOKEN", "a-token-of-the-enforcer-scope")]);
            verdict.unwrap_or_else(|problem| panic!("{}: {problem}", path.display()));
            checked += 1;
        }
    }
    assert!(checked > 0, "envoy/envoy.yaml is there");
}

#[test]
fn a_mistake_in_the_filters_configuration_is_refused_by_name() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("envoy/envoy.yaml")).unwrap();
    let text = text.replace("/etc/envoy/agent_kill_switch.wasm", &wasm_module().display().to_string());
    let text = text.replace("\"cluster\": \"kill-switch\"", "\"clustre\": \"kill-switch\"");
    let problem = Envoy::validate_with(&text, &[("KILL_SWITCH_TOKEN", "a-token")]).unwrap_err();
    assert!(problem.contains("\"clustre\" is not a known field: did you mean cluster?"), "{problem}");
}
