//! The story that the fixtures tell, and short ways to decode.

use std::rc::Rc;

use agent_kill_switch::decode::answer::{AnswerReader, Head};
use agent_kill_switch::decode::request::request;
use agent_kill_switch::decode::tools::ToolCalls;
use agent_kill_switch::fingerprint::{Fingerprint, Fingerprinter};
use agent_kill_switch::turn::{Answer, Format, ToolSignature, ToolTurn, Turn, Unreadable};
use agent_kill_switch::wire::Counting;

/// What the user asks, in all fixtures.
pub const USER: &str = "Which open orders ship to Zürich before Friday, and is snow expected in 北京?";
/// What the first tool returns.
pub const ORDERS: &str = "3 orders: A17, A21 and B02 leave on Thursday";
/// What the second tool returns.
pub const WEATHER: &str = "snow from Wednesday, \"heavy\" at times\nthen 12 cm by night";
/// What the model answers.
pub const ANSWER: &str =
    "Three orders ship to Zürich on Thursday.\nIn 北京 it snows: \"12 cm\" by night 🌨\u{fe0f}, so leave early.";
/// What the model says beside its tool calls.
pub const BESIDE: &str = "Let me look at both.";
/// The first tool call.
pub const FIND: (&str, &str) = ("find_orders", r#"{"city": "Zürich", "status": "open", "limit": 20}"#);
/// The second tool call.
pub const LOOK: (&str, &str) = ("get_weather", r#"{"city": "北京", "days": 3}"#);

/// A cap that no fixture reaches.
pub const CAP: usize = 1 << 20;

/// One API and its fixtures.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    pub format: Format,
    pub folder: &'static str,
    pub path: &'static str,
    /// Ending and content type of its streams.
    pub stream: (&'static str, &'static str),
    /// Whether there are fixtures with tool calls.
    pub has_tools: bool,
    /// Whether words stand beside the tool calls.
    pub speaks_beside: bool,
}

const SSE: (&str, &str) = (".sse", "text/event-stream; charset=utf-8");
const NDJSON: (&str, &str) = (".ndjson", "application/x-ndjson");

const fn api(format: Format, folder: &'static str, path: &'static str) -> Api {
    Api { format, folder, path, stream: SSE, has_tools: true, speaks_beside: true }
}

/// All APIs that models are asked through.
pub const APIS: [Api; 9] = [
    api(Format::OpenAiChat, "openai_chat", "/v1/chat/completions"),
    Api { has_tools: false, ..api(Format::OpenAiCompletions, "openai_completions", "/v1/completions") },
    api(Format::OpenAiResponses, "openai_responses", "/v1/responses"),
    api(Format::Anthropic, "anthropic", "/v1/messages?beta=true"),
    api(Format::Gemini, "gemini", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
    Api { stream: NDJSON, ..api(Format::Bedrock, "bedrock", "/model/anthropic.claude-v1%3A0/converse-stream") },
    Api { stream: NDJSON, ..api(Format::OllamaChat, "ollama_chat", "/api/chat") },
    Api { stream: NDJSON, has_tools: false, ..api(Format::OllamaGenerate, "ollama_generate", "/api/generate") },
    Api { speaks_beside: false, ..api(Format::Cohere, "cohere", "/v2/chat") },
];

impl Api {
    /// A fixture's bytes.
    pub fn fixture(&self, name: &str) -> Vec<u8> {
        fixture(self.folder, name)
    }

    /// What a request of this API decodes to.
    pub fn request(&self, name: &str, counting: Counting) -> Turn {
        decode_as(counting, self.path, self.fixture(name)).unwrap_or_else(|error| panic!("{self:?} {name}: {error:?}"))
    }

    /// What an answer of this API decodes to, in one piece and streamed.
    pub fn answers(&self, name: &str) -> [(String, Answer); 2] {
        let (ending, content_type) = self.stream;
        [(".json", "application/json"), (ending, content_type)].map(|(ending, content_type)| {
            let name = format!("{}/{name}{ending}", self.folder);
            let body = std::fs::read(folder().join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, answer(self.format, content_type, &body))
        })
    }
}

fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// A fixture's bytes.
pub fn fixture(folder_name: &str, name: &str) -> Vec<u8> {
    let path = folder().join(folder_name).join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{folder_name}/{name}: {error}"))
}

/// The fingerprint of a text in parts.
pub fn fingerprint(parts: &[&str]) -> Fingerprint {
    let mut text = Fingerprinter::default();
    for part in parts {
        text.push(part.as_bytes());
        text.end_part();
    }
    text.finish()
}

/// The signature of calls, by name and arguments.
pub fn signature(calls: &[(&str, &str)]) -> ToolSignature {
    let mut all = ToolCalls::default();
    for (name, arguments) in calls {
        all.add_text(name.as_bytes(), arguments.as_bytes());
    }
    all.signature().unwrap()
}

/// The results of calls.
pub fn results(calls: &[(&str, &str)]) -> ToolTurn {
    ToolTurn::Results(signature(calls))
}

/// Decodes a request by the default way of counting.
pub fn decode(path: &str, body: impl AsRef<[u8]>) -> Result<Turn, Unreadable> {
    decode_as(Counting::Progress, path, body)
}

/// Decodes a request.
pub fn decode_as(counting: Counting, path: &str, body: impl AsRef<[u8]>) -> Result<Turn, Unreadable> {
    let mut text = Fingerprinter::default();
    let turn = request(path.as_bytes(), body.as_ref(), counting, &mut text);
    assert!(text.is_empty(), "nothing leaks into the next text");
    turn
}

/// What a request says, both ways of counting agreeing.
pub fn input(path: &str, body: impl AsRef<[u8]>) -> Fingerprint {
    let progress = decode(path, body.as_ref()).unwrap().input;
    let literal = decode_as(Counting::Literal, path, body.as_ref()).unwrap().input;
    assert_eq!(progress, literal, "{}", String::from_utf8_lossy(body.as_ref()));
    progress
}

/// Reads an answer in one piece.
pub fn answer(format: Format, content_type: &str, body: impl AsRef<[u8]>) -> Answer {
    answer_in_chunks(format, content_type, [body.as_ref()])
}

/// Reads an answer in chunks.
pub fn answer_in_chunks<'a>(format: Format, content_type: &str, chunks: impl IntoIterator<Item = &'a [u8]>) -> Answer {
    answer_within(CAP, format, content_type, chunks)
}

/// Reads an answer in chunks, no document longer than `max_event_bytes`.
pub fn answer_within<'a>(
    max_event_bytes: usize,
    format: Format,
    content_type: &str,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Answer {
    let head = Head { status: 200, content_type: content_type.as_bytes() };
    let mut reader = AnswerReader::new(format, head, Rc::from([]), max_event_bytes);
    for chunk in chunks {
        reader.push(chunk);
    }
    reader.finish()
}

/// A JSON answer.
pub fn json_answer(format: Format, body: &str) -> Answer {
    answer(format, "application/json", body)
}

/// A streamed answer, given the data of its events.
pub fn event_answer(format: Format, events: &[&str]) -> Answer {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    answer(format, SSE.1, body)
}

/// An answer that is only words.
pub fn words(parts: &[&str]) -> Answer {
    Answer::Text(fingerprint(parts))
}

/// An answer that is only calls.
pub fn calls(calls: &[(&str, &str)]) -> Answer {
    Answer::Tools { text: None, signature: signature(calls) }
}
