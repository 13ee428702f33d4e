//! The services' own Python clients through Envoy: healthy use is not affected, and a kill is an error that they raise at
//! once, without a retry, with a message that says what to do.

use std::sync::atomic::{AtomicU64, Ordering};

use lab::mesh::{MeshOptions, SOON};
use lab::proc::{Outcome, PythonClient, wait_until};
use lab::{Answer, GateAt, prose};
use serde_json::json;

use crate::support::{Shared, run};

static MESH: Shared =
    Shared::new(|| MeshOptions { filter: json!({"dashboard_url": "http://dashboard.test"}), ..MeshOptions::default() });

/// The library, further arguments, and the exception that the library raises if permission is denied.
const CLIENTS: [(&str, &[&str], &str); 8] = [
    ("openai", &[], "PermissionDeniedError"),
    ("openai", &["--stream"], "PermissionDeniedError"),
    ("openai", &["--api", "responses"], "PermissionDeniedError"),
    ("openai", &["--api", "responses", "--stream"], "PermissionDeniedError"),
    ("anthropic", &[], "PermissionDeniedError"),
    ("anthropic", &["--stream"], "PermissionDeniedError"),
    ("gemini", &["--stream"], "ClientError"),
    ("ollama", &["--stream"], "ResponseError"),
];

#[test]
fn healthy_use_of_the_official_clients_is_untouched() {
    let Some(python) = PythonClient::get() else { return };
    run(async {
        let mesh = MESH.get().await;
        let questions: Vec<String> = (0..8).map(|seed| format!("Why is it that {}?", prose::sentence(seed))).collect();
        for (library, arguments, _) in CLIENTS {
            let agent = name("healthy", library, arguments);
            mesh.enable(&agent, json!({})).await;
            let mut arguments = [arguments, &["--agent-id", &agent, "--calls", "8"]].concat();
            arguments.extend(questions.iter().flat_map(|question| ["--prompt", question]));
            let outcomes = python.run(library, &mesh.envoy.url(), &arguments).await;
            let texts: Vec<Option<String>> = outcomes.iter().map(|outcome| outcome.text.clone()).collect();
            let expected: Vec<Option<String>> = questions.iter().map(|asked| Some(prose::reply_to(asked))).collect();
            assert_eq!(texts, expected, "{agent}");
            assert!(outcomes.iter().all(|outcome| outcome.attempts == 1), "{agent}: {outcomes:?}");
        }
    });
}

#[test]
fn after_a_kill_the_official_clients_raise_their_permission_error_at_once() {
    let Some(python) = PythonClient::get() else { return };
    run(async {
        let mesh = MESH.get().await;
        for (library, arguments, exception) in CLIENTS {
            let agent = name("looping", library, arguments);
            mesh.enable(&agent, json!({})).await;
            let answer = "x-lab-answer=I could not find that order. Please check it again.";
            let arguments = [arguments, &["--agent-id", &agent, "--calls", "8", "--header", answer]].concat();
            let outcomes = python.run(library, &mesh.envoy.url(), &arguments).await;
            let (answered, refused) = outcomes.split_at(5);
            assert!(answered.iter().all(|outcome| outcome.ok), "{agent}: {answered:?}");
            assert_eq!(refused.len(), 3, "{agent}");
            refused.iter().for_each(|outcome| assert_refusal(outcome, exception, &agent));
            assert_eq!(mesh.llm.received_from(&agent).len(), 5, "{agent}: refused calls never reach the model");
            assert_eq!(mesh.kills(&agent, 1).await.len(), 1, "{agent}: one kill");
        }
    });
}

/// The answer to a client that closes the connection when it has all of it: the response never ends.
fn never_ending(text: &str, gate: &str) -> Answer {
    Answer { gate: gate.to_owned(), gate_at: GateAt::End, ..Answer::text(text) }
}

#[test]
fn row_22_polling_with_the_official_mcp_clients_is_allowed() {
    let Some(clients) = PythonClient::mcp() else { return };
    run(async {
        let mesh = MESH.get().await;
        let polls = AtomicU64::new(0);
        mesh.llm.decide(move |ask| {
            let polled = ask.headers.get("x-agent-id")?.to_str().ok()?.starts_with("polling");
            let result = || prose::sentence(polls.fetch_add(1, Ordering::Relaxed));
            let called = ask.rpc_method() == "tools/call";
            polled.then(|| never_ending(&if called { result() } else { String::new() }, "polling"))
        });
        for (version, python) in ["1", "2"].iter().zip(&clients) {
            let agent = format!("polling/mcp-{version}");
            mesh.enable(&agent, json!({})).await;
            let outcomes = python.run("mcp", &mesh.envoy.url(), &["--agent-id", &agent, "--calls", "15"]).await;
            assert_eq!(outcomes.len(), 15, "{agent}");
            assert!(outcomes.iter().all(|outcome| outcome.ok), "{agent}: {outcomes:?}");
            let scores = mesh.scores(&agent, 15).await;
            assert_eq!(scores.len(), 15, "{agent}: each poll is a call, and nothing else is");
            wait_until("the client has closed every stream", SOON, || async { mesh.llm.under_way("polling") == 0 })
                .await;
        }
    });
}

#[test]
fn row_22_the_same_result_each_time_is_a_loop_for_the_official_mcp_clients() {
    let Some(clients) = PythonClient::mcp() else { return };
    run(async {
        let mesh = MESH.get().await;
        let script = never_ending("The job is waiting for a worker that is free.", "looping over mcp");
        let script = format!("x-lab-script={}", script.to_header());
        for (version, python) in ["1", "2"].iter().zip(&clients) {
            let agent = format!("looping/mcp-{version}");
            mesh.enable(&agent, json!({})).await;
            let arguments = ["--agent-id", &agent, "--calls", "8", "--header", &script];
            let outcomes = python.run("mcp", &mesh.envoy.url(), &arguments).await;
            let answered: Vec<bool> = outcomes.iter().map(|outcome| outcome.ok).collect();
            assert_eq!(answered, [true, true, true, true, true, false, false, false], "{agent}: {outcomes:?}");
            assert!(outcomes[5].message.contains("the kill switch deactivated it"), "{agent}: {:?}", outcomes[5]);
        }
    });
}

#[test]
fn row_23_a_loop_of_the_official_openai_client_that_closes_at_done_is_killed() {
    let Some(python) = PythonClient::get() else { return };
    run(async {
        let mesh = MESH.get().await;
        mesh.enable("closes-at-done", json!({})).await;
        let script = never_ending("I could not find that order. Please check it again.", "closes at done");
        let script = format!("x-lab-script={}", script.to_header());
        let arguments = ["--agent-id", "closes-at-done", "--calls", "8", "--stream", "--header", &script];
        let outcomes = python.run("openai", &mesh.envoy.url(), &arguments).await;
        let (answered, refused) = outcomes.split_at(5);
        assert!(answered.iter().all(|outcome| outcome.ok), "{answered:?}");
        refused.iter().for_each(|outcome| assert_refusal(outcome, "PermissionDeniedError", "closes-at-done"));
        let closed = || async { mesh.llm.under_way("closes at done") == 0 };
        wait_until("the client has closed every stream", SOON, closed).await;
    });
}

fn assert_refusal(outcome: &Outcome, exception: &str, agent: &str) {
    assert_eq!(outcome.exception, exception, "{agent}: {outcome:?}");
    assert_eq!((outcome.status, outcome.attempts), (Some(403), 1), "{agent} does not retry: {outcome:?}");
    let what_happened = format!("Agent {agent} is inactive: the kill switch deactivated it");
    for part in [&what_happened, "until a person activates the agent", "dashboard (http://dashboard.test)"] {
        assert!(outcome.message.contains(part), "{agent}: {}", outcome.message);
    }
}

fn name(kind: &str, library: &str, arguments: &[&str]) -> String {
    [&[kind, library], arguments].concat().join("/").replace("--", "")
}
