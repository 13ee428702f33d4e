//! Agents that wait, through a real Envoy: the rules of single tools in a policy, for chats with tools and for MCP.

use lab::chat::{Caller, Conversation, Input, Reply, Request};
use lab::mesh::MeshOptions;
use lab::{Answer, Format};
use serde_json::{Value, json};

use crate::support::{Shared, counter, run};

static MESH: Shared = Shared::new(MeshOptions::default);

/// How often an agent asks.
const POLLS: usize = 50;
const RESULT: &str = "The job is still running on worker three.";

/// Makes the calls of an agent that calls one tool and always gets the same result, until one is refused. Returns how many
/// results were forwarded.
async fn poll_in_a_chat(caller: &Caller, format: Format, tool: &str) -> usize {
    let mut conversation = Conversation::new(format, false);
    conversation.say(&Input::Open("Wait until the export is done, then tell me.".to_owned()));
    for results in 0..=POLLS {
        let answer = Answer::call(tool, json!({"job": 7})).with_ids();
        let reply = caller.call(&conversation.request(), Some(&answer)).await.unwrap();
        if !reply.from_upstream() {
            return results - 1;
        }
        conversation.hear(&answer);
        conversation.say(&Input::Results(vec![RESULT.to_owned()]));
    }
    POLLS
}

/// Makes calls of one tool over MCP, until one is refused. Returns how many were forwarded.
async fn poll_over_mcp(caller: &Caller, tool: &str) -> usize {
    for call in 0..POLLS {
        let params = json!({"name": tool, "arguments": {"job": 7}});
        let body = json!({"jsonrpc": "2.0", "id": call, "method": "tools/call", "params": params});
        let request = Request::new(Format::Mcp, "/mcp", body).with("accept", "application/json, text/event-stream");
        let reply: Reply = caller.call(&request, Some(&Answer::text(RESULT))).await.unwrap();
        if !reply.from_upstream() {
            return call;
        }
    }
    POLLS
}

async fn poll(caller: &Caller, format: Format, tool: &str) -> usize {
    if format == Format::Mcp { poll_over_mcp(caller, tool).await } else { poll_in_a_chat(caller, format, tool).await }
}

#[test]
fn a_tool_is_ignored_or_counted_from_a_number_on_as_the_policy_says() {
    run(async {
        let mesh = MESH.get().await;
        let rules = json!({"wait_for_job": "ignore", "get_status": 20});
        // A result over MCP is known only after its call, so that the seventh call is the first to be refused.
        for (format, usual, from_20) in [(Format::OpenAiChat, 5, 19), (Format::Anthropic, 5, 19), (Format::Mcp, 5, 19)]
        {
            for (name, tools, tool, forwarded) in [
                ("without-rules", json!({}), "wait_for_job", usual),
                ("other-tool", rules.clone(), "read_file", usual),
                ("ignored", rules.clone(), "wait_for_job", POLLS),
                ("from-20", rules.clone(), "get_status", from_20),
            ] {
                let agent = format!("{name}/{format}").replace(' ', "-");
                mesh.enable(&agent, json!({"tools": tools})).await;
                let ignored = counter(&mesh, "requests.ignored").await;
                assert_eq!(poll(&mesh.caller(&agent), format, tool).await, forwarded, "{agent}");
                let ignored = counter(&mesh, "requests.ignored").await - ignored;
                assert_eq!(ignored, if name == "ignored" { POLLS as u64 } else { 0 }, "{agent}");
                if forwarded < POLLS {
                    let kill = mesh.kills(&agent, 1).await.remove(0);
                    let reason = kill["reason"].as_str().unwrap();
                    assert!(reason.contains(&format!("{tool} with")), "{agent}: {reason}");
                    assert!(reason.contains(&format!(" {} times", forwarded + 1)), "{agent}: {reason}");
                }
            }
        }
    });
}

#[test]
fn a_rule_applies_to_an_agent_that_is_running() {
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("impatient", json!({})).await;
        let caller = mesh.caller("impatient");
        assert_eq!(poll_over_mcp(&caller, "wait_for_job").await, 5);
        mesh.kills("impatient", 1).await;
        let (status, _) =
            mesh.api("PATCH", "/v1/agents/impatient", Some(json!({"tools": {"wait_for_job": "ignore"}}))).await;
        assert_eq!(status, 200);
        mesh.activate("impatient").await;
        mesh.settled().await;
        assert_eq!(poll_over_mcp(&caller, "wait_for_job").await, POLLS);
        assert_eq!(mesh.agent("impatient").await["tools"], json!({"wait_for_job": "ignore"}));
        let stored: Vec<Value> = mesh.events("impatient", "kill_switch").await;
        assert_eq!(stored.len(), 1);
    });
}
