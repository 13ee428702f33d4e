//! A loop that a load balancer spreads over several real Envoys is stopped as if one had seen all of it.

use std::time::Duration;

use lab::chat::Caller;
use lab::fleet::{Fleet, Pace};
use lab::mesh::SOON;
use lab::proc::wait_until;
use lab::{Answer, Format};
use serde_json::{Value, json};

use crate::support::postgres::{self, database};

const ENVOYS: usize = 4;
/// The call at which one Envoy that sees everything refuses the loop.
const ALONE: usize = 6;
/// How long after the sixth call a call of a loop without pauses is still served at most, on an idle machine. The tests print what
/// they measured.
const PROMISED: Duration = Duration::from_millis(500);
/// The call at which one Envoy of four recognises the loop alone. The tests assert that it is stopped before that, since test
/// machines are busy.
const BY_ONE_OF_FOUR: usize = 21;

/// Checks that there is one kill, which says how many calls each Envoy saw. Without pauses between the calls, those of some
/// Envoys may arrive after the loop was recognised, so at least this many must be named.
async fn assert_one_kill(fleet: &Fleet, agent: &str, envoys: usize) {
    for sidecar in 0..fleet.sidecars.len() {
        let kills = fleet.remote(0, sidecar).kills(agent, 1).await;
        assert_eq!(kills.len(), 1, "{kills:?}");
        let parts = kills[0]["envoys"].as_array().unwrap_or_else(|| panic!("{}", kills[0]));
        let calls: u64 = parts.iter().map(|part| part["calls"].as_u64().unwrap()).sum();
        assert!((envoys..=ENVOYS).contains(&parts.len()) && calls >= ALONE as u64, "{}", kills[0]);
        assert!(parts.iter().all(|part| part["envoy"].as_str().unwrap().starts_with("edge-")), "{}", kills[0]);
        let spread = format!("spread over {} Envoys", parts.len());
        assert!(kills[0]["reason"].as_str().unwrap().ends_with(&spread), "{}", kills[0]);
    }
}

/// Lets an agent loop with pauses, and another without, while healthy agents work.
async fn stop_loops(fleet: &Fleet) {
    let working = fleet.healthy("healthy", 6, Duration::from_millis(20)).await;
    fleet.enable("hasty", json!({})).await;
    let (calls, after) = fleet.loop_until_refused("hasty", Pace::NoPause).await;
    println!(
        "without pauses: the last call served began {after:?} after the sixth, and call {calls} was refused; promised: {PROMISED:?}"
    );
    assert!(calls < BY_ONE_OF_FOUR, "one Envoy has recognised it alone, at call {calls} after {after:?}");
    assert_one_kill(fleet, "hasty", 2).await;
    working.goes_on(100).await;
    let healthy = working.end().await;
    assert!(healthy.stopped == 0 && healthy.failed == 0, "{healthy:?}");
    // From here on, every call and answer that is merged is one of the next agent.
    let answered = healthy.calls + calls - 1;
    fleet.wait_for_merged(2 * answered as u64).await;

    fleet.enable("slow", json!({})).await;
    let (calls, _) = fleet.loop_until_refused("slow", Pace::UntilMerged).await;
    println!("with pauses: refused at call {calls}");
    assert!(calls <= ALONE + 2, "{calls}");
    assert_one_kill(fleet, "slow", ENVOYS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_p16_a_loop_over_four_envoys_is_stopped_and_healthy_agents_beside_it_are_not() {
    let fleet = Fleet::start(ENVOYS).await;
    stop_loops(&fleet).await;
    let (_, seen) = fleet.remote(0, 0).api("GET", "/v1/agents/healthy-0/fleet", None).await;
    let names: Vec<_> = seen["envoys"].as_array().unwrap().iter().map(|part| part["envoy"].clone()).collect();
    assert_eq!(names, ["edge-0", "edge-1", "edge-2", "edge-3"].map(Value::from), "{seen}");
    assert!(seen["score"].is_number());

    // An agent that was stopped goes on after an activation, with a fresh window.
    fleet.remote(0, 0).activate("slow").await;
    fleet.settled().await;
    let (calls, _) = fleet.loop_until_refused("slow", Pace::UntilMerged).await;
    assert!((ALONE..=ALONE + 2).contains(&calls), "{calls}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_over_envoys_of_two_replicas_is_stopped_once() {
    let Some(url) = database().await else { return };
    let fleet = Fleet::over(ENVOYS, &[Some(&url), Some(&url)]).await;
    stop_loops(&fleet).await;

    fleet.enable("watched", json!({"action": "observe"})).await;
    let before = fleet.merged().await.into_iter().max().unwrap();
    let callers = fleet.callers("watched");
    for number in 0..8 {
        assert_eq!(ask(&callers[number % ENVOYS]).await, 200);
        fleet.wait_for_merged(before + 2 * (number as u64 + 1)).await;
    }
    let observed = fleet.remote(0, 1).events("watched", "would_kill").await;
    assert_eq!(observed.len(), 1, "both replicas have found it: {observed:?}");
}

/// Asks the same question as always, and returns the status.
async fn ask(caller: &Caller) -> u16 {
    let mut conversation = lab::chat::Conversation::new(Format::OpenAiChat, false);
    conversation.say(&lab::chat::Input::Open("Where is my order? It should have come on Monday.".to_owned()));
    let answer = Answer::text("It is on its way, and it will arrive within two days.");
    caller.call(&conversation.request(), Some(&answer)).await.unwrap().status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_by_the_fleet_reaches_every_envoy_and_ends_with_its_time() {
    let fleet = Fleet::start(2).await;
    fleet.enable("bot", json!({"action": "block", "retry_after_seconds": 3})).await;
    let callers = fleet.callers("bot");
    fleet.loop_until_refused("bot", Pace::UntilMerged).await;
    for caller in &callers {
        wait_until("every Envoy refuses", SOON, || async { ask(caller).await == 429 }).await;
    }
    let remote = fleet.remote(0, 0);
    assert_eq!(remote.events("bot", "blocked").await.len(), 1);
    let (_, sessions) = remote.api("GET", "/v1/agents/bot/sessions", None).await;
    assert_eq!(sessions["sessions"], json!([]), "no conversation was stopped");
    for caller in &callers {
        wait_until("the block ends", SOON, || async { ask(caller).await == 200 }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_windows_go_on_without_a_database_and_the_fleet_heals_when_it_is_back() {
    let Some(mut cluster) = postgres::start() else { return };
    let url = cluster.database().await;
    let mut fleet = Fleet::over(ENVOYS, &[Some(&url), Some(&url)]).await;
    fleet.enable("alone", json!({})).await;
    fleet.enable("spread", json!({})).await;
    fleet.enable("later", json!({})).await;

    cluster.stop();
    let caller = &fleet.callers("alone")[0];
    for number in 1..=ALONE {
        let expected = if number == ALONE { 403 } else { 200 };
        assert_eq!(ask(caller).await, expected, "call {number} of a loop on one Envoy");
    }
    // Some of the evidence is lost with the database.
    for caller in fleet.callers("spread") {
        assert_eq!(ask(&caller).await, 200);
    }
    cluster.resume();
    wait_until("the kill is recorded", SOON, || async {
        // The sidecar answers with an error until it has connected again.
        let (_, page) = fleet.remote(0, 0).api("GET", "/v1/events?agent_id=alone&event_type=kill_switch", None).await;
        page["events"].as_array().is_some_and(|kills| kills.len() == 1)
    })
    .await;
    fleet.settled().await;
    let (_, after) = fleet.loop_until_refused("spread", Pace::NoPause).await;
    println!("after a restart of the database: the last call served began {after:?} after the sixth");
    assert_one_kill(&fleet, "spread", 2).await;

    // The Envoys of a replica that has crashed lose their link, and the others go on together.
    fleet.sidecars[1].kill();
    let callers = fleet.callers("later");
    let calls = async || {
        let mut statuses = Vec::new();
        for caller in [&callers[0], &callers[2]] {
            statuses.push(ask(caller).await);
        }
        statuses
    };
    wait_until("two Envoys of one replica stop the loop", SOON, || async { calls().await == [403, 403] }).await;
    assert_eq!(fleet.remote(0, 0).kills("later", 1).await.len(), 1);
    fleet.sidecars[1].resume().await;
    wait_until("the other Envoys hear of it", SOON, || async { ask(&callers[1]).await == 403 }).await;
    assert_eq!(fleet.remote(0, 1).events("later", "kill_switch").await.len(), 1);
}
