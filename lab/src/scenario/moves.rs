//! Endless sequences of moves, of which scenarios and agents are made.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::chat::Input;
use crate::fresh;
use crate::prose;

/// One call: what the agent contributes, and what the model answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    pub input: Input,
    pub answer: Answer,
}

impl Move {
    pub fn new(input: Input, answer: Answer) -> Move {
        Move { input, answer }
    }

    /// A question that opens a conversation of its own, and its answer.
    pub fn ask(question: impl Into<String>, answer: impl Into<String>) -> Move {
        Move::new(Input::Open(question.into()), Answer::text(answer))
    }
}

/// A tool, its arguments and its result.
pub type ToolStep = (String, Value, String);

pub fn tool(name: &str, arguments: Value, result: impl Into<String>) -> ToolStep {
    (name.to_owned(), arguments, result.into())
}

/// A user message, and then one tool call after the other.
///
/// The first call carries the message, and each further one the result of the tool that the answer before it called.
pub fn working(task: &str, steps: impl IntoIterator<Item = ToolStep>) -> impl Iterator<Item = Move> {
    let mut input = Input::User(task.to_owned());
    steps.into_iter().map(move |(tool, arguments, result)| {
        let said = std::mem::replace(&mut input, Input::Results(vec![result]));
        Move::new(said, Answer::call(tool, arguments))
    })
}

/// The steps of a coding session: arrays of tool, arguments and result.
const SESSION: &str = include_str!("../../corpus/session.jsonl");

/// A healthy coding agent: different tools, arguments and results.
pub fn healthy() -> impl Iterator<Item = Move> {
    let task = "Invoices show the wrong total when a discount code is applied. Find out why, fix it and add a test.";
    let written = SESSION.lines().map(|line| serde_json::from_str(line).expect("a tool step in JSON"));
    let further = (0..).map(|index: u64| {
        let name = prose::sentence(index).replace(' ', "-");
        tool("read_file", json!({"path": format!("docs/notes/{name}.md")}), prose::paragraph(index, 3))
    });
    working(task, written.chain(further))
}

/// A person who chats: all messages and answers differ.
pub fn chatty() -> impl Iterator<Item = Move> {
    (1..).map(|seed: u64| {
        let question = format!("Why is it that {}?", prose::sentence(seed));
        Move::new(Input::User(question), Answer::text(prose::paragraph(!seed, 2)))
    })
}

/// The plain loop: the same question and the same answer. Only order numbers and timestamps change.
pub fn looping() -> impl Iterator<Item = Move> {
    (0..).map(|index: u64| {
        let (order, at) = (48_213 + index * 7, fresh::rfc3339_at(1_760_000_000 + index * 31));
        let question = format!("Check whether order #{order} has been shipped. Now: {at}");
        let answer = "I could not determine the shipping status. Please check the order again.";
        Move::new(Input::User(question), Answer::text(answer))
    })
}

/// The same tool call with the same error.
pub fn same_tool_call() -> impl Iterator<Item = Move> {
    let arguments = json!({"path": "config/production.toml", "lines": "1-80"});
    let error = "error: config/production.toml: permission denied (user agent, mode 0600, owner root)";
    let steps = [tool("read_file", arguments, error)].into_iter().cycle();
    working("Read the production settings and tell me the database host.", steps)
}

/// Two tool calls in turn, each with the same result every time.
pub fn alternating() -> impl Iterator<Item = Move> {
    let steps = [
        tool(
            "run",
            json!({"command": "deploy --environment staging --release latest"}),
            "deployment refused: the previous release has not been verified yet",
        ),
        tool(
            "get_status",
            json!({"job": "verify-previous-release"}),
            "verification is waiting for the next deployment to start",
        ),
    ];
    working("Deploy the new release and make sure that it runs.", steps.into_iter().cycle())
}
