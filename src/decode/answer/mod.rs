//! A response to an [`Answer`]: the words and the tool calls that the model produced, never the envelope.
//!
//! Incremental: bytes in any chunking, the same result as in one piece. Words go straight into a fingerprint, so a
//! streamed answer and the same answer in one piece have the same one. One file per API says where in its documents the
//! words and the calls are; a document may be a whole answer or one event of a stream.

mod anthropic;
mod bedrock;
mod calls;
mod cohere;
mod gemini;
mod ollama;
mod openai;
mod responses;
mod rpc;

use std::rc::Rc;

use super::frames::{Frames, is_type};
use super::json::Json;
use super::text::{push_json, push_string};
use crate::fingerprint::Fingerprinter;
use crate::fingerprint::patterns::Pattern;
use crate::scan::Malformed;
use crate::turn::{Answer, Format};
use calls::CallsInParts;

/// What the headers of a response say.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The content type, empty where there is none.
    pub content_type: &'a [u8],
}

/// Reads one response.
pub struct AnswerReader {
    source: Source,
    max_event_bytes: usize,
    sheet: Sheet,
}

/// Where the answer is.
enum Source {
    /// In JSON documents of this format.
    Documents(Format, Frames),
    /// The body is the answer.
    Plain,
    /// In documents of this format, or the body itself: its first byte will tell.
    Either(Format),
    /// Nowhere: the call failed.
    None,
}

/// What has been read of an answer so far.
struct Sheet {
    text: Fingerprinter,
    calls: CallsInParts,
    malformed: bool,
    /// The upstream says that it failed, by its status or in the middle of its answer.
    failed: bool,
}

impl AnswerReader {
    /// A reader for the answer to a request of this format.
    pub fn new(format: Format, head: Head<'_>, patterns: Rc<[Pattern]>, max_event_bytes: usize) -> Self {
        Self::with(Fingerprinter::with_patterns(patterns), format, head, max_event_bytes)
    }

    /// The same with buffers of another's, as new.
    pub fn with(text: Fingerprinter, format: Format, head: Head<'_>, max_event_bytes: usize) -> Self {
        let failed = !(200..300).contains(&head.status);
        let content_type = head.content_type;
        let is_text = is_type(content_type, b"text/") && !is_type(content_type, b"text/event-stream");
        let source = match () {
            () if failed => Source::None,
            () if is_text && format == Format::Other => Source::Plain,
            () if is_text => Source::Either(format),
            () => Source::Documents(format, Frames::new(content_type, max_event_bytes)),
        };
        let sheet = Sheet { text, calls: CallsInParts::new(max_event_bytes), malformed: false, failed };
        Self { source, max_event_bytes, sheet }
    }

    /// Takes the next bytes of the body.
    pub fn push(&mut self, mut chunk: &[u8]) {
        if let Source::Either(format) = self.source {
            chunk = chunk.trim_ascii_start();
            self.source = match chunk.first() {
                None => return,
                Some(b'{' | b'[') => Source::Documents(format, Frames::new(b"", self.max_event_bytes)),
                Some(_) => Source::Plain,
            };
        }
        let sheet = &mut self.sheet;
        match &mut self.source {
            Source::Documents(format, frames) => frames.push(chunk, &mut |document| sheet.read(*format, document)),
            Source::Plain => sheet.text.push(chunk),
            Source::Either(_) | Source::None => {}
        }
    }

    /// The answer, once the body has ended. A document that was too long or malformed leaves it unknown, since part of
    /// an answer is another answer.
    pub fn finish(self) -> Answer {
        self.finish_with().0
    }

    /// The same, and the buffers for another's use.
    pub fn finish_with(mut self) -> (Answer, Fingerprinter) {
        let sheet = &mut self.sheet;
        if let Source::Documents(format, frames) = &mut self.source {
            frames.finish(&mut |document| sheet.read(*format, document));
            sheet.malformed |= frames.skipped() > 0;
        }
        let spoken = !sheet.text.is_empty();
        let text = sheet.text.finish();
        let answer = match sheet.calls.signature() {
            _ if sheet.failed => Answer::Failed,
            _ if sheet.malformed => Answer::Unknown,
            Some(signature) => Answer::Tools { text: spoken.then_some(text), signature },
            None if spoken => Answer::Text(text),
            None => Answer::Unknown,
        };
        (answer, self.sheet.text)
    }

    /// The names of the tools called so far, for people.
    pub fn tool_names(&self) -> String {
        self.sheet.calls.names()
    }
}

impl Sheet {
    fn read(&mut self, format: Format, document: Json<'_>) {
        let result = match format {
            Format::OpenAiChat | Format::OpenAiCompletions => openai::read(document, self),
            Format::OpenAiResponses => responses::read(document, self),
            Format::Anthropic => anthropic::read(document, self),
            Format::Gemini => gemini::read(document, self),
            Format::Bedrock => bedrock::read(document, self),
            Format::OllamaChat | Format::OllamaGenerate => ollama::read(document, self),
            Format::Cohere => cohere::read(document, self),
            Format::Mcp | Format::A2a => rpc::read(document, self),
            Format::Other => push_json(document, &mut self.text),
        };
        self.malformed |= result.is_err();
    }

    /// An error in the middle of an answer.
    fn fail_on(&mut self, error: Option<Json<'_>>) {
        self.failed |= error.is_some_and(|error| !error.is_null());
    }

    /// Words, where the value is a string.
    fn say(&mut self, words: Option<Json<'_>>) -> Result<(), Malformed> {
        words.map_or(Ok(()), |words| push_string(words, &mut self.text))
    }

    /// Words, where they are a string or a list of blocks.
    fn say_any(&mut self, content: Option<Json<'_>>) -> Result<(), Malformed> {
        let Some(content) = content else { return Ok(()) };
        if content.is_array() { self.say_blocks(content) } else { self.say(Some(content)) }
    }

    /// What an answer in one piece has: a string, or a list of blocks, calls among them.
    fn say_content(&mut self, content: Json<'_>) -> Result<(), Malformed> {
        for block in content.elements() {
            self.calls.add_whole(block?)?;
        }
        self.say_any(Some(content))
    }

    /// The words of blocks; a model's thoughts are not its answer.
    fn say_blocks(&mut self, blocks: Json<'_>) -> Result<(), Malformed> {
        for block in blocks.elements() {
            let [text, refusal, thought] = block?.pick(["text", "refusal", "thought"])?;
            if thought.is_none_or(|thought| !thought.is_true()) {
                self.say(text)?;
                self.say(refusal)?;
            }
        }
        Ok(())
    }
}

/// A member of a member.
fn get2<'a>(value: Json<'a>, outer: &str, inner: &str) -> Result<Option<Json<'a>>, Malformed> {
    value.get(outer)?.map_or(Ok(None), |value| value.get(inner))
}
