//! The rows of the scenario table through a real Envoy: loops are stopped at the expected call, and healthy agents are not.

use lab::mesh::Mesh;
use lab::scenario::{self, Scenario, Verdict};

use crate::support::counter;

/// Rows in which minutes pass between the calls are left out: the specification's tests play them with a clock of their own.
#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_gets_its_verdict() {
    let mesh = Mesh::start().await;
    let mut problems = Vec::new();
    for scenario in scenario::all().filter(|scenario| !scenario.has_pauses()) {
        if let Err(problem) = play(&mesh, &scenario).await {
            problems.push(format!("{}: {problem}: {}", scenario.name, scenario.title));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

async fn play(mesh: &Mesh, scenario: &Scenario) -> Result<(), String> {
    let agent = format!("scenario/{}", scenario.name.replace('/', "-"));
    mesh.enable(&agent, scenario.settings.clone()).await;
    let caller = mesh.caller(&agent);
    let ignored_before = counter(mesh, "requests.not_a_call").await;
    for round in 1..=scenario.rounds {
        let replies = scenario.play(&caller, &mesh.llm).await.unwrap();
        let refused = scenario::first_refused(&replies);
        scenario.verdict.check(refused).map_err(|problem| format!("round {round}: {problem}"))?;
        if refused.is_some() {
            mesh.kills(&agent, round).await;
            mesh.activate(&agent).await;
            mesh.settled().await;
        }
    }
    let ignored = counter(mesh, "requests.not_a_call").await - ignored_before;
    let expected = if scenario.verdict == Verdict::Ignore { scenario.steps.len() as u64 } else { 0 };
    if ignored != expected {
        return Err(format!("{ignored} requests were counted as not_a_call, expected {expected}"));
    }
    let expected = if scenario.verdict.is_kill() { scenario.rounds } else { 0 };
    match mesh.events(&agent, "kill_switch").await.len() {
        events if events == expected => Ok(()),
        events => Err(format!("{expected} events were expected, one for each kill, and there are {events}")),
    }
}
