//! The tokens that answers state: from a real Envoy to the sidecar's API and to the event of a kill.

use lab::chat::{Conversation, Input, Request};
use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::wait_until;
use lab::{Answer, Format};
use serde_json::{Value, json};

use crate::support::{SIXTH_REFUSED, Shared, ask, looping, repeated, run};

static MESH: Shared = Shared::new(MeshOptions::default);

/// Waits until the sidecar knows of this many answers to an agent, and returns their day and model.
async fn used(mesh: &Mesh, agent: &str, answers: u64) -> (Value, Value) {
    let path = format!("/v1/agents/{agent}/usage");
    let found = async || {
        let (_, usage) = mesh.api("GET", &path, None).await;
        (usage["days"][0].clone(), usage["days"][0]["models"][0].clone())
    };
    wait_until("the sidecar knows of the answers", SOON, || async { found().await.1["calls"] == answers }).await;
    found().await
}

#[test]
fn a_kill_and_the_days_of_its_agent_tell_the_tokens_that_the_provider_stated() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("costly", json!({})).await;
        let answer = Answer::text("I cannot find that parcel.");
        let request = ask("Where is my parcel?");
        assert_eq!(repeated(&mesh.caller("costly"), &request, Some(&answer), 6).await, SIXTH_REFUSED);
        mesh.kills("costly", 1).await;
        let event = &mesh.events("costly", "kill_switch").await[0];
        let (day, model) = used(&mesh, "costly", 5).await;
        assert_eq!(model["model"], "mock-1", "{day}");
        assert!(model["input_tokens"].as_u64() > Some(25) && model["output_tokens"].as_u64() > Some(10), "{day}");
        assert_eq!(model["cost"], Value::Null, "there are no prices");
        assert_eq!(event["loop_calls"], 6, "{event}");
        let stated = json!({"input_tokens": model["input_tokens"], "output_tokens": model["output_tokens"]});
        assert_eq!(event["loop_usage"], stated, "all answers were part of the loop: {event}");
        wait_until("the refused call is counted", SOON, || async { used(&mesh, "costly", 5).await.0["refused"] == 1 })
            .await;
    });
}

/// A question that asks for a stream which states its tokens.
fn streamed(format: Format) -> Request {
    if format == Format::OpenAiResponses {
        let body = json!({"model": "mock-1", "input": "Where is my parcel?", "stream": true});
        return Request::new(format, "/v1/responses", body);
    }
    let mut conversation = Conversation::new(format, true);
    conversation.say(&Input::User("Where is my parcel?".to_owned()));
    let mut request = conversation.request();
    if format == Format::OpenAiChat {
        request.body["stream_options"] = json!({"include_usage": true});
    }
    request
}

#[test]
fn streams_of_every_api_state_their_tokens() {
    run(async {
        let mesh = MESH.get().await;
        let formats =
            [Format::OpenAiChat, Format::OpenAiResponses, Format::Anthropic, Format::Gemini, Format::OllamaChat];
        for format in formats {
            let agent = format!("streams-{format:?}").to_lowercase();
            mesh.enable(&agent, json!({})).await;
            let answer = Answer::text("It is on its way.");
            let statuses = repeated(&mesh.caller(&agent), &streamed(format), Some(&answer), 2).await;
            assert_eq!(statuses, [200, 200], "{format:?}");
            let (day, model) = used(&mesh, &agent, 2).await;
            let (input, output) = (model["input_tokens"].as_u64(), model["output_tokens"].as_u64());
            assert!(input > Some(10) && output > Some(6), "{format:?}: {day}");
        }
    });
}

#[test]
fn an_agent_whose_kill_switch_is_off_has_no_tokens_because_its_answers_are_not_read() {
    run(async {
        let mesh = MESH.get().await;
        assert_eq!(looping(&mesh.caller("unread"), 3).await, [200; 3]);
        wait_until("the agent appears", SOON, || async { mesh.api("GET", "/v1/agents/unread", None).await.0 == 200 })
            .await;
        let (_, usage) = mesh.api("GET", "/v1/agents/unread/usage", None).await;
        assert_eq!(usage["days"], json!([]));
    });
}
