//! The images and the bill of materials of a release.

use std::collections::BTreeSet;
use std::process::Command;

use lab::skip;
use serde_json::Value;

use crate::support::{read, root, text};

const LABELS: [&str; 4] = ["licenses", "version", "revision", "source"];

/// Returns the instructions of a stage of the Dockerfile, with one line for each.
fn stage(name: &str) -> Vec<String> {
    let dockerfile = read("Dockerfile").replace("\\\n", " ");
    let start = format!(" AS {name}\n");
    let (_, rest) = dockerfile.split_once(&start).unwrap_or_else(|| panic!("the Dockerfile has no stage {name}"));
    let lines = rest.lines().take_while(|line| !line.starts_with("FROM "));
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn the_module_image_is_one_copy_and_both_images_say_where_they_come_from() {
    let module = stage("module");
    let adding: Vec<_> =
        module.iter().filter(|line| !line.starts_with("ARG ") && !line.starts_with("LABEL ")).collect();
    assert_eq!(adding, ["COPY --from=build /out/plugin.wasm /plugin.wasm"], "a mesh reads the only layer");
    for name in ["module", "sidecar"] {
        let labels = stage(name).into_iter().find(|line| line.starts_with("LABEL ")).unwrap_or_default();
        for label in LABELS {
            assert!(labels.contains(&format!("org.opencontainers.image.{label}=")), "{name}: {label}");
        }
    }
    let makefile = read("Makefile");
    for argument in ["VERSION", "REVISION", "SOURCE"] {
        assert!(makefile.contains(&format!("--build-arg {argument}=$({argument})")), "{argument}");
    }
}

#[test]
fn the_built_images_have_the_labels_and_the_module_has_one_layer() {
    for name in ["agent-kill-switch", "kill-switch"] {
        let image = format!("{name}:{}", env!("CARGO_PKG_VERSION"));
        let output = Command::new("docker").args(["image", "inspect", &image]).output();
        let Some(output) = output.ok().filter(|output| output.status.success()) else {
            return skip::because("no Docker engine has the images of `make images`, so they were not inspected");
        };
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        for label in LABELS {
            let value = &found[0]["Config"]["Labels"][format!("org.opencontainers.image.{label}")];
            assert!(!text(value).is_empty(), "{image}: {label}");
        }
        let layers = found[0]["RootFS"]["Layers"].as_array().unwrap().len();
        assert!(name == "kill-switch" || layers == 1, "{image} has {layers} layers");
    }
}

#[test]
fn the_bill_of_materials_lists_the_linked_crates_and_where_they_are_linked() {
    let has_toml = Command::new("python3").args(["-c", "import tomllib"]).output();
    if !has_toml.is_ok_and(|output| output.status.success()) {
        return skip::because("Python 3.11 or later is not installed, so tools/sbom was not run");
    }
    let output = Command::new(root().join("tools/sbom")).arg("x86_64-unknown-linux-gnu").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bill: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((text(&bill["bomFormat"]), text(&bill["specVersion"])), ("CycloneDX", "1.5"));
    let components = bill["components"].as_array().unwrap();
    let parts = |name: &str| {
        let found = components.iter().find(|one| one["name"] == name);
        found.map(|one| {
            one["properties"].as_array().unwrap().iter().map(|part| text(&part["value"])).collect::<Vec<_>>()
        })
    };
    let cases = [
        ("proxy-wasm", Some(vec!["module"])),
        ("memchr", Some(vec!["module", "sidecar"])),
        ("axum", Some(vec!["sidecar"])),
        ("proptest", None),
        ("serde_derive", None),
        ("lab", None),
    ];
    for (name, expected) in cases {
        assert_eq!(parts(name), expected, "{name}");
    }
    let refs: BTreeSet<&str> = components.iter().map(|one| text(&one["bom-ref"])).collect();
    let named = bill["dependencies"].as_array().unwrap().iter().flat_map(|one| one["dependsOn"].as_array().unwrap());
    for name in named.map(text) {
        assert!(refs.contains(name), "{name} is a component");
    }
}
