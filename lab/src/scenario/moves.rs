//! What agents do, move by move, without end: the material of scenarios and of living agents.

use serde_json::{Value, json};

use super::work;
use crate::answer::Answer;
use crate::chat::Input;
use crate::fresh;
use crate::prose;

/// One call: what the agent contributes, and what the model answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// What the agent contributes.
    pub input: Input,
    /// What the model answers.
    pub answer: Answer,
}

impl Move {
    /// A move.
    pub fn new(input: Input, answer: Answer) -> Move {
        Move { input, answer }
    }
}

/// A tool, its arguments and what it returns.
pub type ToolStep = (String, Value, String);

/// One user message, and then one tool call after the other.
///
/// The first call carries the message; each further one the result of the tool that the answer before it called.
pub fn working(task: &str, steps: impl IntoIterator<Item = ToolStep>) -> impl Iterator<Item = Move> {
    let mut input = Input::User(task.to_owned());
    steps.into_iter().map(move |(tool, arguments, result)| {
        let said = std::mem::replace(&mut input, Input::Results(vec![result]));
        Move::new(said, Answer::call(tool, arguments))
    })
}

/// A healthy coding agent: different tools, arguments and results.
pub fn healthy() -> impl Iterator<Item = Move> {
    let written = work::STEPS.iter().map(|(tool, arguments, result)| {
        let arguments = serde_json::from_str(arguments).expect("the table holds JSON");
        ((*tool).to_owned(), arguments, (*result).to_owned())
    });
    let further = (0..).map(|index: u64| {
        let arguments = json!({"path": format!("docs/notes/{}.md", fresh::mix(index) % 9973)});
        ("read_file".to_owned(), arguments, prose::paragraph(index, 3))
    });
    working(work::TASK, written.chain(further))
}

/// A person who chats: every message and every answer is another one.
pub fn chatty() -> impl Iterator<Item = Move> {
    (1..).map(|seed: u64| {
        let question = format!("Why is it that {}?", prose::sentence(seed));
        Move::new(Input::User(question), Answer::text(prose::paragraph(!seed, 2)))
    })
}

/// The plain loop: the same question and the same answer, where only order numbers and timestamps change.
pub fn looping() -> impl Iterator<Item = Move> {
    (0..).map(|index: u64| {
        let (order, at) = (48_213 + index * 7, fresh::rfc3339_at(1_760_000_000 + index * 31, 0));
        let question = format!("Check whether order #{order} has been shipped. Now: {at}");
        let answer = "I could not determine the shipping status. Please check the order again.";
        Move::new(Input::User(question), Answer::text(answer))
    })
}

/// The same tool call with the same error, for ever.
pub fn same_tool_call() -> impl Iterator<Item = Move> {
    let arguments = json!({"path": "config/production.toml", "lines": "1-80"});
    let error = "error: config/production.toml: permission denied (user agent, mode 0600, owner root)";
    working(
        "Read the production settings and tell me the database host.",
        cycle(vec![("read_file".to_owned(), arguments, error.to_owned())]),
    )
}

/// Two tool calls in turn, each with the same result every time.
pub fn alternating() -> impl Iterator<Item = Move> {
    working(
        "Deploy the new release and make sure that it runs.",
        cycle(vec![
            (
                "run".to_owned(),
                json!({"command": "deploy --environment staging --release latest"}),
                "deployment refused: the previous release has not been verified yet".to_owned(),
            ),
            (
                "get_status".to_owned(),
                json!({"job": "verify-previous-release"}),
                "verification is waiting for the next deployment to start".to_owned(),
            ),
        ]),
    )
}

/// The same steps over and over.
pub fn cycle(steps: Vec<ToolStep>) -> impl Iterator<Item = ToolStep> {
    steps.into_iter().cycle()
}
