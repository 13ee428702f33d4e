//! The sidecar on Kubernetes, as `kubectl kustomize` renders it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{OVERLAYS, kind, kustomize, rendered, root, text};

fn container(overlay: &str) -> Value {
    kind(overlay, "Deployment")["spec"]["template"]["spec"]["containers"][0].clone()
}

/// Returns a variable of the container's environment.
fn variable(overlay: &str, name: &str) -> Value {
    let container = container(overlay);
    let found = container["env"].as_array().unwrap().iter().find(|variable| variable["name"] == name);
    found.cloned().unwrap_or_default()
}

#[test]
fn every_overlay_selects_its_own_pods() {
    for name in OVERLAYS {
        let Some(overlay) = rendered(name) else { return };
        let labels = &kind(&overlay, "Deployment")["spec"]["template"]["metadata"]["labels"];
        assert_eq!(kind(&overlay, "Service")["spec"]["selector"], *labels, "{name}");
        assert_eq!(kind(&overlay, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"], *labels, "{name}");
        assert_eq!(
            container(&overlay)["image"],
            concat!("registry.example.com/kill-switch:", env!("CARGO_PKG_VERSION"))
        );
    }
}

#[test]
fn sqlite_has_one_replica_and_postgresql_several_and_the_rest_is_the_same() {
    let (Some(base), Some(overlay)) = (rendered("base"), rendered("overlays/postgres")) else { return };
    let [sqlite, postgres] = [&base, &overlay].map(|one| kind(one, "Deployment")["spec"].clone());
    assert_eq!((&sqlite["replicas"], &sqlite["strategy"]), (&json!(1), &json!({"type": "Recreate"})));
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    assert_eq!((&postgres["replicas"], &postgres["strategy"]), (&json!(2), &rolling));
    let budget = kind(&overlay, "PodDisruptionBudget");
    assert_eq!(budget["spec"]["selector"], postgres["selector"]);
    assert!(budget["spec"]["minAvailable"].as_i64() < postgres["replicas"].as_i64(), "a node can be drained");

    assert!(!overlay.contains("PersistentVolumeClaim") && !overlay.contains("/data"), "all state is in the database");
    let volumes = &postgres["template"]["spec"]["volumes"];
    assert!(volumes.as_array().is_none_or(Vec::is_empty), "{volumes}");
    let (one, other) = (container(&base), container(&overlay));
    for field in ["image", "ports", "startupProbe", "livenessProbe", "readinessProbe", "resources", "securityContext"] {
        assert!(!one[field].is_null(), "{field}");
        assert_eq!(one[field], other[field], "{field}");
    }
    let secret = |name: &str| variable(&overlay, name)["valueFrom"]["secretKeyRef"].clone();
    assert_eq!(secret("KILL_SWITCH_DB"), json!({"name": "kill-switch-database", "key": "url"}));
    assert!(!text(&secret("KILL_SWITCH_DASHBOARD_PASSWORD")["key"]).is_empty(), "one password for all replicas");
    for own in one["env"].as_array().unwrap() {
        assert_eq!(secret(text(&own["name"])), own["valueFrom"]["secretKeyRef"], "{own}");
    }

    let [from, to] = [&base, &overlay].map(|one| kind(one, "NetworkPolicy")["spec"].clone());
    let mut allowed = from["egress"][0]["ports"].as_array().unwrap().clone();
    allowed.insert(2, json!({"protocol": "TCP", "port": 5432}));
    assert_eq!(to["egress"][0]["ports"], Value::from(allowed));
    assert_eq!(from["ingress"], to["ingress"]);
}

#[test]
fn the_ingress_leads_to_the_service_over_tls_and_is_trusted() {
    let Some(overlay) = rendered("overlays/ingress") else { return };
    let (ingress, service) = (kind(&overlay, "Ingress"), kind(&overlay, "Service"));
    let rule = &ingress["spec"]["rules"][0];
    let backend = &rule["http"]["paths"][0]["backend"]["service"];
    assert_eq!(backend["name"], service["metadata"]["name"]);
    assert_eq!(backend["port"]["name"], service["spec"]["ports"][0]["name"]);
    assert_eq!(ingress["spec"]["tls"][0]["hosts"], json!([rule["host"]]));
    assert!(!text(&variable(&overlay, "KILL_SWITCH_TRUSTED_PROXIES")["value"]).is_empty());
}

#[test]
fn all_components_can_be_combined() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("all-components");
    fs::create_dir_all(&folder).unwrap();
    // Kustomize accepts only relative paths.
    let up = "../".repeat(folder.canonicalize().unwrap().components().count() - 1);
    let own = root().canonicalize().unwrap();
    let path = format!("{up}{}/deploy/kubernetes", own.strip_prefix("/").unwrap().display());
    let components = ["postgres", "monitoring", "ingress"].map(|name| format!("{path}/components/{name}"));
    let file = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [format!("{path}/base")],
        "components": components,
        "images": [{"name": "registry.example.com/kill-switch", "newName": "own.example/team/kill-switch", "newTag": "1.2.3"}],
    });
    fs::write(folder.join("kustomization.yaml"), file.to_string()).unwrap();
    let Some(all) = kustomize(&folder) else { return };
    for expected in ["PodDisruptionBudget", "ServiceMonitor", "PrometheusRule", "ConfigMap", "Ingress"] {
        kind(&all, expected);
    }
    assert_eq!(container(&all)["image"], "own.example/team/kill-switch:1.2.3");
    for name in ["KILL_SWITCH_DB", "KILL_SWITCH_TRUSTED_PROXIES"] {
        assert!(!variable(&all, name).is_null(), "{name}");
    }
}
