//! Agents that hold a conversation over HTTP and report each call.
//!
//! Each request tells the mock LLM in a header what to answer, so any number of agents can share one mock, and an agent
//! behaves in the same way everywhere. A call that fails is repeated, as agents do, until it succeeds.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;

use crate::answer::Answer;
use crate::chat::{Caller, Conversation, Input, Reply};
use crate::format::Format;
use crate::scenario::{self, Move};

/// What an agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// One task, then different tools, arguments and results.
    Healthy,
    /// A chat in which all questions and answers differ.
    Chatty,
    /// The same question with changing order numbers, and the same answer.
    Looping,
    /// Two tool calls in turn, each with the same result.
    Alternating,
    /// The same tool call with the same error.
    ToolCalling,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Healthy, Kind::Chatty, Kind::Looping, Kind::Alternating, Kind::ToolCalling];

    /// Returns an endless sequence of moves.
    pub fn moves(self) -> Box<dyn Iterator<Item = Move> + Send> {
        match self {
            Kind::Healthy => Box::new(scenario::healthy()),
            Kind::Chatty => Box::new(scenario::chatty()),
            Kind::Looping => Box::new(scenario::looping()),
            Kind::Alternating => Box::new(scenario::alternating()),
            Kind::ToolCalling => Box::new(scenario::same_tool_call()),
        }
    }
}

/// An agent in a conversation.
pub struct Agent {
    moves: Box<dyn Iterator<Item = Move> + Send>,
    conversation: Conversation,
    caller: Caller,
    /// The move that has not been answered yet.
    current: Option<Move>,
    last_answer: Answer,
    /// How long the model takes for each answer, in milliseconds.
    delay_ms: u64,
    number: usize,
}

/// A call and its result.
#[derive(Clone, Debug)]
pub struct Call {
    /// The call's number, from 1.
    pub number: usize,
    pub asked: String,
    /// The response, or the reason why there was none.
    pub reply: Result<Reply, String>,
}

impl Agent {
    /// Creates an agent that calls through `caller`.
    pub fn new(kind: Kind, caller: Caller, format: Format, stream: bool) -> Agent {
        Agent {
            moves: kind.moves(),
            conversation: Conversation::new(format, stream),
            caller,
            current: None,
            last_answer: Answer::default(),
            delay_ms: 0,
            number: 0,
        }
    }

    pub async fn call(&mut self) -> Call {
        self.number += 1;
        let current = match self.current.take() {
            Some(unanswered) => unanswered,
            None => self.advance(),
        };
        let asked = self.describe(&current.input);
        let answer = Answer { delay_ms: current.answer.delay_ms + self.delay_ms, ..current.answer.clone() };
        let reply = self.caller.call(&self.conversation.request(), Some(&answer)).await;
        match &reply {
            Ok(reply) if reply.status < 400 => self.hear(&current.answer, reply),
            _ => self.current = Some(current),
        }
        Call { number: self.number, asked, reply: reply.map_err(|error| error.to_string()) }
    }

    /// Lets the model take this long for each answer.
    #[must_use]
    pub fn answered_after(self, delay: Duration) -> Agent {
        Agent { delay_ms: delay.as_millis() as u64, ..self }
    }

    /// Makes the next calls through another client, as a load balancer may.
    pub fn call_through(&mut self, caller: Caller) {
        self.caller = caller;
    }

    /// Makes this many calls, refused or not.
    pub async fn run(&mut self, calls: usize) -> Vec<Call> {
        let mut made = Vec::with_capacity(calls);
        for _ in 0..calls {
            made.push(self.call().await);
        }
        made
    }

    fn advance(&mut self) -> Move {
        let next = self.moves.next().expect("agents never run out of moves");
        self.conversation.say(&next.input);
        Move { answer: next.answer.with_ids(), ..next }
    }

    /// Adds the real answer to the history, or the planned one if the next move does not fit the real one.
    fn hear(&mut self, planned: &Answer, reply: &Reply) {
        let heard = reply.answer();
        let fits = heard.tool_calls.len() == planned.tool_calls.len();
        self.last_answer = if fits { heard } else { planned.clone() };
        self.conversation.hear(&self.last_answer);
    }

    fn describe(&self, input: &Input) -> String {
        match input {
            Input::Open(text) | Input::User(text) => text.clone(),
            Input::Results(results) => {
                let pairs = self.last_answer.tool_calls.iter().zip(results);
                pairs.map(|(call, result)| format!("{} -> {result}", call.name)).collect::<Vec<_>>().join("; ")
            }
            Input::Again => "(again)".to_owned(),
        }
    }
}

impl Call {
    /// Returns whether the call got an answer.
    pub fn answered(&self) -> bool {
        self.reply.as_ref().is_ok_and(|reply| reply.status < 400)
    }
}

/// A line with the number, the beginning of the question, the status and the beginning of the answer. The message of a
/// refusal follows in full on a line of its own.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4}  {:<52}  ", self.number, shortened(&self.asked, 52))?;
        match &self.reply {
            Ok(reply) if reply.status < 400 => {
                write!(f, "{}  {}", reply.status, shortened(&in_words(&reply.answer()), 44))
            }
            Ok(reply) => write!(f, "{}  REFUSED\n      {}", reply.status, reply.error_message()),
            Err(error) => write!(f, "---  no answer\n      {error}"),
        }
    }
}

fn in_words(answer: &Answer) -> String {
    let calls = answer.tool_calls.iter().map(|call| format!("calls {}({})", call.name, call.arguments_text()));
    let text = Some(answer.text.clone()).filter(|text| !text.is_empty());
    text.into_iter().chain(calls).collect::<Vec<_>>().join(" and ")
}

/// Shortens a text to one line of at most `width` characters.
fn shortened(text: &str, width: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= width {
        return line;
    }
    line.chars().take(width - 3).chain("...".chars()).collect()
}
