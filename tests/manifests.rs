//! The example manifests: their fields are the published ones, Envoy accepts their configuration, and the metrics that they use
//! exist.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test fails by panicking

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::proc::{Envoy, free_address, wasm_module};
use lab::{EnvoyConfig, Filter, skip};
use serde::Deserialize as _;
use serde_json::{Value, json};

const TOKEN: [(&str, &str); 1] = [("KILL_SWITCH_TOKEN", "a-token-of-the-enforcer-scope")];

/// The sidecar with SQLite, and with PostgreSQL.
const SIDECARS: [&str; 2] = ["kill-switch.yaml", "kill-switch-postgres.yaml"];

#[test]
fn every_manifest_has_only_published_fields() {
    let known: Value = serde_json::from_str(include_str!("fixtures/manifest-fields.json")).unwrap();
    let mut seen = BTreeSet::new();
    for (file, manifest) in manifests() {
        let kind = format!("{} {}", text(&manifest["apiVersion"]), text(&manifest["kind"]));
        let mut fields = known.get(&kind).unwrap_or_else(|| panic!("{file}: {kind} is not in the fixture")).clone();
        fields["apiVersion!"] = json!("string");
        fields["kind!"] = json!("string");
        fields["metadata!"] = json!({"name!": "string", "namespace": "string", "labels": {"*": "string"}});
        let mut problems = Vec::new();
        check(&manifest, &fields, &kind, &mut problems);
        assert!(problems.is_empty(), "{file}:\n{}", problems.join("\n"));
        seen.insert(kind);
    }
    let promised =
        ["WasmPlugin", "EnvoyFilter", "ServiceEntry", "EnvoyExtensionPolicy", "EnvoyPatchPolicy", "NetworkPolicy"];
    for kind in promised {
        assert!(seen.iter().any(|seen| seen.ends_with(kind)), "a manifest with a {kind}");
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

#[test]
fn the_filter_accepts_the_configuration_of_every_mesh() {
    let mut accepted = 0;
    for (file, manifest) in manifests() {
        let spec = &manifest["spec"];
        for config in [&spec["pluginConfig"], &spec["wasm"][0]["config"]] {
            if config.is_object() {
                assert_eq!(config["hold"], "body", "{file}: its mesh cannot set allow_on_headers_stop_iteration");
                let mut bootstrap = plain(config);
                let wasm = &mut filters(&mut bootstrap)[0]["typed_config"]["config"];
                wasm["vm_config"]["environment_variables"] = json!({"host_env_keys": ["KILL_SWITCH_TOKEN"]});
                valid(&file, &bootstrap);
                accepted += 1;
            }
        }
    }
    assert_eq!(accepted, 2, "the configurations for Istio and Envoy Gateway");
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
            assert_eq!(patch["name"], patch["operation"]["value"]["name"], "{file}: Envoy Gateway uses the name");
            bootstrap["static_resources"]["clusters"].as_array_mut().unwrap().push(patch["operation"]["value"].clone());
            accepted += 1;
        }
        if accepted > before {
            valid(&file, &bootstrap);
        }
    }
    assert_eq!(accepted, 3, "two patches for Istio and one for Envoy Gateway");
}

#[test]
fn the_meshes_find_the_sidecar_at_the_address_of_both_manifests() {
    let plugin = of("istio.yaml", "WasmPlugin");
    let patch = of("envoy-gateway.yaml", "EnvoyPatchPolicy");
    let cluster = &patch["spec"]["jsonPatches"][0]["operation"]["value"];
    let address =
        &cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]["socket_address"];
    let extension = of("envoy-gateway.yaml", "EnvoyExtensionPolicy");
    assert_eq!(cluster["name"], extension["spec"]["wasm"][0]["config"]["cluster"]);
    for file in SIDECARS {
        let service = of(file, "Service");
        let (name, namespace) = (text(&service["metadata"]["name"]), text(&service["metadata"]["namespace"]));
        let host = format!("{name}.{namespace}.svc.cluster.local");
        let port = &service["spec"]["ports"][0]["port"];
        assert_eq!(plugin["spec"]["pluginConfig"]["cluster"], format!("outbound|{port}||{host}"), "{file}");
        assert_eq!((text(&address["address"]), &address["port_value"]), (host.as_str(), port), "{file}");
        let pod = of(file, "Deployment")["spec"]["template"].clone();
        assert_eq!(pod["metadata"]["labels"], service["spec"]["selector"], "{file}");
        assert_eq!(
            pod["metadata"]["labels"],
            of(file, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
            "{file}"
        );
    }
}

#[test]
fn sqlite_has_one_replica_and_postgresql_several_and_the_rest_is_the_same() {
    let [sqlite, postgres] = SIDECARS.map(|file| of(file, "Deployment")["spec"].clone());
    assert_eq!((&sqlite["replicas"], &sqlite["strategy"]["type"]), (&json!(1), &json!("Recreate")));
    assert_eq!((&postgres["replicas"], &postgres["strategy"]["type"]), (&json!(2), &json!("RollingUpdate")));
    assert_eq!(postgres["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
    let budget = of(SIDECARS[1], "PodDisruptionBudget");
    assert_eq!(budget["spec"]["selector"], postgres["selector"]);
    assert!(budget["spec"]["minAvailable"].as_i64() < postgres["replicas"].as_i64(), "a node can be drained");

    let (of_sqlite, of_postgres) = (&sqlite["template"]["spec"], &postgres["template"]["spec"]);
    assert!(of_postgres["volumes"].is_null(), "state is kept only in the database");
    let (one, other) = (&of_sqlite["containers"][0], &of_postgres["containers"][0]);
    for field in ["image", "ports", "startupProbe", "livenessProbe", "readinessProbe", "resources", "securityContext"] {
        assert!(!one[field].is_null());
        assert_eq!(one[field], other[field], "{field}");
    }
    let variable = |name: &str| {
        let found = other["env"].as_array().unwrap().iter().find(|variable| variable["name"] == name);
        found.map(|variable| variable["valueFrom"]["secretKeyRef"].clone()).unwrap_or_default()
    };
    assert_eq!(variable("KILL_SWITCH_DB"), json!({"name": "kill-switch-database", "key": "url"}));
    assert!(!text(&variable("KILL_SWITCH_DASHBOARD_PASSWORD")["key"]).is_empty(), "one password for all replicas");
    for own in one["env"].as_array().unwrap() {
        assert_eq!(variable(text(&own["name"])), own["valueFrom"]["secretKeyRef"], "{own}");
    }

    let egress = |file: &str| of(file, "NetworkPolicy")["spec"]["egress"][0]["ports"].as_array().unwrap().clone();
    let (mut allowed, database) = (egress(SIDECARS[0]), json!({"protocol": "TCP", "port": 5432}));
    assert!(!allowed.contains(&database));
    allowed.insert(2, database);
    assert_eq!(egress(SIDECARS[1]), allowed);
    assert_eq!(
        of(SIDECARS[0], "NetworkPolicy")["spec"]["ingress"],
        of(SIDECARS[1], "NetworkPolicy")["spec"]["ingress"]
    );
}

#[test]
fn the_demo_is_confined_and_listens_on_loopback_only() {
    let compose: Value = serde_yaml_ng::from_str(&read("docker-compose.yml")).map(merged).unwrap();
    let services = compose["services"].as_object().unwrap();
    for (name, service) in services {
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(service["cap_drop"], json!(["ALL"]), "{name}");
        for port in service["ports"].as_array().into_iter().flatten() {
            assert!(text(port).starts_with("127.0.0.1:"), "{name}: {port}");
        }
        let target = text(&service["build"]["target"]);
        assert!(
            read("Dockerfile").contains(&format!(" AS {target}\n")),
            "{name}: {target} is a stage of the Dockerfile"
        );
    }
    for agent in ["healthy-agent", "looping-agent"] {
        assert_eq!(services[agent]["profiles"], json!(["agents"]), "{agent}");
    }
    for scope in ["ENFORCER", "VIEWER", "OPERATOR"] {
        let token = text(&services["sidecar"]["environment"][format!("KILL_SWITCH_{scope}_TOKEN")]);
        assert!(token.starts_with("demo-only-") && token.len() >= 20, "{token}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_the_rules_and_the_dashboard_is_exposed() {
    let own = read("deploy/compose/envoy.yaml")
        .replace("/etc/envoy/agent_kill_switch.wasm", &wasm_module().display().to_string());
    let own = own.replace("\"token_env\": \"KILL_SWITCH_TOKEN\"", "\"token\": \"nobody-is-there\"");
    let own =
        ["10000", "9901"].iter().fold(own, |own, port| own.replace(&format!("port_value: {port}"), "port_value: 0"));
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

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns every Kubernetes resource with the name of its file.
fn manifests() -> Vec<(String, Value)> {
    let folders = ["envoy", "deploy/kubernetes"].map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let mut files: Vec<PathBuf> = folders.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let content = fs::read_to_string(&file).unwrap();
        for document in serde_yaml_ng::Deserializer::from_str(&content) {
            let value = Value::deserialize(document).unwrap_or_else(|error| panic!("{name}: {error}"));
            if value.get("apiVersion").is_some() {
                all.push((name.clone(), value));
            }
        }
    }
    all
}

/// Returns the resource of a kind in a file.
fn of(file: &str, kind: &str) -> Value {
    let found = manifests().into_iter().find(|(name, one)| name == file && one["kind"] == kind);
    found.unwrap_or_else(|| panic!("{file} has no {kind}")).1
}

/// Collects the differences of a value from the known fields. The fixture's first line explains the format.
fn check(value: &Value, known: &Value, path: &str, problems: &mut Vec<String>) {
    match (known, value) {
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

/// Applies YAML's merge keys (`<<`), which the parser does not.
fn merged(mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        if let Some(Value::Object(base)) = members.remove("<<") {
            for (name, member) in merged(Value::Object(base)).as_object().into_iter().flatten() {
                members.entry(name).or_insert_with(|| member.clone());
            }
        }
        let names: Vec<String> = members.keys().cloned().collect();
        for name in names {
            let member = members.remove(&name).map(merged);
            members.insert(name, member.unwrap_or_default());
        }
    }
    value
}

/// Returns the names of our metrics in a text.
fn words(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter: char| !is_part(letter));
    words.filter(|word| word.starts_with("kill_switch_")).map(str::to_owned).collect()
}
