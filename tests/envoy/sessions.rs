//! Sessions of one agent do not add up to a loop, but one session can be a loop.

use lab::mesh::MeshOptions;
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
