//! Conversations of one agent do not add up to a loop, but one of them can be a loop, and can be stopped alone.

use std::sync::atomic::{AtomicU64, Ordering};

use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::wait_until;
use lab::{Answer, prose};
use serde_json::json;

use crate::support::{SIXTH_REFUSED, Shared, ask, looping, run};

static MESH: Shared =
    Shared::new(|| MeshOptions { filter: json!({"session_header": "x-session-id"}), ..MeshOptions::default() });

/// Makes twenty calls that differ only in a number, each with its own answer, and returns the statuses.
async fn twenty_tickets(agent: &str, session: impl Fn(u64) -> String) -> Vec<u16> {
    let mesh = MESH.get().await;
    // With literal counting a repeated question counts whatever the answer is, so without sessions this is a loop.
    mesh.enable(agent, json!({"counting": "literal"})).await;
    let mut statuses = Vec::new();
    for ticket in 0..20 {
        let caller = mesh.caller(agent).with("x-session-id", &session(ticket));
        let question = ask(&format!("Summarise ticket #{ticket} for the weekly report, in one paragraph."));
        let answer = Answer::text(prose::paragraph(ticket, 3));
        statuses.push(caller.call(&question, Some(&answer)).await.unwrap().status);
    }
    statuses
}

#[test]
fn twenty_sessions_with_the_same_template_are_allowed_and_one_long_session_is_not() {
    run(async {
        let mesh = MESH.get().await;
        let apart = twenty_tickets("apart", |ticket| format!("ticket-{ticket}")).await;
        assert_eq!(apart, [200; 20], "each call has its own session");
        let together = twenty_tickets("together", |_| "all".to_owned()).await;
        assert_eq!(
            together.iter().position(|status| *status == 403),
            Some(11),
            "the twelfth call in one session is refused"
        );
        assert_eq!(mesh.kills("together", 1).await.len(), 1);
        assert_eq!(mesh.events("apart", "kill_switch").await.len(), 0);
    });
}

#[test]
fn a_session_that_loops_stops_its_agent() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("session", json!({})).await;
        let healthy = mesh.caller("session").with("x-session-id", "healthy");
        assert_eq!(healthy.call(&ask("What is new?"), None).await.unwrap().status, 200);
        assert_eq!(looping(&mesh.caller("session").with("x-session-id", "stuck"), 6).await, SIXTH_REFUSED);
        assert_eq!(
            healthy.call(&ask("And now?"), None).await.unwrap().status,
            403,
            "the agent is inactive in all sessions"
        );
    });
}

/// Makes a call that is like no other one, and returns its status.
async fn call(caller: &lab::chat::Caller) -> u16 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let number = CALLS.fetch_add(1, Ordering::Relaxed);
    let answer = Answer::text(prose::sentence(!number));
    caller.call(&ask(&prose::sentence(number)), Some(&answer)).await.unwrap().status
}

#[test]
fn a_loop_stops_only_its_conversation_on_every_envoy_until_a_person_lets_it_go_on() {
    run(async {
        let mesh = Mesh::with(MeshOptions { workers: 3, ..MeshOptions::default() }).await;
        let (_envoy, elsewhere) = mesh.another_envoy().await;
        mesh.enable("service", json!({"scope": "session", "session_stop_seconds": 600})).await;
        let stuck = |mesh: &lab::mesh::Remote| mesh.caller("service").with("x-session-id", "stuck");
        let other = mesh.caller("service").with("x-session-id", "other");
        assert_eq!(looping(&stuck(&mesh), 6).await, SIXTH_REFUSED);
        for _ in 0..6 {
            assert_eq!(call(&stuck(&mesh).without_keep_alive()).await, 403, "every worker knows");
        }
        assert_eq!(call(&other).await, 200, "other conversations go on");
        wait_until("the other Envoy refuses the conversation", SOON, || async {
            call(&stuck(&elsewhere)).await == 403
        })
        .await;

        let reply = stuck(&mesh).call(&ask("Why?"), None).await.unwrap();
        let error = &reply.json()["error"];
        assert_eq!((&error["code"], &error["session"]), (&json!("session_stopped"), &json!("stuck")));
        assert_eq!(reply.header("x-kill-switch-reason"), "session_stopped");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("the same input 6 times and the same answer 5 times"), "{message}");
        let event = mesh.event("service", "kill_switch").await;
        assert_eq!((&event["session"], &event["scope"]), (&json!("stuck"), &json!("session")));
        assert_eq!(mesh.agent("service").await["active"], true);

        let (_, stopped) = mesh.api("GET", "/v1/agents/service/sessions", None).await;
        let key = stopped["sessions"][0]["session_key"].as_str().unwrap_or_else(|| panic!("{stopped}"));
        let path = format!("/v1/agents/service/sessions/{key}/resume");
        assert_eq!(mesh.api("POST", &path, Some(json!({"reason": "fixed"}))).await.0, 200);
        for remote in [&mesh, &elsewhere] {
            wait_until("the conversation goes on", SOON, || async { call(&stuck(remote)).await == 200 }).await;
        }
    });
}

#[test]
fn an_agent_whose_conversations_loop_one_after_the_other_is_deactivated() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("escalating", json!({"scope": "session", "escalate_after": 2})).await;
        let healthy = mesh.caller("escalating").with("x-session-id", "healthy");
        for session in ["first", "second"] {
            assert_eq!(call(&healthy).await, 200);
            let caller = mesh.caller("escalating").with("x-session-id", session);
            assert_eq!(looping(&caller, 6).await, SIXTH_REFUSED, "{session}");
        }
        let deactivated_by = || async { mesh.agent("escalating").await["deactivated_by"].clone() };
        wait_until("the agent is inactive", SOON, || async { deactivated_by().await == "kill_switch" }).await;
        wait_until("Envoy knows", SOON, || async { call(&healthy).await == 403 }).await;
    });
}

#[test]
fn an_envoy_is_called_by_its_node_id_unless_it_has_a_name() {
    run(async {
        // A mesh of its own: the others wait for every Envoy that has ever polled.
        let mesh = Mesh::start().await;
        let (_envoy, _) = mesh.another_envoy().await;
        let names = || async {
            let (_, envoys) = mesh.api("GET", "/v1/envoys", None).await;
            let envoys = envoys["envoys"].as_array().cloned().unwrap_or_default();
            envoys.iter().filter_map(|envoy| Some(envoy["envoy"].as_str()?.to_owned())).collect::<Vec<_>>()
        };
        wait_until("both Envoys are known", SOON, || async { names().await == ["another", "lab"] }).await;
    });
}
