//! Reading the manifests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::skip;
use serde::Deserialize as _;
use serde_json::Value;

/// The sidecar on Kubernetes. The first has SQLite, and the others are the first with one component.
pub const OVERLAYS: [&str; 4] = ["base", "overlays/postgres", "overlays/monitoring", "overlays/ingress"];

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns every file of the project with a Kubernetes resource or a part of one.
pub fn files() -> Vec<PathBuf> {
    let mut folders = vec![root().join("envoy"), root().join("deploy/kubernetes")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if !documents(&fs::read_to_string(&path).unwrap()).is_empty() {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Returns every Kubernetes resource with the name of its file. A file `*.patch.yaml` contains only a part of one.
pub fn manifests() -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for file in files() {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let documents = documents(&fs::read_to_string(&file).unwrap());
        all.extend(documents.into_iter().map(|document| (name.clone(), document)));
    }
    all
}

/// Returns the resource of a kind in a file.
pub fn of(file: &str, kind: &str) -> Value {
    let found = manifests().into_iter().find(|(name, one)| name == file && one["kind"] == kind);
    found.unwrap_or_else(|| panic!("{file} has no {kind}")).1
}

/// Returns the Kubernetes resources in a text. Kustomizations are not resources.
pub fn documents(content: &str) -> Vec<Value> {
    let documents =
        serde_yaml_ng::Deserializer::from_str(content).map(|document| Value::deserialize(document).unwrap());
    let is_resource = |one: &Value| one.get("kind").is_some() && !text(&one["apiVersion"]).starts_with("kustomize.");
    documents.filter(is_resource).collect()
}

/// Returns what `kubectl kustomize` makes of a folder in deploy/kubernetes. Returns `None`, and notes that the test is skipped,
/// if kubectl is not installed.
pub fn rendered(folder: &str) -> Option<String> {
    kustomize(&root().join("deploy/kubernetes").join(folder))
}

/// Like `rendered`, for any folder.
pub fn kustomize(folder: &Path) -> Option<String> {
    let Ok(output) = Command::new("kubectl").arg("kustomize").arg(folder).output() else {
        skip::because("kubectl is not installed, so the overlays of the sidecar were not rendered");
        return None;
    };
    assert!(output.status.success(), "{}: {}", folder.display(), String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Returns the resource of a kind in a text.
pub fn kind(content: &str, kind: &str) -> Value {
    let found = documents(content).into_iter().find(|one| one["kind"] == kind);
    found.unwrap_or_else(|| panic!("there is no {kind}"))
}
