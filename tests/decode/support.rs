//! The conversation in the fixtures, and functions to decode with few words.

use std::rc::Rc;

use agent_kill_switch::decode::answer::{AnswerReader, ResponseHead, Stated};
use agent_kill_switch::decode::request::{Reading, request};
use agent_kill_switch::decode::tools::ToolCalls;
use agent_kill_switch::fingerprint::{Fingerprint, Fingerprinter};
use agent_kill_switch::turn::{Answer, Format, ToolSignature, ToolTurn, Turn, Unreadable};
use agent_kill_switch::wire::Counting;

/// The user's question in all fixtures.
pub const USER: &str = "Which open orders ship to Zürich before Friday, and is snow expected in 北京?";
/// The result of the first tool.
pub const ORDERS: &str = "3 orders: A17, A21 and B02 leave on Thursday";
/// The result of the second tool.
pub const WEATHER: &str = "snow from Wednesday, \"heavy\" at times\nthen 12 cm by night";
/// The model's answer.
pub const ANSWER: &str =
    "Three orders ship to Zürich on Thursday.\nIn 北京 it snows: \"12 cm\" by night 🌨\u{fe0f}, so leave early.";
/// The model's text next to its tool calls.
pub const BESIDE: &str = "Let me look at both.";
/// The first tool call.
pub const FIND: (&str, &str) = ("find_orders", r#"{"city": "Zürich", "status": "open", "limit": 20}"#);
/// The second tool call.
pub const LOOK: (&str, &str) = ("get_weather", r#"{"city": "北京", "days": 3}"#);

/// A limit that no fixture reaches.
pub const CAP: usize = 1 << 20;

/// One API and its fixtures.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    pub format: Format,
    pub folder: &'static str,
    pub path: &'static str,
    /// The file extension and the content type of its streams.
    pub stream: (&'static str, &'static str),
    /// Whether there are fixtures with tool calls.
    pub has_tools: bool,
    /// Whether there is text next to the tool calls.
    pub has_text_beside_calls: bool,
}

const SSE: (&str, &str) = (".sse", "text/event-stream; charset=utf-8");
const NDJSON: (&str, &str) = (".ndjson", "application/x-ndjson");

const fn api(format: Format, folder: &'static str, path: &'static str) -> Api {
    Api { format, folder, path, stream: SSE, has_tools: true, has_text_beside_calls: true }
}

/// All APIs of models.
pub const APIS: [Api; 9] = [
    api(Format::OpenAiChat, "openai_chat", "/v1/chat/completions"),
    Api { has_tools: false, ..api(Format::OpenAiCompletions, "openai_completions", "/v1/completions") },
    api(Format::OpenAiResponses, "openai_responses", "/v1/responses"),
    api(Format::Anthropic, "anthropic", "/v1/messages?beta=true"),
    api(Format::Gemini, "gemini", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
    Api { stream: NDJSON, ..api(Format::Bedrock, "bedrock", "/model/anthropic.claude-v1%3A0/converse-stream") },
    Api { stream: NDJSON, ..api(Format::OllamaChat, "ollama_chat", "/api/chat") },
    Api { stream: NDJSON, has_tools: false, ..api(Format::OllamaGenerate, "ollama_generate", "/api/generate") },
    Api { has_text_beside_calls: false, ..api(Format::Cohere, "cohere", "/v2/chat") },
];

impl Api {
    /// Reads a fixture.
    pub fn fixture(&self, name: &str) -> Vec<u8> {
        fixture(self.folder, name)
    }

    /// Returns the names of its requests.
    pub fn requests(&self) -> &'static [&'static str] {
        const NAMES: [&str; 3] = ["request_user.json", "request_result.json", "request_parallel.json"];
        if self.has_tools { &NAMES } else { &NAMES[..1] }
    }

    /// Returns the names of its answers, without their extension.
    pub fn answer_names(&self) -> &'static [&'static str] {
        if self.has_tools { &["answer_text", "answer_tools"] } else { &["answer_text"] }
    }

    /// Decodes a request of this API.
    pub fn request(&self, name: &str, counting: Counting) -> Turn {
        decode_as(counting, self.path, self.fixture(name)).unwrap_or_else(|error| panic!("{self:?} {name}: {error:?}"))
    }

    /// Decodes an answer of this API, whole and streamed.
    pub fn answers(&self, name: &str) -> [(String, Answer); 2] {
        let (ending, content_type) = self.stream;
        [(".json", "application/json"), (ending, content_type)].map(|(ending, content_type)| {
            let body = self.fixture(&format!("{name}{ending}"));
            (format!("{}/{name}{ending}", self.folder), answer(self.format, content_type, body))
        })
    }
}

/// Reads a fixture.
pub fn fixture(folder: &str, name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{folder}/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the fingerprint of a text that has several parts.
pub fn fingerprint(parts: &[&str]) -> Fingerprint {
    let mut text = Fingerprinter::default();
    for part in parts {
        text.push(part.as_bytes());
        text.end_part();
    }
    text.finish()
}

/// Returns the signature of calls, given their names and arguments.
pub fn signature(calls: &[(&str, &str)]) -> ToolSignature {
    let mut all = ToolCalls::default();
    for (name, arguments) in calls {
        all.add_text(name.as_bytes(), arguments.as_bytes());
    }
    all.signature().unwrap()
}

/// Returns the tool turn that brings the results of calls.
pub fn results(calls: &[(&str, &str)]) -> ToolTurn {
    ToolTurn::Results(signature(calls))
}

/// Decodes a request for `progress` counting.
pub fn decode(path: &str, body: impl AsRef<[u8]>) -> Result<Turn, Unreadable> {
    decode_as(Counting::Progress, path, body)
}

/// Decodes a request for `progress` counting, whatever API it speaks.
pub fn decode_any(path: &str, body: impl AsRef<[u8]>) -> Result<Turn, Unreadable> {
    let reading = Reading { judge_unknown: true, ..Reading::new(Counting::Progress) };
    request(path.as_bytes(), body.as_ref(), reading, &mut Fingerprinter::default())
}

/// Decodes a request.
pub fn decode_as(counting: Counting, path: &str, body: impl AsRef<[u8]>) -> Result<Turn, Unreadable> {
    let mut text = Fingerprinter::default();
    let turn = request(path.as_bytes(), body.as_ref(), Reading::new(counting), &mut text);
    assert!(text.is_empty(), "the fingerprinter is finished");
    turn
}

/// Returns the input of a request, which must be the same for both ways of counting.
pub fn input(path: &str, body: impl AsRef<[u8]>) -> Fingerprint {
    let progress = decode(path, body.as_ref()).unwrap().input;
    let literal = decode_as(Counting::Literal, path, body.as_ref()).unwrap().input;
    assert_eq!(progress, literal, "{}", String::from_utf8_lossy(body.as_ref()));
    progress
}

/// Decodes an answer that comes in one chunk.
pub fn answer(format: Format, content_type: &str, body: impl AsRef<[u8]>) -> Answer {
    answer_in_chunks(format, content_type, [body.as_ref()])
}

/// Decodes an answer that comes in several chunks.
pub fn answer_in_chunks<'a>(format: Format, content_type: &str, chunks: impl IntoIterator<Item = &'a [u8]>) -> Answer {
    answer_within(CAP, format, content_type, chunks)
}

/// Decodes an answer none of whose documents may exceed `max_event_bytes`.
pub fn answer_within<'a>(
    max_event_bytes: usize,
    format: Format,
    content_type: &str,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Answer {
    let head = ResponseHead { status: 200, content_type: content_type.as_bytes() };
    let mut reader = AnswerReader::new(format, head, Rc::from([]), max_event_bytes);
    chunks.into_iter().for_each(|chunk| reader.push(chunk));
    reader.finish()
}

/// Returns what an answer says about itself, given its chunks.
pub fn stated<'a>(format: Format, content_type: &str, chunks: impl IntoIterator<Item = &'a [u8]>) -> Stated {
    let head = ResponseHead { status: 200, content_type: content_type.as_bytes() };
    let mut reader = AnswerReader::new(format, head, Rc::from([]), CAP);
    chunks.into_iter().for_each(|chunk| reader.push(chunk));
    reader.finish_into_parts().1
}

/// Decodes a JSON answer.
pub fn json_answer(format: Format, body: &str) -> Answer {
    answer(format, "application/json", body)
}

/// Decodes a streamed answer, given the data of its events.
pub fn event_answer(format: Format, events: &[&str]) -> Answer {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    answer(format, SSE.1, body)
}

/// Asserts that an answer is `expected`, both as one JSON document and as these events of a stream.
pub fn assert_whole_and_streamed(format: Format, whole: &str, events: &[&str], expected: Answer) {
    assert_eq!(json_answer(format, whole), expected, "{whole}");
    assert_eq!(event_answer(format, events), expected, "{events:?}");
}

/// Asserts that data is compared byte by byte. As text, both strings would be the same id.
pub fn assert_opaque<T: PartialEq + std::fmt::Debug>(read: impl Fn(&str) -> T) {
    let (one, other) = ("iVBOR1w0KGgoAAAA1NS", "iVBOR2w0KGgoAAAA2NS");
    assert_eq!(read(one), read(one));
    assert_ne!(read(one), read(other));
}

/// Returns an answer that is only text.
pub fn words(parts: &[&str]) -> Answer {
    Answer::Text(fingerprint(parts))
}

/// Returns an answer that is only tool calls.
pub fn calls(calls: &[(&str, &str)]) -> Answer {
    Answer::Tools { text: None, signature: signature(calls) }
}
