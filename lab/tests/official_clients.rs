//! The services' own clients can read the mock LLM's answers: texts, tool calls and errors, whole and streamed.

use lab::proc::{Outcome, PythonClient};
use lab::{Answer, MockLlm};
use serde_json::json;

/// The library, further arguments, whether the API has tool calls, the exception for status 403, and the number of attempts
/// for status 500.
const CLIENTS: [(&str, &[&str], bool, &str, u32); 7] = [
    ("openai", &[], true, "PermissionDeniedError", 3),
    ("openai", &["--api", "responses"], true, "PermissionDeniedError", 3),
    ("openai", &["--api", "completions"], false, "PermissionDeniedError", 3),
    ("anthropic", &[], true, "PermissionDeniedError", 3),
    ("gemini", &[], true, "ClientError", 1),
    ("ollama", &[], true, "ResponseError", 1),
    ("ollama", &["--api", "generate"], false, "ResponseError", 1),
];

#[tokio::test]
async fn official_clients_read_texts_tool_calls_and_errors() {
    let Some(python) = PythonClient::get() else { return };
    let llm = MockLlm::start().await;
    for (library, arguments, tools, exception, _) in CLIENTS {
        for streamed in [&[][..], &["--stream"]] {
            let arguments = [arguments, streamed].concat();
            let case = format!("{library} {arguments:?}");
            let answer =
                Answer { text: "Grüße: it was shipped.".into(), ..Answer::call("look_up", json!({"order": "4711"})) };
            let script = format!("x-lab-script={}", answer.to_header());

            let outcome = one_call(&python, library, &llm, &[&arguments[..], &["--header", &script]].concat()).await;
            assert_eq!(outcome.text.as_deref(), Some("Grüße: it was shipped."), "{case}: {outcome:?}");
            assert_eq!(outcome.chunks > 1, !streamed.is_empty(), "{case} streams if asked to: {outcome:?}");
            if tools {
                let call = json!({"name": "look_up", "arguments": {"order": "4711"}});
                assert_eq!(outcome.tool_calls, [call], "{case}");
            }

            let refused = [&arguments[..], &["--header", "x-lab-status=403", "--header", "x-lab-answer=stop it"]];
            let outcome = one_call(&python, library, &llm, &refused.concat()).await;
            assert_eq!((outcome.ok, outcome.exception.as_str()), (false, exception), "{case}");
            assert_eq!((outcome.status, outcome.attempts), (Some(403), 1), "{case} does not retry a refusal");
            assert!(outcome.message.contains("stop it"), "{case}: {}", outcome.message);
        }
    }
}

#[tokio::test]
async fn official_clients_retry_server_errors_as_they_do_in_production() {
    let Some(python) = PythonClient::get() else { return };
    let llm = MockLlm::start().await;
    for (library, arguments, _, _, attempts) in CLIENTS {
        let before = llm.count();
        let failing = [arguments, &["--header", "x-lab-status=500"]].concat();
        let outcome = one_call(&python, library, &llm, &failing).await;
        assert!(!outcome.ok, "{library} {arguments:?}: {outcome:?}");
        assert_eq!(outcome.attempts, attempts, "{library} {arguments:?}: {outcome:?}");
        assert_eq!(llm.count() - before, u64::from(attempts), "the mock LLM has received every attempt");
    }
}

async fn one_call(python: &PythonClient, library: &str, llm: &MockLlm, arguments: &[&str]) -> Outcome {
    let mut outcomes = python.run(library, &llm.url(), arguments).await;
    assert_eq!(outcomes.len(), 1, "{library} {arguments:?} made one call");
    outcomes.remove(0)
}
