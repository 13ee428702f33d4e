//! Agents appear in the sidecar by themselves, with the kill switch off, and the sidecar learns their scores.

use lab::mesh::{MeshOptions, SOON};
use lab::proc::wait_until;
use serde_json::json;

use crate::support::{SIXTH_REFUSED, Shared, deactivated, looping, run};

static MESH: Shared = Shared::new(MeshOptions::default);

const REFUSED: &str = "kill_switch_requests_refused_total";

#[test]
fn an_unknown_agent_appears_with_the_kill_switch_off() {
    run(async {
        let mesh = MESH.get().await;
        assert_eq!(looping(&mesh.caller("team/new@lab"), 8).await, [200; 8], "its kill switch is off");
        wait_until("the agent appears", SOON, || async {
            mesh.api("GET", "/v1/agents/team%2Fnew%40lab", None).await.0 == 200
        })
        .await;
        let agent = mesh.agent("team/new@lab").await;
        assert_eq!((&agent["kill_switch_enabled"], &agent["active"]), (&json!(false), &json!(true)), "{agent}");
        assert!(agent["last_seen"].is_string(), "{agent}");
        mesh.enable("team/new@lab", json!({})).await;
        assert_eq!(looping(&mesh.caller("team/new@lab"), 6).await, SIXTH_REFUSED, "its kill switch is on now");
    });
}

#[test]
fn scores_of_all_workers_are_in_the_order_of_the_calls_and_have_their_signals() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("scored", json!({})).await;
        assert_eq!(looping(&mesh.caller("scored"), 6).await, SIXTH_REFUSED);
        let scores = mesh.scores("scored", 6).await;
        let parts = ["score", "similar_prompts", "similar_responses", "repeated_tool_calls"];
        let told: Vec<[f64; 4]> = scores.iter().map(|score| parts.map(|part| score[part].as_f64().unwrap())).collect();
        let last = told.last().unwrap();
        assert_eq!(last, &[13.0, 5.0, 4.0, 0.0], "{told:?}");
        assert!(told.is_sorted_by(|[before, ..], [after, ..]| before < after), "{told:?}");
        for [score, prompts, responses, tools] in &told {
            assert_eq!(*score, prompts + 2.0 * responses + 1.5 * tools, "{told:?}");
        }
    });
}

#[test]
fn refused_calls_are_counted() {
    run(async {
        let mesh = MESH.get().await;
        deactivated(&mesh, "refused").await;
        let before = mesh.sidecar_metric(REFUSED).await;
        assert_eq!(looping(&mesh.caller("refused"), 7).await, [403; 7]);
        wait_until("the sidecar has counted them", SOON, || async {
            mesh.sidecar_metric(REFUSED).await >= before + 7.0
        })
        .await;
    });
}
