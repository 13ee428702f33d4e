//! An outage stops no agent: while Envoy cannot reach the model, the same request may be tried as often as its client
//! likes. What the provider itself answers during an outage is in the scenario table.

use lab::mesh::MeshOptions;
use lab::proc::free_address;
use lab::{Answer, EnvoyConfig, GateAt};
use serde_json::{Value, json};

use crate::support::{Shared, ask, repeated, run};

/// The request header that chooses an outage.
const OUTAGE: &str = "x-outage";

static MESH: Shared = Shared::new(|| MeshOptions {
    envoy: Box::new(|config| EnvoyConfig { routes: routes(), clusters: clusters(), ..config }),
    ..MeshOptions::default()
});

fn routes() -> Vec<Value> {
    let route = |outage: &str, cluster: &str, timeout: &str| {
        let header = json!({"name": OUTAGE, "string_match": {"exact": outage}});
        json!({"match": {"prefix": "/", "headers": [header]}, "route": {"cluster": cluster, "timeout": timeout}})
    };
    vec![
        route("no-upstream", "empty", "0s"),
        route("no-connection", "closed", "0s"),
        route("no-answer", "llm", "0.02s"),
    ]
}

fn clusters() -> Vec<Value> {
    let nobody = free_address();
    let address = json!({"address": nobody.ip().to_string(), "port_value": nobody.port()});
    let closed = json!([{"lb_endpoints": [{"endpoint": {"address": {"socket_address": address}}}]}]);
    let cluster = |name: &str, endpoints: Value| json!({"name": name, "type": "STATIC", "load_assignment": {"cluster_name": name, "endpoints": endpoints}});
    vec![cluster("empty", json!([])), cluster("closed", closed)]
}

#[test]
fn row_25_forty_tries_while_envoy_cannot_reach_the_model_are_allowed() {
    run(async {
        let mesh = MESH.get().await;
        let question = ask("Summarise the incident report of last night for the team.");
        let silence = Answer { gate: "never opened".to_owned(), gate_at: GateAt::Start, ..Answer::default() };
        for (outage, status) in [("no-upstream", 503), ("no-connection", 503), ("no-answer", 504)] {
            mesh.enable(outage, json!({})).await;
            let caller = mesh.caller(outage).with(OUTAGE, outage);
            assert_eq!(repeated(&caller, &question, Some(&silence), 40).await, [status; 40], "{outage}");
            assert_eq!(repeated(&mesh.caller(outage), &question, None, 1).await, [200], "{outage} is over");
        }
    });
}
