//! A recorded run as an agent's own loop detector sees it: what the model did in each call, and what came back.
//!
//! Detectors that are part of an agent do not see requests but steps. A step is one answer of the model. Its *actions* are
//! its tool calls, each as one text of name and arguments. An agent without tool calls acts in text, so its only action is
//! the whole text of the answer, and the message that follows is the result of it rather than a user's wish. Formats other
//! than chat, Anthropic's messages, Responses and Gemini, and answers that were recorded as event streams, have no actions.

use kill_switch::replay::recording::{BadLine, Calls};
use serde_json::Value;

/// One answer of the model, and what came back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The tool calls, or the text of the answer if the agent acts in text.
    pub actions: Vec<Action>,
    /// The text of the answer.
    pub text: String,
    /// What the tools returned. Empty if nothing came back.
    pub result: String,
    /// Whether the result says that the call failed.
    pub failed: bool,
    /// Whether a user spoke after this step.
    pub user_spoke: bool,
    /// Whether nothing at all came between this answer and the next.
    pub unanswered: bool,
}

/// Something that the agent did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Action {
    /// The tool. Empty if the agent acts in text.
    pub tool: String,
    /// The arguments as canonical JSON, or the text.
    pub arguments: String,
}

/// Returns the steps of a run.
pub fn steps(calls: &Calls<'_>) -> Result<Vec<Step>, BadLine> {
    let mut turns = Vec::new();
    match calls {
        Calls::Messages(messages) => {
            for message in messages {
                turns.extend(turn(&serde_json::from_str(message.get())?));
            }
        }
        Calls::Recorded(recorded) => {
            for exchange in recorded {
                let request: Value = serde_json::from_slice(&exchange.request).unwrap_or_default();
                turns.extend(news(&request));
                let response = exchange.response.as_deref().unwrap_or_default();
                turns.push(answer(&serde_json::from_slice(response).unwrap_or_default()));
            }
        }
    }
    Ok(from_turns(turns))
}

/// What one participant of a conversation said.
#[derive(Debug)]
enum Turn {
    Model { text: String, tools: Vec<Action> },
    User(String),
    Results { text: String, failed: bool },
}

fn from_turns(turns: Vec<Turn>) -> Vec<Step> {
    let acts_in_text = !turns.iter().any(|turn| match turn {
        Turn::Model { tools, .. } => !tools.is_empty(),
        Turn::Results { .. } => true,
        Turn::User(_) => false,
    });
    let mut steps: Vec<Step> = Vec::new();
    for turn in turns {
        match (turn, steps.last_mut()) {
            (Turn::Model { text, tools }, _) => {
                let in_text = Action { tool: String::new(), arguments: text.clone() };
                let actions = if acts_in_text && !text.is_empty() { vec![in_text] } else { tools };
                steps.push(Step { actions, text, unanswered: true, ..Step::default() });
            }
            (Turn::User(text), Some(step)) if acts_in_text => step.add_result(&text, looks_failed(&text)),
            (Turn::User(_), Some(step)) => {
                step.user_spoke = true;
                step.unanswered = false;
            }
            (Turn::Results { text, failed }, Some(step)) => step.add_result(&text, failed),
            (_, None) => {}
        }
    }
    steps
}

impl Step {
    fn add_result(&mut self, text: &str, failed: bool) {
        self.result.push_str(text);
        self.result.push('\n');
        self.failed |= failed;
        self.unanswered = false;
    }
}

/// Returns what a request adds after the model's last message.
fn news(request: &Value) -> Vec<Turn> {
    let messages = ["messages", "input", "contents"].iter().find_map(|name| request[name].as_array());
    let Some(messages) = messages else {
        let text = ["input", "prompt"].iter().find_map(|name| request[name].as_str());
        return text.map(|text| Turn::User(text.to_owned())).into_iter().collect();
    };
    let mut turns: Vec<Turn> = messages.iter().flat_map(turn).collect();
    let last = turns.iter().rposition(|turn| matches!(turn, Turn::Model { .. }));
    turns.split_off(last.map_or(0, |last| last + 1))
}

/// Reads a message of a request. Instructions are nobody's turn.
fn turn(message: &Value) -> Option<Turn> {
    let text = text_of(message);
    let kind = message["type"].as_str().unwrap_or_default();
    match message["role"].as_str().unwrap_or(kind) {
        "assistant" | "model" | "function_call" => Some(Turn::Model { text, tools: tools_of(message) }),
        "tool" | "function" | "function_call_output" => {
            let failed = message["is_error"] == true || looks_failed(&text);
            Some(Turn::Results { text, failed })
        }
        "user" if blocks(message).iter().any(is_result) => {
            let failed = blocks(message).iter().any(|block| block["is_error"] == true) || looks_failed(&text);
            Some(Turn::Results { text, failed })
        }
        "user" => Some(Turn::User(text)),
        _ => None,
    }
}

/// Reads a response.
fn answer(response: &Value) -> Turn {
    let message = [&response["choices"][0]["message"], &response["candidates"][0]["content"], &response["message"]]
        .into_iter()
        .find(|message| message.is_object());
    match message {
        Some(message) => Turn::Model { text: text_of(message), tools: tools_of(message) },
        None => {
            let output = response["output"].as_array().cloned().unwrap_or_else(|| vec![response.clone()]);
            let text: Vec<String> = output.iter().map(text_of).filter(|text| !text.is_empty()).collect();
            Turn::Model { text: text.join("\n"), tools: output.iter().flat_map(tools_of).collect() }
        }
    }
}

/// Returns the parts of a message's content.
fn blocks(message: &Value) -> &[Value] {
    let blocks = message["content"].as_array().or_else(|| message["parts"].as_array());
    blocks.map_or(&[], Vec::as_slice)
}

fn is_result(block: &Value) -> bool {
    block["type"] == "tool_result" || !block["functionResponse"].is_null()
}

fn text_of(message: &Value) -> String {
    let plain = [&message["content"], &message["text"], &message["output"]].into_iter().find_map(Value::as_str);
    if let Some(text) = plain {
        return text.trim().to_owned();
    }
    let text_in = |block: &Value| match &block["functionResponse"] {
        Value::Null => text_of(block),
        response => response.to_string(),
    };
    blocks(message).iter().map(text_in).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

fn tools_of(message: &Value) -> Vec<Action> {
    let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
    let chat = calls.iter().map(|call| &call["function"]);
    let old = Some(&message["function_call"]).filter(|call| call.is_object());
    let parts =
        blocks(message).iter().map(|block| if block["type"] == "tool_use" { block } else { &block["functionCall"] });
    let item = Some(message).filter(|message| message["type"] == "function_call");
    chat.chain(old).chain(parts).chain(item).filter_map(action).collect()
}

fn action(call: &Value) -> Option<Action> {
    let arguments = [&call["arguments"], &call["input"], &call["args"]].into_iter().find(|value| !value.is_null());
    // A `Value` sorts its keys, so that the order of the arguments does not matter.
    let canonical = match arguments {
        Some(Value::String(text)) => {
            serde_json::from_str::<Value>(text).map_or(text.clone(), |value| value.to_string())
        }
        Some(value) => value.to_string(),
        None => String::new(),
    };
    Some(Action { tool: call["name"].as_str()?.to_owned(), arguments: canonical })
}

/// Returns whether a result looks like an error, by its first words.
fn looks_failed(text: &str) -> bool {
    let start: String = text.chars().take(40).collect::<String>().to_lowercase();
    ["error", "traceback", "exception"].iter().any(|word| start.contains(word))
}

#[cfg(test)]
mod tests {
    use kill_switch::replay::recording::Recording;

    use super::*;

    fn of(line: &str) -> Vec<Step> {
        let Ok(Recording::Run(_, calls)) = Recording::read(line.as_bytes()) else { panic!("{line}") };
        steps(&calls).unwrap()
    }

    #[test]
    fn tool_calls_are_actions_and_their_order_of_arguments_does_not_matter() {
        let steps = of(r#"{"messages": [{"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "ls", "arguments": "{\"b\": 1, \"a\": 2}"}}]},
            {"role": "tool", "content": "Error: no such folder"}, {"role": "assistant", "content": "done"},
            {"role": "user", "content": "thanks"}]}"#);
        assert_eq!(steps[0].actions, [Action { tool: "ls".into(), arguments: r#"{"a":2,"b":1}"#.into() }]);
        assert!(steps[0].failed && !steps[0].user_spoke && steps[1].actions.is_empty() && steps[1].user_spoke);
    }

    #[test]
    fn an_agent_without_tools_acts_in_text_and_the_next_message_is_the_result() {
        let steps =
            of(r#"{"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": "Action: ls"},
            {"role": "user", "content": "a.txt"}]}"#);
        assert_eq!(steps[0].actions, [Action { tool: String::new(), arguments: "Action: ls".into() }]);
        assert!(steps[0].result == "a.txt\n" && !steps[0].user_spoke);
    }

    #[test]
    fn calls_of_other_apis_have_actions_and_results() {
        let steps = of(
            r#"{"calls": [{"request": {"messages": [{"role": "user", "content": "go"}]}, "response": {"type": "message",
            "content": [{"type": "text", "text": "well"}, {"type": "tool_use", "name": "ls", "input": {"a": 1}}]}},
            {"request": {"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": []},
            {"role": "user", "content": [{"type": "tool_result", "is_error": true, "content": "gone"}]}]},
            "response": {"output": [{"type": "function_call", "name": "cd", "arguments": "{}"}]}}]}"#,
        );
        assert_eq!((&*steps[0].actions[0].tool, &*steps[0].text, &*steps[0].result), ("ls", "well", "gone\n"));
        assert!(steps[0].failed && steps[1].actions[0].tool == "cd");
    }
}
