//! The services' own Python clients through Envoy: healthy use is not affected, and a kill is an error that they raise at
//! once, without a retry, with a message that says what to do.

use lab::mesh::MeshOptions;
use lab::proc::{Outcome, PythonClient};
use lab::prose;
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
