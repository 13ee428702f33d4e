//! The rows of the scenario table through a real Envoy: loops are stopped at the expected call, and healthy agents are not.

use lab::mesh::{Mesh, MeshOptions};
use lab::scenario::{self, Scenario, Verdict};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_gets_its_verdict() {
    let filter = json!({"session_header": scenario::SESSION});
    let mesh = Mesh::with(MeshOptions { filter, ..MeshOptions::default() }).await;
    for scenario in scenario::all() {
        play(&mesh, &scenario).await;
    }
}

async fn play(mesh: &Mesh, scenario: &Scenario) {
    let agent = format!("scenario/{}", scenario.name.replace('/', "-"));
    mesh.enable(&agent, json!({})).await;
    let caller = mesh.caller(&agent);
    for round in 1..=scenario.rounds {
        let replies = scenario.play(&caller).await.unwrap();
        let refused = scenario::first_refused(&replies);
        let decided = scenario.verdict.check(refused);
        decided.unwrap_or_else(|problem| panic!("{} round {round}: {problem}", scenario.name));
        if refused.is_some() {
            mesh.kills(&agent, round).await;
            mesh.activate(&agent).await;
            mesh.settled().await;
        }
    }
    let expected = if scenario.verdict == Verdict::Allow { 0 } else { scenario.rounds };
    assert_eq!(mesh.events(&agent, "kill_switch").await.len(), expected, "{}: one event per kill", scenario.name);
}
