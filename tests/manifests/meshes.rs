//! The manifests for Istio, Envoy Gateway and Higress: a real Envoy accepts what they configure, and they find the sidecar.

use lab::proc::{Envoy, free_address, wasm_module};
use lab::{EnvoyConfig, Filter};
use serde_json::{Value, json};

use crate::support::{documents, manifests, of, read, text};

const TOKEN: [(&str, &str); 1] = [("KILL_SWITCH_TOKEN", "a-token-of-the-enforcer-scope")];

/// The files with the filter's configuration as a part of a resource, and where in the resource it is.
const PLUGINS: [(&str, &str, &str); 4] = [
    ("istio.yaml", "WasmPlugin", "/spec/pluginConfig"),
    ("istio-trafficextension.yaml", "TrafficExtension", "/spec/wasm/pluginConfig"),
    ("envoy-gateway.yaml", "EnvoyExtensionPolicy", "/spec/wasm/0/config"),
    ("higress.yaml", "WasmPlugin", "/spec/defaultConfig"),
];

fn config(file: &str, kind: &str, pointer: &str) -> Value {
    of(file, kind).pointer(pointer).unwrap_or_else(|| panic!("{file}: {pointer}")).clone()
}

#[test]
fn the_filter_accepts_the_configuration_of_every_mesh() {
    for (file, kind, pointer) in PLUGINS {
        let config = config(file, kind, pointer);
        assert_eq!(config["hold"], "body", "{file}: its mesh cannot set allow_on_headers_stop_iteration");
        let mut bootstrap = plain(&config);
        let wasm = &mut filters(&mut bootstrap)[0]["typed_config"]["config"];
        wasm["vm_config"]["environment_variables"] = json!({"host_env_keys": ["KILL_SWITCH_TOKEN"]});
        valid(file, &bootstrap);
    }
}

#[test]
fn the_traffic_extension_has_the_settings_of_the_wasm_plugin() {
    let (old, new) = (of("istio.yaml", "WasmPlugin"), of("istio-trafficextension.yaml", "TrafficExtension"));
    let mut expected = old["spec"].clone();
    for field in ["selector", "phase"] {
        assert_eq!(expected[field].take(), new["spec"][field], "{field}");
    }
    let rest = expected.as_object_mut().unwrap();
    rest.retain(|_, value| !value.is_null());
    assert_eq!(new["spec"]["wasm"], expected);
    assert_eq!(of("istio.yaml", "EnvoyFilter"), of("istio-trafficextension.yaml", "EnvoyFilter"));
}

#[test]
fn envoy_accepts_the_patched_configuration() {
    let mut accepted = 0;
    for (file, manifest) in manifests() {
        let before = accepted;
        let mut bootstrap = plain(&json!({"cluster": "kill-switch"}));
        for patch in manifest["spec"]["configPatches"].as_array().into_iter().flatten() {
            let value = patch["patch"]["value"].clone();
            match text(&patch["applyTo"]) {
                "HTTP_FILTER" => filters(&mut bootstrap)[0] = value,
                "VIRTUAL_HOST" => merge(virtual_host(&mut bootstrap), value),
                other => panic!("{file}: the test does not know how to apply {other}"),
            }
            accepted += 1;
        }
        for patch in manifest["spec"]["jsonPatches"].as_array().into_iter().flatten() {
            let operation = &patch["operation"];
            let value = operation["value"].clone();
            match text(&patch["type"]).rsplit('.').next().unwrap() {
                "Cluster" => {
                    assert_eq!(patch["name"], value["name"], "{file}: Envoy Gateway uses the name");
                    bootstrap["static_resources"]["clusters"].as_array_mut().unwrap().push(value);
                }
                "RouteConfiguration" => {
                    let gateway = &manifest["spec"]["targetRef"]["name"];
                    let prefix = format!("{}/{}/", text(&manifest["metadata"]["namespace"]), text(gateway));
                    assert!(text(&patch["name"]).starts_with(&prefix), "{file}: {patch}");
                    assert_eq!(operation["jsonPath"], "$.virtual_hosts[*]", "{file}");
                    virtual_host(&mut bootstrap)[text(&operation["path"])] = value;
                }
                other => panic!("{file}: the test does not know how to apply {other}"),
            }
            accepted += 1;
        }
        if accepted > before {
            valid(&file, &bootstrap);
        }
    }
    assert_eq!(accepted, 5, "three patches for Istio and two for Envoy Gateway");
}

#[test]
fn every_mesh_has_room_for_the_longest_body_and_two_reads() {
    const NEEDED: u64 = 8 * 1024 * 1024 + 2 * 1024 * 1024;
    for (file, kind, pointer) in PLUGINS {
        assert!(config(file, kind, pointer)["max_request_bytes"].is_null(), "{file}: the default is 8 MiB");
    }
    for file in ["istio.yaml", "istio-trafficextension.yaml"] {
        let patch = of(file, "EnvoyFilter")["spec"]["configPatches"][0]["patch"].clone();
        assert_eq!(patch["value"]["request_body_buffer_limit"], NEEDED, "{file}");
    }
    let patches = of("envoy-gateway.yaml", "EnvoyPatchPolicy")["spec"]["jsonPatches"].clone();
    let limit = patches.as_array().unwrap().iter().find(|one| one["operation"]["path"] == "request_body_buffer_limit");
    assert_eq!(limit.unwrap()["operation"]["value"], NEEDED);
    for (file, manifest) in manifests() {
        // It would also raise the size of a single read.
        assert!(manifest["spec"]["connection"]["bufferLimit"].is_null(), "{file}");
    }
}

#[test]
fn the_meshes_find_the_sidecar_at_the_address_of_its_service() {
    let sidecar = documents(&read("deploy/kubernetes/base/kill-switch.yaml"));
    let service = sidecar.iter().find(|one| one["kind"] == "Service").unwrap();
    let (name, namespace) = (text(&service["metadata"]["name"]), text(&service["metadata"]["namespace"]));
    let host = format!("{name}.{namespace}.svc.cluster.local");
    let port = &service["spec"]["ports"][0]["port"];
    for (file, kind, pointer) in PLUGINS {
        let cluster = config(file, kind, pointer)["cluster"].clone();
        if file == "envoy-gateway.yaml" {
            let patch = of(file, "EnvoyPatchPolicy")["spec"]["jsonPatches"][0]["operation"]["value"].clone();
            assert_eq!(patch["name"], cluster);
            let endpoint = &patch["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"];
            let address = &endpoint["address"]["socket_address"];
            assert_eq!((text(&address["address"]), &address["port_value"]), (host.as_str(), port));
        } else {
            assert_eq!(cluster, format!("outbound|{port}||{host}"), "{file}");
        }
    }
}

/// Returns the bootstrap of an Envoy with the filter configured like this.
fn plain(config: &Value) -> Value {
    let nobody = free_address();
    let filter = Some(Filter::new(wasm_module(), config.clone()));
    EnvoyConfig { filter, ..EnvoyConfig::new(nobody) }.bootstrap()
}

fn connection_manager(bootstrap: &mut Value) -> &mut Value {
    &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
}

fn filters(bootstrap: &mut Value) -> &mut Value {
    &mut connection_manager(bootstrap)["http_filters"]
}

fn virtual_host(bootstrap: &mut Value) -> &mut Value {
    &mut connection_manager(bootstrap)["route_config"]["virtual_hosts"][0]
}

fn merge(into: &mut Value, from: Value) {
    for (name, value) in from.as_object().into_iter().flatten() {
        into[name] = value.clone();
    }
}

fn valid(file: &str, bootstrap: &Value) {
    let yaml =
        format!("{bootstrap:#}").replace("/etc/envoy/agent_kill_switch.wasm", &wasm_module().display().to_string());
    Envoy::validate_with(&yaml, &TOKEN).unwrap_or_else(|problem| panic!("{file}: {problem}"));
}
