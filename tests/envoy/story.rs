//! The story of a kill through a real Envoy: its calls are those that the filter saw, with the scores that it gave them, and
//! what a setting would have changed is what the filter does with it.

use std::time::Duration;

use lab::Answer;
use lab::mesh::{Mesh, MeshOptions};
use lab::proc::wait_until;
use serde_json::{Value, json};

use crate::support::{SIXTH_REFUSED, Shared, ask, repeated, run};

static MESH: Shared = Shared::new(MeshOptions::default);

const QUESTION: &str = "What is the weather in Paris today?";

fn answer() -> Answer {
    Answer::text("I could not find the weather in Paris, so please ask me again.")
}

/// Waits until a story meets a condition: calls are reported and stored about a second after they were made.
async fn story(mesh: &Mesh, event: &Value, is_complete: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/v1/kills/{}", event["id"]);
    let told = async || mesh.api("GET", &path, None).await.1;
    wait_until("the calls are stored", Duration::from_secs(30), || async { is_complete(&told().await) }).await;
    told().await
}

fn calls(story: &Value) -> &[Value] {
    story["calls"].as_array().map(Vec::as_slice).unwrap_or_default()
}

#[test]
fn the_story_of_a_loop_lists_its_six_calls_with_their_growing_scores() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("story/loop", json!({})).await;
        let caller = mesh.caller("story/loop");
        assert_eq!(repeated(&caller, &ask(QUESTION), Some(&answer()), 6).await, SIXTH_REFUSED);
        let kill = &mesh.kills("story/loop", 1).await[0];
        let story = story(&mesh, kill, |story| story["note"].is_null() && calls(story).len() == 6).await;
        let scores: Vec<_> = calls(&story).iter().map(|call| call["score"].as_f64().unwrap()).collect();
        assert_eq!(scores, [0.0, 1.0, 4.0, 7.0, 10.0, 13.0], "{story}");
        let repeated: Vec<_> =
            calls(&story)[5]["repeats"].as_array().unwrap().iter().map(|one| one["number"].clone()).collect();
        assert_eq!(repeated, [5, 4, 3, 2, 1]);
        // The client is told the same as the story says.
        let reply = caller.call(&ask(QUESTION), None).await.unwrap();
        assert_eq!(story["reply"]["status"], reply.status);
        let told: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(told["error"]["message"], story["reply"]["message"]);
        wait_until("the refused call is counted", Duration::from_secs(30), || async {
            mesh.api("GET", &format!("/v1/kills/{}", kill["id"]), None).await.1["refused"]["calls"].as_u64() >= Some(1)
        })
        .await;
    });
}

#[test]
fn what_a_higher_threshold_would_have_stopped_is_what_the_filter_stops_with_it() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("story/observed", json!({"action": "observe"})).await;
        let caller = mesh.caller("story/observed");
        assert_eq!(repeated(&caller, &ask(QUESTION), Some(&answer()), 12).await, [200; 12]);
        let event = mesh.event("story/observed", "would_kill").await;
        let raised = |story: &Value| {
            let remedies = story["remedies"].as_array().cloned().unwrap_or_default();
            remedies.into_iter().find(|one| one["remedy"] == "raise_threshold").unwrap_or_default()
        };
        let story = story(&mesh, &event, |story| raised(story)["preview"]["calls"] == 12).await;
        let remedy = raised(&story);
        assert_eq!(remedy["preview"]["basis"], json!({"of": "calls", "reservations": []}), "{remedy}");
        let predicted = remedy["preview"]["stops"][0]["call"].as_u64().unwrap() as usize;

        mesh.enable("story/raised", json!({"kill_switch_threshold": remedy["threshold"]})).await;
        let statuses = repeated(&mesh.caller("story/raised"), &ask(QUESTION), Some(&answer()), 12).await;
        let refused = statuses.iter().position(|status| *status != 200).unwrap() + 1;
        assert_eq!((predicted, refused), (7, 7), "{remedy}");
    });
}
