//! Every manifest has only published fields. The fields are in a fixture, so this needs nothing that may be missing.
//!
//! `make manifest-fields` writes the fixture from the published schemas, and a test in `schemas.rs` compares it with them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{manifests, text};

#[test]
fn every_manifest_has_only_published_fields() {
    let mut known: Value = serde_json::from_str(include_str!("../fixtures/manifest-fields.json")).unwrap();
    let other: Value = serde_json::from_str(include_str!("../fixtures/manifest-fields-other.json")).unwrap();
    known.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    let mut seen = BTreeSet::new();
    for (file, manifest) in manifests() {
        let kind = format!("{} {}", text(&manifest["apiVersion"]), text(&manifest["kind"]));
        let mut fields = known.get(&kind).unwrap_or_else(|| panic!("{file}: {kind} is not in the fixture")).clone();
        fields["apiVersion!"] = json!("string");
        fields["kind!"] = json!("string");
        fields["metadata!"] = json!({"name!": "string", "namespace": "string", "labels": {"*": "string"}});
        let mut problems = Vec::new();
        check(&manifest, &fields, &kind, &mut problems);
        if file.ends_with(".patch.yaml") {
            // A patch has only what it changes, and may say what is removed.
            problems.retain(|problem| !problem.ends_with(" is missing") && !problem.contains(".$patch is not"));
        }
        assert!(problems.is_empty(), "{file}:\n{}", problems.join("\n"));
        seen.insert(kind);
    }
    let promised = [
        "extensions.istio.io/v1alpha1 WasmPlugin",
        "extensions.istio.io/v1alpha1 TrafficExtension",
        "extensions.higress.io/v1alpha1 WasmPlugin",
        "networking.istio.io/v1alpha3 EnvoyFilter",
        "networking.istio.io/v1 ServiceEntry",
        "gateway.envoyproxy.io/v1alpha1 EnvoyExtensionPolicy",
        "gateway.envoyproxy.io/v1alpha1 EnvoyPatchPolicy",
        "networking.k8s.io/v1 NetworkPolicy",
        "networking.k8s.io/v1 Ingress",
        "monitoring.coreos.com/v1 ServiceMonitor",
        "monitoring.coreos.com/v1 PrometheusRule",
    ];
    for kind in promised {
        assert!(seen.contains(kind), "a manifest with a {kind}");
    }
}

#[test]
fn the_check_of_fields_finds_misspelt_and_missing_fields_and_wrong_types() {
    let fields = json!({"name!": "string", "mode": "A | B", "ports": [{"number!": "integer"}]});
    let found = |value: Value| {
        let mut problems = Vec::new();
        check(&value, &fields, "x", &mut problems);
        problems
    };
    assert!(found(json!({"name": "n", "mode": "B", "ports": [{"number": 1}]})).is_empty());
    let cases = [
        (json!({"name": "n", "mod": "A"}), "x.mod is not a published field"),
        (json!({"mode": "A"}), "x.name is missing"),
        (json!({"name": "n", "mode": "C"}), "x.mode (\"C\") must be A | B"),
        (json!({"name": "n", "ports": [{"number": "1"}]}), "x.ports[0].number (\"1\") must be integer"),
    ];
    for (value, problem) in cases {
        assert_eq!(found(value.clone()), [problem], "{value}");
    }
}

/// Collects the differences of a value from the known fields. The fixture's first line explains the format.
fn check(value: &Value, known: &Value, path: &str, problems: &mut Vec<String>) {
    match (known, value) {
        // In a patch, this removes the field.
        (_, Value::Null) => {}
        (Value::Object(fields), Value::Object(members)) => {
            for (name, member) in members {
                let field = fields.get(name).or(fields.get(&format!("{name}!"))).or(fields.get("*"));
                match field {
                    Some(field) => check(member, field, &format!("{path}.{name}"), problems),
                    None => problems.push(format!("{path}.{name} is not a published field")),
                }
            }
            let required = fields.keys().filter_map(|field| field.strip_suffix('!'));
            let missing = required.filter(|name| !members.contains_key(*name));
            problems.extend(missing.map(|name| format!("{path}.{name} is missing")));
        }
        (Value::Array(items), Value::Array(members)) => {
            for (index, member) in members.iter().enumerate() {
                check(member, &items[0], &format!("{path}[{index}]"), problems);
            }
        }
        (Value::String(kind), value) => {
            let fits = match kind.as_str() {
                "any" => true,
                "string" => value.is_string(),
                "integer" => value.is_i64(),
                "boolean" => value.is_boolean(),
                "port" | "quantity" => value.is_i64() || value.is_string(),
                words => words.split(" | ").any(|word| value == word),
            };
            if !fits {
                problems.push(format!("{path} ({value}) must be {kind}"));
            }
        }
        (known, value) => problems.push(format!("{path} ({value}) must be {known}")),
    }
}
