//! Conversations as real clients send them: the history grows with every call, tool calls carry ids, tools and a system
//! prompt are declared each time.
//!
//! Holds what was said in no API's words; [`Conversation::request`] renders it in one format. Sends nothing: that is
//! [`Caller`]'s part.

mod anthropic;
mod caller;
mod gemini;
mod ollama;
mod openai;

use serde_json::{Value, json};

pub use caller::{Caller, Reply};

use crate::answer::{Answer, ToolCall};
use crate::format::Format;
use crate::json;

const SYSTEM: &str = "You are a careful assistant. Use the tools that you have; answer briefly.";
const TOOLS: [(&str, &str); 6] = [
    ("read_file", "Read lines of a file"),
    ("edit_file", "Replace text in a file"),
    ("run", "Run a command and return its output"),
    ("search", "Search files for a pattern"),
    ("get_status", "Ask for the state of a job"),
    ("fetch", "Fetch a page"),
];

/// What an agent contributes to its next call.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A message that opens a new conversation.
    Open(String),
    /// The user's next message in the same one.
    User(String),
    /// What the tools returned that the last answer called, in its order.
    Results(Vec<String>),
    /// Nothing new: the same request once more, as a client retries.
    Again,
}

/// A conversation in one format.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The format.
    pub format: Format,
    /// Whether answers are streamed.
    pub stream: bool,
    /// The model asked for.
    pub model: String,
    turns: Vec<Turn>,
}

#[derive(Clone, Debug)]
enum Turn {
    User(String),
    Assistant { text: String, calls: Vec<ToolCall> },
    Results(Vec<(ToolCall, String)>),
}

/// A request, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its format, which is also the answer's.
    pub format: Format,
    /// Path and query.
    pub path: String,
    /// Headers that the API asks for.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Value,
}

impl Request {
    /// The body as it is sent.
    pub fn body_text(&self) -> String {
        json::text(&self.body)
    }
}

impl Conversation {
    /// An empty one.
    pub fn new(format: Format, stream: bool) -> Conversation {
        Conversation { format, stream, model: "mock-1".to_owned(), turns: Vec::new() }
    }

    /// Adds what the agent contributes. Results that no call asked for are a mistake in the plan: panics.
    pub fn say(&mut self, input: &Input) {
        match input {
            Input::Open(text) => self.turns = vec![Turn::User(text.clone())],
            Input::User(text) => self.turns.push(Turn::User(text.clone())),
            Input::Results(results) => {
                let Some(Turn::Assistant { calls, .. }) = self.turns.last() else {
                    panic!("tool results must follow an answer with tool calls, not {:?}", self.turns.last());
                };
                assert_eq!(calls.len(), results.len(), "one result for each of {calls:?}");
                let pairs = calls.iter().cloned().zip(results.iter().cloned()).collect();
                self.turns.push(Turn::Results(pairs));
            }
            Input::Again => {}
        }
    }

    /// Adds the model's answer. An error is none: the conversation stays where it was.
    pub fn hear(&mut self, answer: &Answer) {
        if !answer.is_error() {
            self.turns.push(Turn::Assistant { text: answer.text.clone(), calls: answer.tool_calls.clone() });
        }
    }

    /// The request that the conversation makes next.
    pub fn request(&self) -> Request {
        match self.format {
            Format::OpenAiChat => openai::request(self),
            Format::Anthropic => anthropic::request(self),
            Format::Gemini => gemini::request(self),
            Format::OllamaChat => ollama::request(self),
            other => panic!("conversations are held in {:?}, not in {other:?}", Format::CHATS),
        }
    }
}

/// The text and the tool calls of a successful body, streamed or whole.
pub fn read(format: Format, body: &str) -> Answer {
    match format {
        Format::OpenAiChat => openai::read(body),
        Format::Anthropic => anthropic::read(body),
        Format::Gemini => gemini::read(body),
        Format::OllamaChat => ollama::read(body),
        _ => Answer::text(body),
    }
}

/// Tool calls whose arguments arrive as pieces of JSON text.
#[derive(Default)]
struct Growing {
    calls: Vec<(String, String, String)>,
}

impl Growing {
    fn begin(&mut self, id: &Value, name: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.calls.push((text(id), text(name), String::new()));
    }

    fn more(&mut self, arguments: &Value) {
        if let (Some((_, _, text)), Some(piece)) = (self.calls.last_mut(), arguments.as_str()) {
            text.push_str(piece);
        }
    }

    fn done(self) -> Vec<ToolCall> {
        let parse = |text: String| serde_json::from_str(&text).unwrap_or_else(|_| json!({}));
        self.calls.into_iter().map(|(id, name, text)| ToolCall { id, name, arguments: parse(text) }).collect()
    }
}

/// The schema that every declared tool has here; no test depends on it.
fn schema() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": true})
}
