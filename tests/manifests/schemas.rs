//! The manifests against the published schemas, with unknown fields refused and the rules (CEL) evaluated.
//!
//! The schemas of custom resources are in `../shared/crds`, or in the folder that `KILL_SWITCH_CRDS` names. They are not part
//! of the project, so these tests are skipped where they are missing; `fields.rs` still checks the structure. Plain Kubernetes
//! objects are checked with the schemas of the package kubernetes-validate.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lab::skip;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{OVERLAYS, files, read, rendered, root, text};

/// The kinds whose schemas are not published in the folder. `fields.rs` checks them.
const NO_SCHEMA: [&str; 3] = [
    "gateway.envoyproxy.io/v1alpha1 EnvoyProxy",
    "monitoring.coreos.com/v1 PrometheusRule",
    "monitoring.coreos.com/v1 ServiceMonitor",
];

/// Runs a script of tools/manifests. Returns `None`, and notes that the test is skipped, if Python or its packages are missing.
fn run(script: &str, arguments: &[PathBuf]) -> Option<Output> {
    let found = Command::new(root().join("tools/get-clients")).arg("manifests").output().unwrap();
    if !found.status.success() {
        skip::missing("Python or its packages are missing, so no manifest was checked against its published schema");
        return None;
    }
    let python = String::from_utf8(found.stdout).unwrap();
    let script = root().join("tools/manifests").join(script);
    Some(Command::new(python.trim()).arg("-B").arg(script).args(arguments).output().unwrap())
}

/// Returns the folder with the schemas of custom resources. Returns `None`, and notes that the test is skipped, without it.
fn crds() -> Option<PathBuf> {
    let folder = std::env::var_os("KILL_SWITCH_CRDS").map_or_else(|| root().join("../shared/crds"), PathBuf::from);
    if !folder.is_dir() {
        skip::because(
            "the published schemas are not in ../shared/crds, so custom resources were not checked against them",
        );
        return None;
    }
    Some(folder)
}

/// Returns the report of check.py about these files.
fn report(crds: &Path, files: impl IntoIterator<Item = PathBuf>) -> Option<Value> {
    let arguments: Vec<PathBuf> = std::iter::once(crds.to_owned()).chain(files).collect();
    let output = run("check.py", &arguments)?;
    let report = serde_json::from_slice(&output.stdout);
    let report: Value = report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let found_problems = !report["problems"].as_array().unwrap().is_empty();
    assert_eq!(output.status.code(), Some(i32::from(found_problems)), "{report:#}");
    Some(report)
}

/// Returns all complete manifests: a patch alone is not one.
fn complete() -> impl Iterator<Item = PathBuf> {
    files().into_iter().filter(|file| !file.to_string_lossy().ends_with(".patch.yaml"))
}

#[test]
fn every_manifest_fits_its_published_schema_and_its_rules() {
    let Some(crds) = crds() else { return };
    let Some(report) = report(&crds, complete()) else { return };
    assert_eq!(report["problems"], Value::from(Vec::<String>::new()));
    assert_eq!(report["not_evaluated"], Value::from(Vec::<String>::new()));
    let no_schema: BTreeSet<&str> = report["no_schema"].as_array().unwrap().iter().map(text).collect();
    assert_eq!(no_schema, BTreeSet::from(NO_SCHEMA));
    assert!(report["objects"].as_u64() > Some(15), "{report:#}");
    assert!(report["rules"].as_u64() > Some(30), "{report:#}");
}

#[test]
fn kubernetes_accepts_what_every_overlay_renders() {
    let folder = TempDir::new().unwrap();
    let mut files = Vec::new();
    for name in OVERLAYS {
        let Some(overlay) = rendered(name) else { return };
        let file = folder.path().join(format!("{}.yaml", name.replace('/', "-")));
        fs::write(&file, overlay).unwrap();
        files.push(file);
    }
    // These are no custom resources of a mesh, so no schemas of those are needed.
    let Some(report) = report(folder.path(), files) else { return };
    assert_eq!(report["problems"], Value::from(Vec::<String>::new()));
    assert!(report["objects"].as_u64() > Some(20), "{report:#}");
}

#[test]
fn a_broken_copy_is_refused() {
    let Some(crds) = crds() else { return };
    let cases = [
        ("envoy/envoy-gateway.yaml", "failOpen:", "failOpne:", "'failOpne' was unexpected"),
        ("envoy/envoy-gateway.yaml", "type: Image", "type: HTTP", "If type is HTTP, http field needs to be set."),
        ("envoy/envoy-gateway.yaml", "op: add\n        jsonPath", "op: put\n        jsonPath", "'put' is not one of"),
        ("envoy/istio.yaml", "valueFrom: HOST", "valueFrom: HOST\n        value: x", "value may only be set when"),
        ("envoy/istio.yaml", "  url: oci:", "  uri: oci:", "'url' is a required property"),
        ("envoy/istio.yaml", "istio: egressgateway", "istio: '*'", "wildcard not allowed in label value match"),
        ("envoy/istio-trafficextension.yaml", "url: oci:", "url: ftp:", "url must have schema one of"),
        (
            "envoy/istio-trafficextension.yaml",
            "  wasm:",
            "  lua: {inlineCode: x}\n  wasm:",
            "exactly one of wasm or lua",
        ),
        ("envoy/higress.yaml", "FAIL_OPEN", "FAIL_RELOAD", "'FAIL_RELOAD' is not one of"),
        ("envoy/istio-outside.yaml", "number: 8686", "number: 86860", "port must be between 1-65535"),
        ("deploy/kubernetes/base/kill-switch.yaml", "replicas: 1", "replicas: one", "'one' is not of type 'integer'"),
        (
            "deploy/kubernetes/base/kill-switch.yaml",
            "periodSeconds:",
            "periodseconds:",
            "'periodseconds' was unexpected",
        ),
    ];
    let folder = TempDir::new().unwrap();
    let name = |index: usize| format!("broken-{index}.yaml");
    for (index, (file, from, to, _)) in cases.iter().enumerate() {
        let whole = read(file);
        let broken = whole.replacen(from, to, 1);
        assert_ne!(whole, broken, "{file}: {from}");
        fs::write(folder.path().join(name(index)), broken).unwrap();
    }
    let copies = (0..cases.len()).map(|index| folder.path().join(name(index)));
    let Some(report) = report(&crds, copies) else { return };
    let problems: Vec<&str> = report["problems"].as_array().unwrap().iter().map(text).collect();
    for (index, (file, _, to, problem)) in cases.iter().enumerate() {
        let is_found = |one: &&str| one.starts_with(&name(index)) && one.contains(problem);
        assert!(problems.iter().any(is_found), "{file} with {to}: {problems:#?}");
    }
}

#[test]
fn the_fixture_of_fields_is_what_the_published_schemas_say() {
    let Some(crds) = crds() else { return };
    let Some(output) = run("fields.py", &[crds]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let fresh = String::from_utf8(output.stdout).unwrap();
    assert!(fresh == read("tests/fixtures/manifest-fields.json"), "it is not up to date: run make manifest-fields");
}
