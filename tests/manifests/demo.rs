//! The demo in containers.

use serde_json::{Value, json};

use crate::support::{read, text};

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
        if service["profiles"] == json!(["monitoring"]) {
            // These images are not ours, so their version is pinned.
            let version = text(&service["image"]).rsplit_once(':').map(|(_, version)| version);
            assert!(version.is_some_and(|version| version.contains('.')), "{name}: {service}");
            continue;
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

#[test]
fn the_monitoring_profile_scrapes_what_the_demo_serves_with_its_viewer_token() {
    let compose: Value = serde_yaml_ng::from_str(&read("docker-compose.yml")).map(merged).unwrap();
    let services = &compose["services"];
    let prometheus: Value = serde_yaml_ng::from_str(&read("deploy/compose/prometheus.yml")).unwrap();
    let job = |name: &str| {
        let jobs = prometheus["scrape_configs"].as_array().unwrap();
        jobs.iter().find(|job| job["job_name"] == name).unwrap_or_else(|| panic!("no job {name}")).clone()
    };
    let viewer = &services["sidecar"]["environment"]["KILL_SWITCH_VIEWER_TOKEN"];
    assert_eq!(job("kill-switch")["authorization"]["credentials"], *viewer);
    assert_eq!(job("kill-switch")["static_configs"][0]["targets"], json!(["sidecar:8686"]));
    assert_eq!(job("envoy")["static_configs"][0]["targets"], json!(["envoy:9902"]));

    let envoy: Value = serde_yaml_ng::from_str(&read("deploy/compose/envoy.yaml")).unwrap();
    let metrics = &envoy["static_resources"]["listeners"][1];
    assert_eq!(metrics["address"]["socket_address"]["port_value"], 9902);
    let manager = &metrics["filter_chains"][0]["filters"][0]["typed_config"];
    let routes = &manager["route_config"]["virtual_hosts"][0]["routes"];
    let expected = json!([{"match": {"path": job("envoy")["metrics_path"]}, "route": {"cluster": "admin"}}]);
    assert_eq!(*routes, expected, "nothing else of the admin endpoint is reachable");
    assert_eq!(envoy["admin"]["address"]["socket_address"]["address"], "127.0.0.1");

    for name in ["prometheus", "grafana"] {
        for volume in services[name]["volumes"].as_array().unwrap() {
            let path = text(volume).split(':').next().unwrap();
            assert!(crate::support::root().join(path).exists(), "{name}: {path}");
        }
    }
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
