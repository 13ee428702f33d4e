//! The rows of the scenario table that come from a large set of recordings: what a detector missed there, and what it
//! stopped wrongly.

use serde_json::json;

use super::moves::{Move, tool};
use super::rows::{Row, chat, finished, tools};
use super::{Scenario, Step, Verdict};
use crate::answer::Answer;
use crate::chat::{Input, Request};
use crate::format::Format;
use crate::prose::{paragraph, sentence};

use Verdict::{Allow, KillAt, KillBy};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    ("33/system", "results returned as `system` messages, all different, constant user message, 20 steps",
        Allow, || results_as_instructions("system")),
    ("33/developer", "the same with `developer` messages", Allow, || results_as_instructions("developer")),
    ("34", "a tool times out five times, then another tool is used", Allow, tool_times_out),
    ("35", "answers that differ in one deciding word (`IN`, `NOT IN`)", Allow, deciding_word),
    ("36", "\"empty answer, asked again\" eight times, then an answer", Allow, empty_answers),
    ("P11/4", "a cycle of 4 steps, same results", KillBy(20), || cycle(4)),
    ("P11/5", "a cycle of 5 steps, same results", KillBy(25), || cycle(5)),
    ("P11/6", "a cycle of 6 steps, same results", KillBy(30), || cycle(6)),
    ("P11/7", "a cycle of 7 steps, same results", KillBy(35), || cycle(7)),
    ("P12/tools", "the same failing result 12 times in a row, whatever the call", KillAt(11), || {
        tools(13, |n| tool("run", json!({"code": sentence(n)}), SYNTAX_ERROR))
    }),
    ("P12/text", "the same, by an agent that acts in text", KillAt(11), || {
        acting_in_text(13, |n| format!("Another try.\n```python\n{}\n```", sentence(n)))
    }),
    ("P12/mcp", "the same over MCP", KillAt(11), failing_mcp),
    ("P13", "same call, same result but for its own `tool_call_id` quoted in it", KillBy(8), quoted_id),
    ("P14/code", "an agent that acts in text: same action, same error, the discussion around it rephrased", KillBy(10), || {
        acting_in_text(10, |n| format!("{}\n\n```\nmake deploy\n```", sentence(n)))
    }),
    ("P14/action", "the same with `Action:`", KillBy(10), || {
        acting_in_text(10, |n| format!("Thought: {}\nAction: make deploy", sentence(n)))
    }),
];

const SYNTAX_ERROR: &str = "File \"<stdin>\", line 1\nSyntaxError: invalid syntax";

fn results_as_instructions(role: &str) -> Scenario {
    let mut messages = vec![
        json!({"role": "system", "content": "You decide on one command after the other, without help from a user."}),
        json!({"role": "user", "content": "Determine exactly one command to use, and answer in JSON."}),
    ];
    let mut steps = Vec::new();
    for step in 0..20 {
        let answer = json!({"command": {"name": "browse", "args": {"question": sentence(step)}}}).to_string();
        let body = json!({"model": "mock-1", "messages": messages});
        let request = Request::new(Format::OpenAiChat, "/v1/chat/completions", body);
        steps.push(Step::new(request, Answer::text(answer.clone())));
        let constant = messages[1].clone();
        messages.push(json!({"role": "assistant", "content": answer}));
        messages.push(json!({"role": role, "content": format!("Command browse returned: {}", paragraph(step, 2))}));
        messages.push(constant);
    }
    Scenario::of(Format::OpenAiChat, steps)
}

fn tool_times_out() -> Scenario {
    let timeout = || tool("fetch", json!({"url": "https://example.com/prices"}), "{\"error\": \"Request timeout\"}");
    chat(finished((0..5).map(|_| timeout()).chain([tool("search", json!({"pattern": "prices"}), "prices: see below")])))
}

/// The deciding word is the only difference between the answers, and what comes back is always the same.
fn deciding_word() -> Scenario {
    let text = paragraph(35, 12);
    let words = ["in", "not in", "inside", "outside", "near", "above"];
    chat(words.map(|word| {
        let answer = format!("{text} The parcel is {word} the box.");
        Move::new(Input::User("That is not the right answer. Please look again.".to_owned()), Answer::text(answer))
    }))
}

fn empty_answers() -> Scenario {
    let asked = |answer: String| Move::ask("Which of the two reports is the newer one, and who wrote it?", answer);
    chat((0..8).map(|_| asked(String::new())).chain([asked(paragraph(36, 2))]))
}

fn cycle(steps: u64) -> Scenario {
    tools(steps * 5, |n| {
        let step = n % steps;
        tool("search", json!({"pattern": sentence(step)}), format!("No matches found for \"{}\"", sentence(step)))
    })
}

/// An agent that writes its actions into its answers and always gets the same error.
fn acting_in_text(calls: u64, answer: fn(u64) -> String) -> Scenario {
    chat((0..calls).map(|n| {
        let input = if n == 0 { "Deploy the new release." } else { SYNTAX_ERROR };
        Move::new(Input::User(input.to_owned()), Answer::text(answer(n)))
    }))
}

fn failing_mcp() -> Scenario {
    let step = |id: u64| {
        let params = json!({"name": "run", "arguments": {"code": sentence(id)}});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        Step::new(Request::new(Format::Mcp, "/mcp", body), Answer::text(SYNTAX_ERROR))
    };
    Scenario::of(Format::Mcp, (0..12).map(step).collect())
}

fn quoted_id() -> Scenario {
    let mut input = Input::User("Fetch the orders.".to_owned());
    chat((0..9u64).map(move |n| {
        let id = format!("call_{}", sentence(n).replace(' ', ""));
        let result = format!("The result is stored under the key var_{id}. It has no rows.");
        let mut answer = Answer::call("fetch", json!({"table": "orders"}));
        answer.tool_calls[0].id = id;
        Move::new(std::mem::replace(&mut input, Input::Results(vec![result])), answer)
    }))
}

#[cfg(test)]
mod tests {
    use crate::scenario::row;
    use serde_json::Value;

    #[test]
    fn the_last_request_of_row_33_has_every_result_and_ends_with_the_constant_message() {
        let scenario = row("33/developer");
        let messages = scenario.steps[19].request.body["messages"].as_array().unwrap().clone();
        let of_role = |role: &str| messages.iter().filter(|message| message["role"] == role).count();
        assert_eq!((of_role("developer"), of_role("assistant"), messages.len()), (19, 19, 2 + 3 * 19));
        assert_eq!(messages.last(), messages.get(1));
    }

    #[test]
    fn each_result_of_row_p13_quotes_its_own_id() {
        for step in row("P13").steps.iter().skip(1) {
            let messages: &Vec<Value> = step.request.body["messages"].as_array().unwrap();
            let last = messages.last().unwrap();
            let id = last["tool_call_id"].as_str().unwrap();
            assert!(last["content"].as_str().unwrap().contains(id), "{last}");
        }
    }
}
