//! Without its sidecar Envoy continues: traffic passes, the last known policy stays in force, and no kill is lost.

use std::sync::atomic::{AtomicBool, Ordering};

use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::wait_until;
use serde_json::json;

use crate::support::{Loop, SIXTH_REFUSED, ask, chatting, counter, looping, run};

const OUTBOX_DEPTH: &str = "outbox_depth";

#[test]
fn traffic_passes_before_the_sidecar_is_started_and_policy_arrives_afterwards() {
    run(async {
        let mut mesh = Mesh::with(MeshOptions { sidecar_runs: false, ..MeshOptions::default() }).await;
        assert_eq!(looping(&mesh.caller("early"), 8).await, [200; 8]);
        assert_eq!(counter(&mesh, "requests.no_policy").await, 8);
        mesh.sidecar.resume().await;
        mesh.enable("early", json!({})).await;
        assert_eq!(looping(&mesh.caller("early"), 6).await, SIXTH_REFUSED);
        mesh.kills("early", 1).await;
    });
}

#[test]
fn on_no_policy_deny_refuses_calls_until_the_first_policy_arrives() {
    run(async {
        let filter = json!({"on_no_policy": "deny"});
        let mut mesh = Mesh::with(MeshOptions { sidecar_runs: false, filter, ..MeshOptions::default() }).await;
        let caller = mesh.caller("early").without_keep_alive();
        let refused = caller.call(&ask("hello"), None).await.unwrap();
        assert_eq!((refused.status, refused.from_upstream()), (503, false));
        assert_eq!(refused.json()["error"]["code"], "no_policy", "in the client's own shape: {}", refused.body);
        assert_eq!(refused.header("x-kill-switch-reason"), "no_policy");
        assert!(refused.header("retry-after").parse::<u32>().unwrap() > 0);
        mesh.sidecar.resume().await;
        wait_until("both workers let calls pass", SOON, || async {
            let calls: Vec<u16> = looping(&caller, 12).await;
            calls == [200; 12]
        })
        .await;
    });
}

#[test]
fn after_the_sidecar_stops_the_last_known_policy_stays_in_force() {
    run(async {
        let mut mesh = Mesh::start().await;
        for agent in ["killed", "loops-later", "off", "stopped"] {
            mesh.enable(agent, json!({"kill_switch_enabled": agent != "off"})).await;
        }
        assert_eq!(looping(&mesh.caller("killed"), 6).await, SIXTH_REFUSED);
        mesh.kills("killed", 1).await;
        mesh.deactivate("stopped").await;
        mesh.settled().await;

        mesh.sidecar.stop().await;
        assert_eq!(chatting(&mesh.caller("killed"), 2).await, [403; 2], "a killed agent stays killed");
        assert_eq!(chatting(&mesh.caller("stopped"), 2).await, [403; 2], "a deactivated agent stays deactivated");
        assert_eq!(looping(&mesh.caller("off"), 8).await, [200; 8], "a kill switch that is off stays off");
        assert_eq!(looping(&mesh.caller("stranger"), 8).await, [200; 8], "calls of unknown agents pass");
        assert_eq!(looping(&mesh.caller("loops-later"), 6).await, SIXTH_REFUSED, "loops are still stopped");

        report_waits(&mesh).await;
        mesh.sidecar.resume().await;
        assert_eq!(mesh.kills("loops-later", 1).await.len(), 1, "the report was kept");
        assert_eq!(mesh.agent("loops-later").await["active"], false);
        mesh.activate("killed").await;
        mesh.settled().await;
        assert_eq!(chatting(&mesh.caller("killed"), 1).await, [200]);
        assert_eq!(chatting(&mesh.caller("loops-later"), 1).await, [403]);
    });
}

#[test]
fn a_sidecar_that_crashes_around_a_kill_records_it_exactly_once_and_does_not_undo_it() {
    run(async {
        let mut mesh = Mesh::start().await;
        for (agent, calls_before_crash) in [("before", 5), ("after", 6)] {
            mesh.enable(agent, json!({})).await;
            let mut looping = Loop::new(&mesh.caller(agent));
            looping.calls(calls_before_crash).await;
            mesh.sidecar.kill();
            // The report is being sent, or was accepted just before the crash without an answer.
            assert_eq!(looping.calls(1).await, [403], "{agent}");
            if agent == "before" {
                report_waits(&mesh).await;
            }
            assert_refused_during_recovery(&mut mesh, agent).await;
            assert_eq!(mesh.events(agent, "kill_switch").await.len(), 1, "{agent}: no duplicate");
            let state = mesh.agent(agent).await;
            assert_eq!((&state["active"], &state["deactivated_by"]), (&json!(false), &json!("kill_switch")), "{agent}");
        }
    });
}

/// Waits until a report could not be delivered and is kept.
async fn report_waits(mesh: &Mesh) {
    wait_until("a report cannot be delivered", SOON, || async {
        mesh.envoy.log().contains("a kill report waits for the sidecar") && counter(mesh, OUTBOX_DEPTH).await == 1
    })
    .await;
}

/// Starts the sidecar again and changes the agent's settings, so that the sidecar sends a policy that is still active until
/// the report has arrived. The agent calls all the time and must always be refused.
async fn assert_refused_during_recovery(mesh: &mut Mesh, agent: &str) {
    let caller = mesh.caller(agent).without_keep_alive();
    let done = AtomicBool::new(false);
    let hammer = async {
        while !done.load(Ordering::Relaxed) {
            assert_eq!(chatting(&caller, 1).await, [403], "{agent} was killed");
        }
    };
    let recovery = async {
        mesh.sidecar.resume().await;
        mesh.enable(agent, json!({"kill_switch_window_size": 30})).await;
        mesh.kills(agent, 1).await;
        wait_until("the outbox is empty", SOON, || async { counter(mesh, OUTBOX_DEPTH).await == 0 }).await;
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(hammer, recovery);
}
