//! The functions that the shipped configuration, `envoy/envoy.yaml`, lets the filter call and be called for.
//!
//! Every Envoy of the tests runs with them, so that a missing one is noticed.

use std::path::Path;

/// Returns the names below `allowed_capabilities` in `envoy/envoy.yaml`.
pub fn allowed() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoy/envoy.yaml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    let list = text.lines().map(str::trim).skip_while(|line| *line != "allowed_capabilities:").skip(1);
    let entries = list.filter(|line| !line.starts_with('#'));
    entries.map_while(|line| line.strip_suffix(": {}")).map(str::to_owned).collect()
}
