//! Decodes a response into an [`Answer`]: the text and the tool calls that the model produced, without their envelope.
//!
//! The body may come in chunks of any size. Text goes straight into a fingerprint, so an answer has the same fingerprint
//! whether it is streamed or not. Each API has a file that knows where in its documents the text and the calls are. A
//! document is a whole answer or one event of a stream.

mod anthropic;
mod bedrock;
mod calls_in_parts;
mod cohere;
mod gemini;
mod ollama;
mod openai;
mod repetition;
mod responses;
mod rpc;
mod usage;

use std::rc::Rc;

use super::frames::{EVENT_STREAM, Frames, is_type};
use super::json::Json;
use super::text::{push_json, push_string};
use crate::fingerprint::Fingerprinter;
use crate::fingerprint::patterns::Pattern;
use crate::scan::Malformed;
use crate::turn::{Answer, Format};
use crate::wire::{Repetition, Usage};
use calls_in_parts::{CallDelta, CallsInParts};
use repetition::RepetitionSearch;

pub use usage::Stated;

/// The status and the headers of a response that matter.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The content type; empty if there is none.
    pub content_type: &'a [u8],
}

/// Reads one response.
pub struct AnswerReader {
    body: BodyKind,
    max_event_bytes: usize,
    answer: PartialAnswer,
}

/// What the body of a response contains.
enum BodyKind {
    /// JSON documents of this format.
    Documents(Format, Frames),
    /// The answer as text.
    Text,
    /// JSON documents of this format, whole or as events, or text. The first bytes, which are kept here, will decide.
    Undecided(Format, Vec<u8>),
    /// No answer, since the call failed or is answered elsewhere.
    NoAnswer,
}

/// What has been read of an answer.
struct PartialAnswer {
    text: Fingerprinter,
    calls: CallsInParts,
    malformed: bool,
    /// Whether it is complete even if it has no text, which only the results of tools and agents are.
    may_be_empty: bool,
    /// The answer if the upstream reported a failure, by its status or within its answer.
    failure: Option<Answer>,
    /// Whether any document has come.
    has_documents: bool,
    /// Whether the model had not finished when one of them had been recognised, so that the answer comes in parts.
    is_in_parts: bool,
    /// Whether one of them has what answers of other APIs of models have.
    may_be_of_model: bool,
    /// Whether one of them was recognised as a part of the answer. Only of such answers the end is recognised as well.
    has_begun: bool,
    state: AnswerState,
    stated: Stated,
    /// Looks for a loop within the answer, if that is wanted.
    search: Option<RepetitionSearch>,
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnswerState {
    /// More of the answer is to come.
    #[default]
    Partial,
    /// The model has finished. What may follow is not part of the answer, and some clients do not wait for it.
    Finished,
    /// The last event of the API has passed. Clients may close the stream here.
    Ended,
}

impl AnswerReader {
    /// Creates a reader for the answer to a request of this format.
    pub fn new(format: Format, head: ResponseHead<'_>, patterns: Rc<[Pattern]>, max_event_bytes: usize) -> Self {
        Self::with_fingerprinter(Fingerprinter::with_patterns(patterns), format, head, max_event_bytes)
    }

    /// Creates a reader that uses an existing fingerprinter, which must be finished.
    pub fn with_fingerprinter(
        text: Fingerprinter,
        format: Format,
        head: ResponseHead<'_>,
        max_event_bytes: usize,
    ) -> Self {
        let failure = Answer::of_failed_status(head.status);
        let content_type = head.content_type;
        let is_text = is_type(content_type, b"text/") && !is_type(content_type, EVENT_STREAM);
        let body = if failure.is_some() {
            BodyKind::NoAnswer
        } else if is_text && format == Format::Other {
            BodyKind::Text
        } else if is_text {
            BodyKind::Undecided(format, Vec::new())
        } else {
            BodyKind::Documents(format, Frames::new(content_type, max_event_bytes))
        };
        let calls = CallsInParts::new(max_event_bytes);
        let answer = PartialAnswer {
            text,
            calls,
            malformed: false,
            may_be_empty: false,
            failure,
            has_documents: false,
            is_in_parts: false,
            may_be_of_model: false,
            has_begun: false,
            state: AnswerState::Partial,
            stated: Stated::default(),
            search: None,
        };
        Self { body, max_event_bytes, answer }
    }

    /// Starts to look for words that the model repeats without end, in its text and in the arguments of its tool calls.
    pub fn find_repetition(&mut self) {
        self.answer.search = Some(RepetitionSearch::default());
    }

    /// Returns the repetition that was found, once, and looks for no other.
    pub fn take_repetition(&mut self) -> Option<Repetition> {
        self.answer.search.take_if(|search| search.found().is_some())?.found()
    }

    /// Ends the text, with the last document and the last word, because no more of the answer will come.
    pub fn end_text(&mut self) {
        let answer = &mut self.answer;
        match &mut self.body {
            BodyKind::Documents(format, frames) => {
                frames.finish(&mut |document| answer.read(*format, document));
                answer.malformed |= frames.skipped() > 0;
            }
            BodyKind::Undecided(format, start) if !is_json_rpc(*format) => answer.text.push(&std::mem::take(start)),
            BodyKind::Undecided(..) | BodyKind::Text | BodyKind::NoAnswer => {}
        }
        answer.end_word();
    }

    /// Returns whether the body, which has ended, lacks the end of the answer: it was cut within a document, or a stream
    /// without an event that says that it is the last. Servers of tools and agents may end a stream without a result, and
    /// streams of other APIs are not known well enough.
    pub fn lacks_end(&self) -> bool {
        let answer = &self.answer;
        let BodyKind::Documents(format, frames) = &self.body else { return false };
        let has_end = !is_json_rpc(*format) && frames.is_stream();
        let is_known = answer.has_begun || !answer.has_documents;
        answer.state == AnswerState::Partial
            && *format != Format::Other
            && (frames.is_cut_short() || (has_end && is_known && !answer.malformed))
    }

    /// Takes the next bytes of the body.
    pub fn push(&mut self, chunk: &[u8]) {
        if let BodyKind::Undecided(format, start) = &mut self.body {
            start.extend_from_slice(if start.is_empty() { chunk.trim_ascii_start() } else { chunk });
            let Some(body) = BodyKind::of_text(*format, start, self.max_event_bytes) else { return };
            let start = std::mem::take(start);
            self.body = body;
            self.push(&start);
            return;
        }
        let answer = &mut self.answer;
        match &mut self.body {
            BodyKind::Documents(format, frames) => {
                frames.push(chunk, &mut |document| answer.read(*format, document));
                answer.fail_if(frames.has_error_event() && !is_json_rpc(*format) && *format != Format::Other);
            }
            BodyKind::Text => {
                answer.has_begun |= !chunk.is_empty();
                answer.text.push(chunk);
            }
            BodyKind::Undecided(..) | BodyKind::NoAnswer => {}
        }
    }

    /// Returns how far the answer has come.
    pub fn state(&self) -> AnswerState {
        self.answer.state
    }

    /// Returns whether the answer is JSON that has nothing of the answer of a model. Of streams that is not certain.
    pub fn is_of_another_api(&self) -> bool {
        let is_whole = matches!(&self.body, BodyKind::Documents(_, frames) if !frames.is_stream());
        is_whole && self.answer.has_documents && !self.answer.has_begun && !self.answer.may_be_of_model
    }

    /// Returns whether the model has finished, and what follows can only be what the answer says about itself.
    ///
    /// An answer that is finished in its first part is not: some upstreams give every part a reason to finish.
    pub fn has_finished(&self) -> bool {
        self.answer.is_in_parts && self.answer.state >= AnswerState::Finished
    }

    /// Returns the answer and the tokens that it has stated so far, while more of its body is to come.
    pub fn answer_so_far(&mut self) -> (Answer, Usage) {
        self.answer.malformed |= matches!(&self.body, BodyKind::Documents(_, frames) if frames.has_lost());
        (self.answer.finish(), self.answer.stated.usage)
    }

    /// Returns the answer to a call whose client has closed the stream before the end of the answer was seen.
    ///
    /// The client has given up only if its end would have been recognised. If anything could not be read, the end may have
    /// passed. If nothing has come, the provider is out of order, which is not the agent's fault.
    pub fn if_closed_by_client(&self) -> Answer {
        let answer = &self.answer;
        let (is_readable, is_in_first) = match &self.body {
            BodyKind::Documents(format, frames) => {
                let is_in_first = *format != Format::Other && !answer.has_documents && frames.is_in_document();
                (!answer.malformed && !frames.has_lost(), is_in_first)
            }
            BodyKind::Text => (!answer.has_begun, false),
            BodyKind::Undecided(..) => (true, false),
            BodyKind::NoAnswer => (false, false),
        };
        match is_readable {
            true if answer.has_begun || is_in_first => Answer::Abandoned,
            true if !answer.has_documents => Answer::Failed,
            _ => Answer::Unknown,
        }
    }

    /// Returns the answer, once the body has ended. If a document was too long or malformed the answer is unknown, since
    /// the rest of it would look like another answer.
    pub fn finish(self) -> Answer {
        self.finish_into_parts().0
    }

    /// Returns the answer like [`finish`](Self::finish), what it says about itself, and the fingerprinter to be used again.
    pub fn finish_into_parts(mut self) -> (Answer, Stated, Fingerprinter) {
        self.end_text();
        (self.answer.finish(), self.answer.stated, self.answer.text)
    }
}

impl BodyKind {
    /// Returns what a body contains whose type says that it is text, or `None` if these first bytes do not tell yet.
    fn of_text(format: Format, start: &[u8], max_event_bytes: usize) -> Option<Self> {
        /// With what a stream of events may begin.
        const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
        Some(match start.first()? {
            b'{' | b'[' => Self::Documents(format, Frames::new(b"", max_event_bytes)),
            _ if FIELDS.iter().any(|field| start.starts_with(field)) => {
                Self::Documents(format, Frames::new(EVENT_STREAM, max_event_bytes))
            }
            _ if FIELDS.iter().any(|field| field.starts_with(start)) => return None,
            // A tool and an agent answer with JSON. Anything else says only that the call was taken.
            _ if is_json_rpc(format) => Self::NoAnswer,
            _ => Self::Text,
        })
    }
}

impl PartialAnswer {
    fn read(&mut self, format: Format, document: Json<'_>) {
        self.has_documents = true;
        self.is_in_parts |= self.has_begun && self.state == AnswerState::Partial;
        // Gateways end the streams of all APIs of models like this.
        self.reach(AnswerState::Ended, document.text() == b"[DONE]" && !is_json_rpc(format));
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
        self.may_be_of_model |= !self.has_begun && has_member_of_answer(document);
        if let Some(search) = &mut self.search {
            search.end_document();
        }
    }

    #[inline(never)] // so that it is compiled once
    fn finish(&mut self) -> Answer {
        let has_text = !self.text.is_empty();
        let text = self.text.finish();
        match self.calls.signature() {
            _ if self.failure.is_some() => self.failure.unwrap_or_default(),
            _ if self.malformed => Answer::Unknown,
            Some(signature) => Answer::Tools { text: has_text.then_some(text), signature },
            None if has_text || self.may_be_empty => Answer::Text(text),
            None => Answer::Unknown,
        }
    }

    /// Notes that the answer has begun, if a condition holds.
    fn begin(&mut self, begun: bool) {
        self.has_begun |= begun;
    }

    /// Notes that the answer has come this far, if a condition holds.
    fn reach(&mut self, state: AnswerState, reached: bool) {
        if reached {
            self.state = self.state.max(state);
        }
    }

    /// Marks the answer as failed.
    fn fail(&mut self) {
        self.failure = Some(Answer::Failed);
    }

    /// Marks the answer as failed, if a condition holds.
    fn fail_if(&mut self, failed: bool) {
        if failed {
            self.fail();
        }
    }

    /// Marks the answer as failed if there is an error in it.
    fn fail_on(&mut self, error: Option<Json<'_>>) {
        self.fail_if(is_given(error));
    }

    /// Adds text, if the value is a string.
    #[inline(never)] // so that it is compiled once
    fn push_string(&mut self, text: Option<Json<'_>>) -> Result<(), Malformed> {
        let Some(text) = text else { return Ok(()) };
        self.search_in(text.string().map(|string| string.raw()))?;
        push_string(text, &mut self.text)
    }

    /// Looks for a loop in the inside of a JSON string.
    fn search_in(&mut self, raw: Option<&[u8]>) -> Result<(), Malformed> {
        match (&mut self.search, raw) {
            (Some(search), Some(raw)) => search.push_escaped(raw),
            _ => Ok(()),
        }
    }

    /// Adds the text of a string or of a list of blocks.
    fn push_string_or_blocks(&mut self, content: Option<Json<'_>>) -> Result<(), Malformed> {
        let Some(content) = content else { return Ok(()) };
        if content.is_array() { self.push_blocks(content) } else { self.push_string(Some(content)) }
    }

    /// Adds the text and the tool calls of a whole answer: a string or a list of blocks.
    fn push_content(&mut self, content: Json<'_>) -> Result<(), Malformed> {
        self.add_calls(Some(content))?;
        self.push_string_or_blocks(Some(content))
    }

    /// Adds the text of blocks. The model's thoughts are not part of its answer.
    fn push_blocks(&mut self, blocks: Json<'_>) -> Result<(), Malformed> {
        for block in blocks.elements() {
            let [text, refusal, thought] = block?.pick(["text", "refusal", "thought"])?;
            if thought.is_none_or(|thought| !thought.is_true()) {
                self.push_string(text)?;
                self.push_string(refusal)?;
            }
        }
        Ok(())
    }

    /// Adds the complete tool calls of a list.
    fn add_calls(&mut self, calls: Option<Json<'_>>) -> Result<(), Malformed> {
        for call in calls.into_iter().flat_map(Json::elements) {
            self.add_call(call?)?;
        }
        Ok(())
    }

    /// Adds a complete tool call. Other values are ignored.
    #[inline(never)] // so that it is compiled once
    fn add_call(&mut self, call: Json<'_>) -> Result<(), Malformed> {
        if self.calls.add_whole(call)? {
            self.end_word();
            self.search_in(Some(call.text()))?;
        }
        Ok(())
    }

    /// Adds a part of a tool call.
    #[inline(never)] // so that it is compiled once
    fn add_call_delta(&mut self, delta: CallDelta<'_>) -> Result<(), Malformed> {
        if delta.name.is_some() {
            self.end_word();
        }
        self.search_in(delta.arguments.and_then(Json::string).map(|arguments| arguments.raw()))?;
        self.calls.add_delta(delta)
    }

    /// Ends the word in which a loop is looked for.
    fn end_word(&mut self) {
        if let Some(search) = &mut self.search {
            search.end_word();
        }
    }
}

/// Returns whether a document has a member in which APIs of models answer.
#[cold]
fn has_member_of_answer(document: Json<'_>) -> bool {
    let of_texts = document.pick(["response", "reply", "answer", "text", "completion"]);
    let of_values = document.pick(["choices", "candidates", "content", "message", "output", "result"]);
    let is_text = |value: &Option<Json<'_>>| value.is_some_and(|value| value.string().is_some());
    let is_value = |value: &Option<Json<'_>>| value.is_some_and(|value| value.is_array() || value.is_object());
    of_texts.is_ok_and(|texts| texts.iter().any(is_text)) || of_values.is_ok_and(|values| values.iter().any(is_value))
}

/// Returns whether this is the format of a tool or of another agent, and not of a model.
fn is_json_rpc(format: Format) -> bool {
    matches!(format, Format::Mcp | Format::A2a)
}

/// Returns whether a member is there and is neither null nor an empty string, which some upstreams send instead.
fn is_given(member: Option<Json<'_>>) -> bool {
    member.is_some_and(is_something)
}

#[inline(never)] // compiled once, and most members that are asked for are not there
fn is_something(member: Json<'_>) -> bool {
    !member.is_null() && member.text() != b"\"\""
}

/// Returns a member of a member.
fn get_nested<'a>(value: Json<'a>, outer: &str, inner: &str) -> Result<Option<Json<'a>>, Malformed> {
    value.get(outer)?.map_or(Ok(None), |value| value.get(inner))
}
