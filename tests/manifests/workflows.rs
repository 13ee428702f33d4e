//! The workflows run nothing but targets of the Makefile, so whatever they do can be done on any machine.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::support::{read, root, text};

/// The actions of others. They fetch the sources and install cosign.
const ACTIONS: [&str; 2] = ["actions/checkout", "sigstore/cosign-installer"];

#[test]
fn the_workflows_use_nothing_but_make_targets() {
    let makefile = read("Makefile");
    let mut used = BTreeSet::new();
    let mut names = BTreeSet::new();
    for file in fs::read_dir(root().join(".github/workflows")).unwrap().map(|entry| entry.unwrap().path()) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let workflow: Value = serde_yaml_ng::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert!(workflow["on"].is_object(), "{name}: it says when it runs");
        assert!(workflow["permissions"].is_object(), "{name}: it has no more permissions than it names");
        for (job, content) in workflow["jobs"].as_object().unwrap() {
            assert!(content["timeout-minutes"].is_i64(), "{name}: {job} ends by itself");
            for step in content["steps"].as_array().unwrap() {
                if let Some((action, version)) = text(&step["uses"]).split_once('@') {
                    assert!(ACTIONS.contains(&action) && !version.is_empty(), "{name}: {step}");
                    continue;
                }
                for line in text(&step["run"]).lines() {
                    let target = line.strip_prefix("make ").unwrap_or_else(|| panic!("{name}: {line} is not a target"));
                    assert!(makefile.contains(&format!("\n{target}:")), "{name}: make {target}");
                    used.insert(target.to_owned());
                }
            }
        }
        names.insert(name);
    }
    assert!(names.is_superset(&["test.yml", "release.yml", "images.yml"].map(str::to_owned).into()), "{names:?}");
    assert!(used.is_superset(&["test", "test-envoys", "publish", "push-images"].map(str::to_owned).into()), "{used:?}");
}
