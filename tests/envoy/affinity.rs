//! With the ring hash of envoy/affinity.yaml, one Envoy sees all calls of an agent, and stops its loop by itself.

use std::collections::BTreeSet;

use lab::Format;
use lab::agent::{Agent, Kind};
use lab::chat::Caller;
use lab::fleet::Fleet;
use lab::mesh::SOON;
use lab::proc::{Envoy, wait_until};
use serde_json::json;

use crate::support::{SIXTH_REFUSED, chatting, looping, run};

const ENVOYS: usize = 4;
const AGENTS: usize = 16;
const CALLS: usize = 5;

/// Starts the Envoy of envoy/affinity.yaml in front of a fleet.
async fn front(fleet: &Fleet) -> Envoy {
    let mut yaml = include_str!("../../envoy/affinity.yaml").to_owned();
    let mut replace = |old: &str, new: &str| {
        assert!(yaml.contains(old), "{old}");
        yaml = yaml.replace(old, new);
    };
    for (number, envoy) in fleet.envoys.iter().enumerate() {
        let port = envoy.address().port();
        replace(&format!("port_value: {} ", 10_001 + number), &format!("port_value: {port} "));
    }
    for port in ["10000", "9901"] {
        replace(&format!("port_value: {port} "), "port_value: 0 ");
    }
    // An Envoy that has ended is noticed sooner, and one that is slow because the machine is busy keeps its agents.
    replace("interval: 2s", "interval: 0.1s");
    replace("- timeout: 1s", "- timeout: 60s");
    // By default the workers hear of Envoys that come or go up to a second later.
    replace("lb_policy: RING_HASH", "lb_policy: RING_HASH\n      common_lb_config: { update_merge_window: 0s }");
    let front = Envoy::start(&yaml, 2).await;
    // Until then the ring is not complete, and agents move.
    wait_until("all Envoys are on the ring", SOON, || async {
        front.stat("cluster.envoys-with-filter.membership_healthy").await == ENVOYS as u64
    })
    .await;
    front
}

/// Returns how many calls each Envoy has judged and forwarded.
async fn judged(fleet: &Fleet) -> Vec<u64> {
    let mut judged = Vec::new();
    for envoy in &fleet.envoys {
        judged.push(envoy.stat("wasmcustom.kill_switch.requests.allowed").await);
    }
    judged
}

#[test]
fn all_calls_of_an_agent_reach_one_envoy_which_stops_a_loop_at_its_sixth_call_without_the_fleet() {
    run(async {
        let mut fleet = Fleet::with(ENVOYS, &[None], &json!({"fleet": false})).await;
        let front = front(&fleet).await;
        let caller = |agent: &str| Caller::new(front.url(), agent);
        let mut homes = Vec::new();
        for number in 0..AGENTS {
            let agent = format!("agent-{number}");
            fleet.enable(&agent, json!({})).await;
            let before = judged(&fleet).await;
            let mut chat = Agent::new(Kind::Chatty, caller(&agent), Format::OpenAiChat, false);
            for _ in 0..CALLS {
                // On a connection of its own, which any worker of the Envoy in front may get.
                chat.call_through(caller(&agent));
                assert_eq!(chat.call().await.reply.unwrap().status, 200);
            }
            let calls: Vec<u64> =
                judged(&fleet).await.iter().zip(&before).map(|(after, before)| after - before).collect();
            let home = calls.iter().position(|calls| *calls == CALLS as u64);
            homes.push(home.unwrap_or_else(|| panic!("the calls of {agent} are spread: {calls:?}")));
        }
        let used: BTreeSet<usize> = homes.iter().copied().collect();
        assert!(used.len() > 1, "the agents are spread over several Envoys: {homes:?}");

        fleet.enable("loop", json!({})).await;
        assert_eq!(looping(&caller("loop"), 6).await, SIXTH_REFUSED);
        let kills = fleet.remote(0, 0).kills("loop", 1).await;
        assert_eq!(kills.len(), 1, "{kills:?}");
        assert_eq!(kills[0].get("envoys"), None, "one Envoy has stopped it by itself: {}", kills[0]);

        // If an Envoy ends, its agents move to others, where a loop is stopped at its sixth call as well.
        let (moved, lost) = ("agent-0", homes[0]);
        fleet.envoys[lost].kill();
        wait_until("another Envoy serves the agent", SOON, || async { chatting(&caller(moved), 1).await == [200] })
            .await;
        assert_eq!(looping(&caller(moved), 6).await, SIXTH_REFUSED);
    });
}
