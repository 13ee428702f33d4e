//! What a request says about how the model's actions turned out: failing results, quoted ids, actions in text, and results
//! that come as instructions.

use agent_kill_switch::fingerprint::Fingerprint;
use agent_kill_switch::turn::{Answer, Format};
use serde_json::{Value, json};

use crate::support::*;

const CHAT: &str = "/v1/chat/completions";

fn turn(path: &str, body: &Value) -> agent_kill_switch::turn::Turn {
    decode(path, body.to_string()).unwrap()
}

/// A conversation in which a tool with the id `call_abcdef` returned `content`.
fn tool_result(content: &str) -> Value {
    let call = json!({"id": "call_abcdef", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    json!({"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_abcdef", "content": content}]})
}

#[test]
fn a_result_is_failing_if_the_api_says_so() {
    let anthropic = |is_error: bool| {
        json!({"messages": [{"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": is_error, "content": "hm"}]}]})
    };
    let bedrock = |status: &str| {
        json!({"messages": [{"role": "user", "content": [{"text": "go"}]},
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": "hm"}], "status": status}}]}]})
    };
    let responses = |status: &str| {
        json!({"input": [{"type": "message", "role": "user", "content": "go"},
            {"type": "function_call", "call_id": "t", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "t", "output": "hm", "status": status}]})
    };
    for (path, failing, succeeding) in [
        ("/v1/messages", anthropic(true), anthropic(false)),
        ("/model/m/converse", bedrock("error"), bedrock("success")),
        ("/v1/responses", responses("error"), responses("completed")),
    ] {
        let (failing, succeeding) = (turn(path, &failing).input, turn(path, &succeeding).input);
        assert!(failing.failing && !succeeding.failing, "{path}");
        assert!(failing.is_same(succeeding), "{path}: the text is the same");
    }
    let mcp = |is_error: bool| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "hm"}], "isError": is_error}});
        answer(Format::Mcp, "application/json", body.to_string())
    };
    let failing = |answer: Answer| answer.text().unwrap().failing;
    assert!(failing(mcp(true)) && !failing(mcp(false)));
}

#[test]
fn a_result_is_failing_if_it_looks_like_an_error_and_a_message_of_the_user_is_not() {
    assert!(turn(CHAT, &tool_result("TypeError: x is not a function")).input.failing);
    assert!(!turn(CHAT, &tool_result("0 errors")).input.failing);
    let said = json!({"messages": [{"role": "user", "content": "Error: it does not work"}]});
    assert!(!turn(CHAT, &said).input.failing);
}

#[test]
fn the_id_of_a_call_is_not_part_of_a_result_that_quotes_it() {
    let quoted = turn(CHAT, &tool_result("stored as var_call_abcdef for later, see call_abcdef")).input;
    assert_eq!(quoted, fingerprint(&["stored as var_ for later, see "]));
    let other = turn(CHAT, &tool_result("stored as var_call_fedcba for later, see call_abcdef")).input;
    assert_eq!(other, fingerprint(&["stored as var_call_fedcba for later, see "]), "the id of another call stays");
    let anthropic = json!({"messages": [{"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_abc", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_abc", "content": "kept in toolu_abc now"}]}]});
    assert_eq!(turn("/v1/messages", &anthropic).input, fingerprint(&["kept in  now"]));
}

#[test]
fn an_action_is_read_from_the_last_answer_unless_tools_were_called() {
    let said = |answer: &str| {
        json!({"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": answer},
            {"role": "user", "content": "Exception: no"}]})
    };
    let acted = turn(CHAT, &said("Let me see.\n```\nls\n```"));
    assert!(acted.action.is_some() && acted.input.failing, "the next message is its result");
    assert_eq!(acted.action, turn(CHAT, &said("First of all:\n```\nls\n```\nOk?")).action);
    let chatted = turn(CHAT, &said("Let me see."));
    assert!(chatted.action.is_none() && !chatted.input.failing);
    assert_eq!(turn(CHAT, &tool_result("ok")).action, None);
}

#[test]
fn instructions_are_new_if_they_came_after_the_model_spoke_and_no_tool_result_came() {
    let input = |messages: Value| -> Fingerprint { turn(CHAT, &json!({"messages": messages})).input };
    let (user, model) = (json!({"role": "user", "content": "go"}), json!({"role": "assistant", "content": "browse"}));
    for role in ["system", "developer"] {
        let said = json!({"role": role, "content": "it returned a page"});
        assert_eq!(input(json!([user, model, said, user])), fingerprint(&["it returned a page", "go"]), "{role}");
        assert_eq!(input(json!([user, model, said])), fingerprint(&["it returned a page"]), "{role}");
        assert_eq!(input(json!([said, user])), fingerprint(&["go"]), "{role}: the model has not spoken yet");
        assert_eq!(input(json!([said, user, model, user])), fingerprint(&["go"]), "{role}: before the model spoke");
    }
}
