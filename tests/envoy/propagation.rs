//! Changes by a person reach every worker: a deactivation within a quarter of a second, an activation once it is applied.

use std::time::{Duration, Instant};

use lab::chat::Caller;
use lab::mesh::{Mesh, MeshOptions};
use serde_json::json;

use crate::support::{ask, run};

/// The time that is promised for an idle machine. The test only prints it, because test machines are busy.
const PROMISED: Duration = Duration::from_millis(250);
/// The time that is asserted. It is long enough for a busy machine, and too short for a filter that has to wait for its
/// next poll.
const AT_MOST: Duration = Duration::from_secs(10);
const ROUNDS: u32 = 5;
const CONNECTIONS: usize = 8;

#[test]
fn a_deactivated_agent_is_refused_by_every_worker_at_once_and_an_activated_one_is_served() {
    run(async {
        let filter = json!({"sync_wait_seconds": 55});
        let mesh = Mesh::with(MeshOptions { workers: 3, filter, ..MeshOptions::default() }).await;
        mesh.enable("bot", json!({"kill_switch_enabled": false})).await;
        let (mut slowest, mut in_all) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..ROUNDS {
            assert_eq!(all_workers(&mesh).await, [200], "an active agent is served by every worker");
            let (after_answer, after_request) = deactivate_under_load(&mesh).await;
            (slowest, in_all) = (slowest.max(after_answer), in_all.max(after_request));
            assert_eq!(all_workers(&mesh).await, [403], "an inactive agent is refused by every worker");
            mesh.activate("bot").await;
            mesh.settled().await;
        }
        assert_eq!(all_workers(&mesh).await, [200]);
        eprintln!(
            "propagation: the last call served began {slowest:?} after the API's answer and {in_all:?} after the \
             request to it; promised: {PROMISED:?} after the answer"
        );
        assert!(slowest <= AT_MOST, "{slowest:?} from the API's answer to the last call served");
    });
}

/// Deactivates the agent while it calls on many connections. Returns how long after the API's answer, and after the request
/// to the API, the last call began that was still served.
async fn deactivate_under_load(mesh: &Mesh) -> (Duration, Duration) {
    let callers: Vec<_> = (0..CONNECTIONS).map(|_| tokio::spawn(call_until_refused(mesh.caller("bot")))).collect();
    let asked = Instant::now();
    mesh.deactivate("bot").await;
    let answered = Instant::now();
    let mut last_served = asked;
    for caller in callers {
        last_served = last_served.max(caller.await.unwrap());
    }
    (last_served.saturating_duration_since(answered), last_served.duration_since(asked))
}

/// Calls until refused, and returns when the last served call began.
async fn call_until_refused(caller: Caller) -> Instant {
    let mut last_served = Instant::now();
    loop {
        let began = Instant::now();
        let status = caller.call(&ask("hello"), None).await.unwrap().status;
        if status == 403 {
            return last_served;
        }
        assert_eq!(status, 200);
        last_served = began;
    }
}

/// Calls on new connections until each worker has taken some, and returns the distinct statuses.
async fn all_workers(mesh: &Mesh) -> Vec<u16> {
    let caller = mesh.caller("bot").without_keep_alive();
    let before = mesh.connections().await;
    let mut statuses = Vec::new();
    loop {
        for _ in 0..10 {
            statuses.push(caller.call(&ask("hello"), None).await.unwrap().status);
        }
        let after = mesh.connections().await;
        if before.iter().zip(&after).all(|(before, after)| after > before) {
            statuses.sort_unstable();
            statuses.dedup();
            return statuses;
        }
        assert!(statuses.len() < 1000, "{} connections never reached some worker", statuses.len());
    }
}
