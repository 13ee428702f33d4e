//! The agent's policy decides what happens to a loop: deactivate, block for a while, or only report. Refusals have the shape
//! of the client's own API.

use std::time::{Duration, Instant};

use lab::Format;
use lab::agent::{Agent, Kind};
use lab::chat::{Conversation, Input, Reply, Request};
use lab::mesh::{MeshOptions, SOON};
use lab::proc::{PythonClient, wait_until};
use serde_json::{Value, json};

use crate::support::{SIXTH_REFUSED, Shared, chatting, deactivated, looping, replies, run, statuses};

static MESH: Shared = Shared::new(MeshOptions::default);
static COMPLETION: Shared =
    Shared::new(|| MeshOptions { filter: json!({"inactive_reply": "completion"}), ..MeshOptions::default() });

#[test]
fn deactivate_refuses_until_a_person_activates_the_agent() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("deactivate", json!({})).await;
        let replies = replies(Kind::Looping, &mesh.caller("deactivate"), 7).await;
        assert_eq!(statuses(&replies), [200, 200, 200, 200, 200, 403, 403]);
        for reply in &replies[5..] {
            let error = &reply.json()["error"];
            assert_eq!((&error["code"], &error["deactivated_by"]), (&json!("agent_inactive"), &json!("kill_switch")));
            assert_eq!(reply.header("x-should-retry"), "false");
            assert_eq!(reply.header("x-kill-switch-reason"), "agent_inactive");
        }
        let kill = mesh.kills("deactivate", 1).await.remove(0);
        assert_eq!(kill["score"], 13.0, "{kill}");
        assert_eq!((&kill["similar_prompts"], &kill["similar_responses"]), (&json!(5), &json!(4)));
        assert!(kill["reason"].as_str().unwrap().contains("the same"), "{kill}");
        mesh.activate("deactivate").await;
        mesh.settled().await;
        assert_eq!(looping(&mesh.caller("deactivate"), 6).await, SIXTH_REFUSED, "the window is fresh");
        assert_eq!(mesh.kills("deactivate", 2).await.len(), 2, "each kill is one event");
    });
}

#[test]
fn block_refuses_for_a_while_and_then_begins_a_fresh_window() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("block", json!({"action": "block", "retry_after_seconds": 2})).await;
        let caller = mesh.caller("block");
        let replies = replies(Kind::Looping, &caller, 7).await;
        let blocked_at = Instant::now();
        assert_eq!(statuses(&replies), [200, 200, 200, 200, 200, 429, 429]);
        for reply in &replies[5..] {
            let error = &reply.json()["error"];
            assert_eq!((&error["blocked"], &error["block_reason"]), (&json!(true), &json!("loop_detected")));
            let seconds = error["retry_after_seconds"].as_u64().unwrap();
            assert!((1..=2).contains(&seconds), "{error}");
            assert_eq!(reply.header("retry-after"), seconds.to_string());
            assert_eq!(reply.header("x-kill-switch-reason"), "loop_detected");
        }
        assert_eq!(mesh.event("block", "blocked").await["block_reason"], "loop_detected");
        assert_eq!(mesh.agent("block").await["active"], true, "the agent stays active");
        wait_until("the block ends", SOON, || async { chatting(&caller, 1).await == [200] }).await;
        assert!(blocked_at.elapsed() > Duration::from_millis(1500), "the block has lasted about two seconds");
        let again = looping(&caller, 6).await;
        assert_eq!(again, [200, 200, 200, 200, 200, 429], "a loop is detected again in a fresh window");
        wait_until("both blocks are recorded", SOON, || async { mesh.events("block", "blocked").await.len() == 2 })
            .await;
    });
}

#[test]
fn observe_forwards_everything_and_reports_each_loop_once() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("observe", json!({"action": "observe"})).await;
        assert_eq!(looping(&mesh.caller("observe"), 9).await, [200; 9]);
        mesh.event("observe", "would_kill").await;
        assert_eq!(mesh.agent("observe").await["active"], true);
        mesh.scores("observe", 9).await;
        assert_eq!(
            mesh.events("observe", "would_kill").await.len(),
            1,
            "one event for the loop, not one for each call"
        );
        assert_eq!(mesh.llm.received_from("observe").len(), 9);
    });
}

/// Returns a request of each of four APIs and of MCP, with the expected status of a refusal and the JSON pointers of its
/// message and its code.
fn shapes() -> Vec<(Request, u16, &'static str, &'static str)> {
    let chat = |format| {
        let mut conversation = Conversation::new(format, false);
        conversation.say(&Input::User("hello".to_owned()));
        conversation.request()
    };
    let params = json!({"name": "search", "arguments": {}});
    let body = json!({"jsonrpc": "2.0", "id": 41, "method": "tools/call", "params": params});
    let tool = Request::new(Format::Mcp, "/mcp", body).with("accept", "application/json, text/event-stream");
    vec![
        (chat(Format::OpenAiChat), 403, "/error/message", "/error/code"),
        (chat(Format::Anthropic), 403, "/error/message", "/error/code"),
        (chat(Format::Gemini), 403, "/error/message", "/error/details/0/metadata/code"),
        (chat(Format::OllamaChat), 403, "/error", "/code"),
        (tool, 200, "/error/message", "/error/data/code"),
    ]
}

#[test]
fn a_refusal_has_the_shape_of_the_clients_own_api() {
    run(async {
        let mesh = MESH.get().await;
        deactivated(&mesh, "shapes").await;
        for (request, status, message, code) in shapes() {
            let reply = mesh.caller("shapes").call(&request, None).await.unwrap();
            let body = reply.json();
            let at = |place: &str| body.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
            assert_eq!((reply.status, reply.from_upstream()), (status, false), "{}: {body}", request.format);
            assert_eq!(at(code), "agent_inactive", "{}: {body}", request.format);
            assert!(at(message).contains("a person deactivated it"), "{}: {body}", request.format);
            if request.format == Format::Mcp {
                assert_eq!((&body["id"], &body["error"]["code"]), (&json!(41), &json!(403)), "{body}");
            }
        }
    });
}

#[test]
fn a_loop_of_tool_calls_over_mcp_is_killed_with_an_mcp_error() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("mcp", json!({})).await;
        let (mut request, ..) = shapes().pop().unwrap();
        let mut replies: Vec<Reply> = Vec::new();
        while replies.last().is_none_or(Reply::from_upstream) && replies.len() < 20 {
            request.body["id"] = json!(replies.len());
            replies.push(mesh.caller("mcp").call(&request, None).await.unwrap());
        }
        let refused = replies.last().unwrap().json();
        assert_eq!(refused["error"]["data"]["code"], "agent_inactive", "{refused}");
        assert_eq!(refused["id"], replies.len() - 1);
        mesh.kills("mcp", 1).await;
    });
}

#[test]
fn inactive_agents_get_a_completion_if_that_is_configured() {
    run(async {
        let mesh = COMPLETION.get().await;
        deactivated(&mesh, "silent").await;
        for format in Format::CHATS {
            for stream in [false, true] {
                let mut agent = Agent::new(Kind::Chatty, mesh.caller("silent"), format, stream);
                let reply = agent.call().await.reply.unwrap();
                assert_eq!((reply.status, reply.from_upstream()), (200, false), "{format}, stream: {stream}");
                let text = reply.answer().text;
                assert!(text.contains("Agent silent is inactive"), "{format}, stream: {stream}: {}", reply.body);
            }
        }
    });
}

#[test]
fn the_official_clients_can_read_the_completion_for_an_inactive_agent() {
    let Some(python) = PythonClient::get() else { return };
    run(async {
        let mesh = COMPLETION.get().await;
        deactivated(&mesh, "silent").await;
        for library in ["openai", "anthropic", "gemini", "ollama"] {
            for arguments in [&["--agent-id", "silent"][..], &["--agent-id", "silent", "--stream"]] {
                let outcome = python.run(library, &mesh.envoy.url(), arguments).await.remove(0);
                let text = outcome.text.clone().unwrap_or_default();
                assert!(text.contains("Agent silent is inactive"), "{library} {arguments:?}: {outcome:?}");
                assert_eq!(outcome.attempts, 1, "{library} {arguments:?}");
            }
        }
    });
}
