//! Conversations as real clients send them: the history grows with every call, tool calls carry ids, tools and a system
//! prompt are declared each time.
//!
//! Long histories are shortened, as clients do to stay within a model's context. A conversation is kept independently of
//! any API; [`Conversation::request`] renders it in one format. Nothing is sent here: see `Caller`.

mod anthropic;
#[cfg(not(target_arch = "wasm32"))]
mod caller;
mod gemini;
mod ollama;
mod openai;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

#[cfg(not(target_arch = "wasm32"))]
pub use caller::{Caller, Reply};

use crate::answer::{Answer, ToolCall};
use crate::format::Format;
use crate::json;
use crate::sse;
use crate::wire::{self, Ask, Rendered};

const SYSTEM: &str = "You are a careful assistant. Use the tools that you have; answer briefly.";
const TOOLS: [(&str, &str); 6] = [
    ("read_file", "Read lines of a file"),
    ("edit_file", "Replace text in a file"),
    ("run", "Run a command and return its output"),
    ("search", "Search files for a pattern"),
    ("get_status", "Ask for the state of a job"),
    ("fetch", "Fetch a page"),
];

/// How many turns a history has at most. An odd number: the first message, and pairs of an answer and what followed it.
const TURNS_MAX: usize = 63;

/// What an agent contributes to its next call.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A message that opens a new conversation.
    Open(String),
    /// The user's next message in the same conversation.
    User(String),
    /// The results of the tools that the last answer called, in its order.
    Results(Vec<String>),
    /// Nothing new: the same request once more, as a client retries.
    Again,
}

/// A conversation in one format.
#[derive(Clone, Debug)]
pub struct Conversation {
    pub format: Format,
    pub stream: bool,
    /// The model that is asked for.
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
    /// The format of the request and of its answer.
    pub format: Format,
    pub path: String,
    /// The headers that the API asks for.
    pub headers: Vec<(String, String)>,
    /// The body, which is sent as JSON.
    pub body: Value,
    /// Replaces the body if the request is not JSON. The headers then name its content type.
    pub raw: Option<String>,
}

impl Request {
    /// Creates a request without headers of its own.
    pub fn new(format: Format, path: impl Into<String>, body: Value) -> Request {
        Request { format, path: path.into(), headers: Vec::new(), body, raw: None }
    }

    /// Creates a request whose body is not JSON.
    pub fn raw(path: impl Into<String>, content_type: &str, body: impl Into<String>) -> Request {
        let request = Request { raw: Some(body.into()), ..Request::new(Format::Other, path, Value::Null) };
        request.with("content-type", content_type)
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the body as it is sent.
    pub fn body_text(&self) -> String {
        self.raw.clone().unwrap_or_else(|| json::text(&self.body))
    }

    /// Renders an answer as the service would send it in reply to this request.
    pub fn reply(&self, answer: &Answer) -> Rendered {
        let header = |(name, value): &(String, String)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        };
        let headers: HeaderMap = self.headers.iter().filter_map(header).collect();
        let uri = self.path.parse().unwrap_or_else(|error| panic!("{}: {error}", self.path));
        wire::render(&Ask::new(&uri, headers, self.body.clone(), String::new), answer)
    }
}

impl Conversation {
    pub fn new(format: Format, stream: bool) -> Conversation {
        Conversation { format, stream, model: "mock-1".to_owned(), turns: Vec::new() }
    }

    /// Adds what the agent contributes. Panics on results that no tool call asked for.
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
        if self.turns.len() > TURNS_MAX {
            self.turns.drain(1..3);
        }
    }

    /// Adds the model's answer. After an error the conversation stays where it was.
    pub fn hear(&mut self, answer: &Answer) {
        if !answer.is_error() {
            self.turns.push(Turn::Assistant { text: answer.text.clone(), calls: answer.tool_calls.clone() });
        }
    }

    /// Returns the next request of the conversation.
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

/// Reads the text and the tool calls of a successful response, streamed or whole.
pub fn read(format: Format, body: &str) -> Answer {
    match format {
        Format::OpenAiChat => openai::read(body),
        Format::Anthropic => anthropic::read(body),
        Format::Gemini => gemini::read(body),
        Format::OllamaChat => ollama::read(body),
        Format::Mcp => {
            let event = || sse::read(body).pop().unwrap_or_default();
            let response: Value = serde_json::from_str(body).unwrap_or_else(|_| event());
            Answer::text(response["result"]["content"][0]["text"].as_str().unwrap_or(body))
        }
        Format::Other => {
            let response: Value = serde_json::from_str(body).unwrap_or_default();
            Answer::text(response["answer"].as_str().unwrap_or(body))
        }
        _ => Answer::text(body),
    }
}

/// Returns a JSON string's text; empty if it is anything else.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Tool calls whose arguments arrive as pieces of JSON text.
#[derive(Default)]
struct Growing {
    calls: Vec<(String, String, String)>,
}

impl Growing {
    fn begin(&mut self, id: &Value, name: &Value) {
        self.calls.push((text(id).to_owned(), text(name).to_owned(), String::new()));
    }

    fn more(&mut self, arguments: &Value) {
        if let Some((_, _, all)) = self.calls.last_mut() {
            all.push_str(text(arguments));
        }
    }

    fn done(self) -> Vec<ToolCall> {
        let parse = |text: String| serde_json::from_str(&text).unwrap_or_else(|_| json!({}));
        self.calls.into_iter().map(|(id, name, text)| ToolCall { id, name, arguments: parse(text) }).collect()
    }
}

/// Declares the tools, each with the same schema under the name that the API gives it.
fn tools(schema: &str) -> Vec<Value> {
    let declare = |(name, description): (&str, &str)| {
        let any = json!({"type": "object", "properties": {}, "additionalProperties": true});
        json!({"name": name, "description": description, schema: any})
    };
    TOOLS.map(declare).to_vec()
}

/// Declares the tools as OpenAI and Ollama have them.
fn functions() -> Vec<Value> {
    tools("parameters").into_iter().map(|tool| json!({"type": "function", "function": tool})).collect()
}
