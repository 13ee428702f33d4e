//! A pause reaches a real Envoy: loops are forwarded and recorded, and stopped again afterwards.

use std::time::{Duration, Instant};

use lab::mesh::{Mesh, OPERATOR, Remote, SOON};
use lab::proc::{Sidecar, SidecarOptions, wait_until};
use serde_json::json;

use crate::support::{SIXTH_REFUSED, chatting, counter, looping, run};

async fn pause(mesh: &Remote, seconds: u64) {
    let (status, body) = mesh.api("PUT", "/v1/pause", Some(json!({"for_seconds": seconds, "reason": "a test"}))).await;
    assert_eq!(status, 200, "{body}");
}

#[test]
fn a_loop_is_forwarded_while_the_fleet_is_paused_and_killed_after_it_was_resumed() {
    run(async {
        let mesh = Mesh::start().await;
        mesh.enable("looping", json!({})).await;
        mesh.enable("stopped", json!({})).await;
        mesh.deactivate("stopped").await;
        let begun = Instant::now();
        pause(&mesh, 3_600).await;
        mesh.settled().await;
        println!("paused at Envoy after {:?}", begun.elapsed());
        assert_eq!(looping(&mesh.caller("looping"), 6).await, [200; 6]);
        let event = mesh.event("looping", "would_kill").await;
        assert_eq!((&event["paused"], &event["action"]), (&json!(true), &json!("observe")), "{event}");
        assert_eq!(mesh.agent("looping").await["active"], true);
        assert_eq!(chatting(&mesh.caller("stopped"), 1).await, [403], "an inactive agent stays inactive");
        assert_eq!(counter(&mesh, "would_kills").await, 1);
        wait_until("the gauge says so", SOON, || async { counter(&mesh, "paused").await == 1 }).await;

        let (status, body) = mesh.api("DELETE", "/v1/pause", None).await;
        assert_eq!((status, &body["paused"]), (200, &json!(false)));
        mesh.settled().await;
        wait_until("the gauge says so", SOON, || async { counter(&mesh, "paused").await == 0 }).await;
        assert_eq!(looping(&mesh.caller("looping"), 6).await, SIXTH_REFUSED);
        mesh.kills("looping", 1).await;
    });
}

#[test]
fn a_pause_ends_at_envoy_while_the_sidecar_is_away() {
    run(async {
        let mut mesh = Mesh::start().await;
        mesh.enable("looping", json!({})).await;
        // The sidecar must be gone before the pause ends. If the machine is too busy for that, a longer pause is tried.
        for seconds in (2..).map(|power| 1 << power) {
            pause(&mesh, seconds).await;
            mesh.settled().await;
            mesh.sidecar.kill();
            // The gauge is written with every tick, so it is right before the sidecar is started again.
            let is_paused = || async { counter(&mesh, "paused").await == 1 };
            let begun = Instant::now();
            while !is_paused().await && begun.elapsed().as_secs() < seconds {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            if is_paused().await {
                break;
            }
            mesh.sidecar.resume().await;
        }
        wait_until("the pause ends", SOON, || async { counter(&mesh, "paused").await == 0 }).await;
        assert_eq!(looping(&mesh.caller("looping"), 6).await, SIXTH_REFUSED, "nobody had to say so");
        mesh.sidecar.resume().await;
        mesh.kills("looping", 1).await;
    });
}

#[test]
fn an_agent_that_envoy_killed_before_it_heard_of_the_pause_is_given_back() {
    run(async {
        let mut mesh = Mesh::start().await;
        mesh.enable("early", json!({})).await;
        // Envoy detects the loop while it cannot reach the sidecar. Meanwhile the fleet is paused through another sidecar
        // with the same database, so that the report arrives in a pause of which Envoy has not heard.
        mesh.sidecar.stop().await;
        assert_eq!(looping(&mesh.caller("early"), 6).await, SIXTH_REFUSED);
        let db = mesh.sidecar.folder().join("kill-switch.db").display().to_string();
        let mut other = Sidecar::start(SidecarOptions {
            arguments: ["serve", "--listen", "{listen}", "--db", &db].map(str::to_owned).to_vec(),
            environment: vec![("KILL_SWITCH_OPERATOR_TOKEN".to_owned(), OPERATOR.to_owned())],
            ..SidecarOptions::default()
        })
        .await;
        pause(&Remote { sidecar: other.url(), ..mesh.clone() }, 3_600).await;
        other.stop().await;
        mesh.sidecar.resume().await;
        let event = mesh.event("early", "would_kill").await;
        assert_eq!((&event["paused"], &event["action"]), (&json!(true), &json!("deactivate")), "{event}");
        wait_until("the agent goes on", SOON, || async { chatting(&mesh.caller("early"), 1).await == [200] }).await;
    });
}
