//! The fuzz targets as plain functions. libFuzzer calls them if it is installed. The `smoke` binary calls them on any
//! toolchain.
//!
//! The first bytes of an input choose paths, formats and chunk sizes; the rest is the body. The targets check that nothing
//! panics, and that chunking, earlier input and white space do not change the result.

mod seeds;

use std::rc::Rc;

use agent_kill_switch::decode::answer::{AnswerReader, ResponseHead};
use agent_kill_switch::decode::frames::Frames;
use agent_kill_switch::decode::json::Json;
use agent_kill_switch::decode::request::{Reading, request};
use agent_kill_switch::detect::window::{Call, Sequence, Window};
use agent_kill_switch::fingerprint::Fingerprinter;
use agent_kill_switch::fingerprint::normalise::{Normaliser, Number, Placeholder, Sink, Word};
use agent_kill_switch::turn::{Answer, Format};
use agent_kill_switch::wire::Counting;

pub use seeds::seeds;

/// The name of a target, and its function.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 4] = [("decode", decode), ("sse", sse), ("normalise", normalise), ("window", window)];

/// Formats and their paths.
const FORMATS: [(Format, &str); 12] = [
    (Format::OpenAiChat, "/v1/chat/completions"),
    (Format::OpenAiCompletions, "/v1/completions"),
    (Format::OpenAiResponses, "/v1/responses"),
    (Format::Anthropic, "/v1/messages"),
    (Format::Gemini, "/v1beta/models/m:generateContent"),
    (Format::Bedrock, "/model/m/converse"),
    (Format::OllamaChat, "/api/chat"),
    (Format::OllamaGenerate, "/api/generate"),
    (Format::Cohere, "/v2/chat"),
    (Format::Mcp, "/mcp"),
    (Format::A2a, "/a2a"),
    (Format::Other, "/"),
];

const CONTENT_TYPES: [&str; 4] =
    ["application/json", "text/event-stream", "application/vnd.amazon.eventstream", "text/plain"];

/// Decodes requests and answers of every format.
pub fn decode(data: &[u8]) {
    let [which, flags, size, body @ ..] = data else { return };
    let (format, path) = FORMATS[usize::from(*which) % FORMATS.len()];
    check_request(path, body, if flags & 1 == 0 { Counting::Progress } else { Counting::Literal });
    let content_type = CONTENT_TYPES[usize::from(flags >> 1) % CONTENT_TYPES.len()];
    let cap = if flags & 0x80 == 0 { 1 << 20 } else { 256 };
    let read = |size: usize| {
        let head = ResponseHead { status: 200, content_type: content_type.as_bytes() };
        let mut reader = AnswerReader::new(format, head, Rc::from([]), cap);
        body.chunks(size).for_each(|chunk| reader.push(chunk));
        reader.finish()
    };
    let whole = read(usize::MAX);
    assert_eq!(read(usize::from(*size) + 1), whole, "chunking changes nothing");
}

fn check_request(path: &str, body: &[u8], counting: Counting) {
    let mut text = Fingerprinter::default();
    let mut read = |body: &[u8]| {
        let turn = request(path.as_bytes(), body, Reading::new(counting), &mut text);
        assert!(text.is_empty(), "no state is left for the next text");
        turn
    };
    let turn = read(body);
    assert_eq!(read(body), turn, "earlier input changes nothing");
    let padded = [b" \n", body, b"\t "].concat();
    if !body.starts_with(b"\xEF\xBB\xBF") {
        assert_eq!(read(&padded), turn, "white space around it changes nothing");
    }
}

/// Splits answers into documents: event streams and other framings.
pub fn sse(data: &[u8]) {
    let [which, size, cap, body @ ..] = data else { return };
    let content_type = CONTENT_TYPES[usize::from(*which) % CONTENT_TYPES.len()];
    let cap = usize::from(*cap) * 8;
    let read = |size: usize| {
        let mut frames = Frames::new(content_type.as_bytes(), cap);
        let mut documents = Vec::new();
        let mut each = |document: Json<'_>| documents.push(document.text().to_vec());
        body.chunks(size).for_each(|chunk| frames.push(chunk, &mut each));
        frames.finish(&mut each);
        (documents, frames.skipped())
    };
    let whole = read(usize::MAX);
    assert!(whole.0.iter().all(|document| document.len() <= cap), "no document is longer than the cap");
    assert_eq!(read(usize::from(*size) + 1), whole, "chunking changes nothing");
}

/// Turns text in any chunking into tokens and a fingerprint.
pub fn normalise(data: &[u8]) {
    let [size, text @ ..] = data else { return };
    let size = usize::from(*size) + 1;
    let tokens = |size: usize| {
        let mut tokens = Tokens::default();
        let mut normaliser = Normaliser::default();
        text.chunks(size).for_each(|chunk| normaliser.push(chunk, &mut tokens));
        normaliser.finish(&mut tokens);
        tokens
    };
    let whole = tokens(usize::MAX);
    assert_eq!(tokens(size), whole, "chunking changes no token");
    let fingerprint = |size: usize| {
        let mut fingerprinter = Fingerprinter::default();
        text.chunks(size).for_each(|chunk| fingerprinter.push(chunk));
        fingerprinter.finish()
    };
    assert_eq!(fingerprint(size), fingerprint(usize::MAX), "chunking changes no fingerprint");
    assert!(whole.bytes <= 3 * text.len(), "tokens are parts of the text");
}

/// The tokens without the gaps, since gaps may be cut anywhere.
#[derive(Debug, Default, PartialEq)]
struct Tokens {
    tokens: Vec<(u8, Vec<u8>)>,
    bytes: usize,
}

impl Tokens {
    fn add(&mut self, kind: u8, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.tokens.push((kind, bytes.to_vec()));
    }
}

impl Sink for Tokens {
    fn word(&mut self, word: Word<'_>) {
        match word {
            Word::Ascii(bytes) | Word::Short(bytes, _) => self.add(0, bytes),
            Word::Lowercase(bytes) => self.add(1, bytes),
        }
    }

    fn number(&mut self, digits: &[u8], kind: Number) {
        self.add(if kind == Number::Value { 2 } else { 3 }, digits);
    }

    fn placeholder(&mut self, placeholder: Placeholder) {
        self.add(4, format!("{placeholder:?}").as_bytes());
    }

    fn gap(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
    }
}

/// Decodes bytes of shared data to a window and encodes it again.
pub fn window(data: &[u8]) {
    let generation = data.get(2..10).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    for counting in [Counting::Literal, Counting::Progress] {
        let mut window = Window::decode(data, generation, counting);
        let again = Window::decode(window.bytes(), generation, counting);
        assert_eq!(again, window, "decoding and encoding change nothing");
        let other = Window::decode(data, generation.wrapping_add(1), counting);
        assert!(other.calls().is_empty(), "a window of another generation is empty");
        let size = 1 + u32::from(data.first().copied().unwrap_or_default()) % 100;
        let sequence = window.push(Call::default(), size);
        assert!(window.calls().len() <= size as usize);
        assert!(window.attach_answer(sequence, Answer::Failed, 0).is_some());
        for back in 0..300 {
            let _ = window.attach_answer(Sequence(sequence.0.wrapping_add(150).wrapping_sub(back)), Answer::Unknown, 0);
        }
    }
}
