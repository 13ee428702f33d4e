//! Cuts a response body, which comes in chunks of any size, into JSON documents.
//!
//! There are three framings: server-sent events; JSON values one after the other, which covers a single JSON document,
//! NDJSON and the JSON array that Gemini streams; and AWS event streams. All work on bytes, so a character that is split
//! between two chunks is complete again before anything reads it. A document that exceeds the limit is skipped without
//! storing it, and counted. So is one that begins like JSON but is malformed.

use memchr::{memchr, memchr2};

use super::json::Json;
use super::json::bounds::container_len;
use crate::scan::Malformed;

/// The content type of server-sent events.
pub const EVENT_STREAM: &[u8] = b"text/event-stream";

/// The content types of JSON in lines.
const LINES: [&[u8]; 3] = [b"application/x-ndjson", b"application/ndjson", b"application/jsonl"];

/// How a body is cut into documents.
#[derive(Clone, Debug)]
pub enum Framing {
    /// `text/event-stream`.
    Events(Events),
    /// JSON, NDJSON, or an array of documents.
    Values(Values),
    /// `application/vnd.amazon.eventstream`.
    Aws(Aws),
}

/// Cuts a body into documents.
#[derive(Clone, Debug)]
pub struct Frames {
    framing: Framing,
    frame: Frame,
    /// Whether the body consists of events or lines, the last of which says that it is the last.
    is_stream: bool,
    /// Whether the body has ended within a document.
    cut_short: bool,
}

impl Frames {
    /// Chooses the framing by content type.
    pub fn new(content_type: &[u8], max_bytes: usize) -> Self {
        let framing = if is_type(content_type, EVENT_STREAM) {
            Framing::Events(Events::default())
        } else if is_type(content_type, b"application/vnd.amazon.eventstream") {
            Framing::Aws(Aws::default())
        } else {
            Framing::Values(Values::default())
        };
        let is_stream =
            !matches!(framing, Framing::Values(_)) || LINES.iter().any(|lines| is_type(content_type, lines));
        Self { framing, frame: Frame::new(max_bytes), is_stream, cut_short: false }
    }

    /// Takes the next chunk, and calls `each` with every document that it completes.
    pub fn push(&mut self, mut chunk: &[u8], each: &mut dyn FnMut(Json<'_>)) {
        while let Some(&first) = chunk.first() {
            if let Framing::Values(Values { depth: 0, .. }) = self.framing
                && let Some((object, rest)) = whole_object(chunk)
            {
                self.frame.pass(object, each);
                chunk = rest;
                continue;
            }
            let taken = match &mut self.framing {
                Framing::Events(events) => events.take(first, chunk, &mut self.frame),
                Framing::Values(values) => values.take(chunk, &mut self.frame),
                Framing::Aws(aws) => aws.take(first, chunk, &mut self.frame),
            };
            if taken.completes {
                self.frame.deliver(each);
            }
            chunk = chunk.get(taken.bytes..).unwrap_or_default();
        }
    }

    /// Ends the body. The last event needs no blank line after it; other documents must be complete.
    pub fn finish(&mut self, each: &mut dyn FnMut(Json<'_>)) {
        let (was_lost, skipped) = (self.has_lost(), self.frame.skipped);
        match &mut self.framing {
            Framing::Events(_) => self.frame.deliver(each),
            Framing::Values(values) => self.frame.skipped += u32::from(values.depth > 0),
            Framing::Aws(aws) => self.frame.skipped += u32::from(aws.at > 0 && !aws.lost),
        }
        self.cut_short |= !was_lost && self.frame.skipped > skipped;
    }

    /// Returns whether the body consists of events or lines, the last of which says that it is the last.
    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Returns whether the body has ended within its first document that could not be read.
    pub fn is_cut_short(&self) -> bool {
        self.cut_short
    }

    /// Returns how many documents were too long, malformed, or cut short by the end of the body.
    pub fn skipped(&self) -> u32 {
        self.frame.skipped
    }

    /// Returns whether a part of a JSON document has come, the rest of which is missing.
    pub fn is_in_document(&self) -> bool {
        matches!(self.frame.bytes.first(), Some(b'{' | b'['))
    }

    /// Returns whether an event had the name `error`.
    pub fn has_error_event(&self) -> bool {
        matches!(&self.framing, Framing::Events(events) if events.has_error)
    }

    /// Returns whether a document was lost so far, or is under way and will be.
    pub fn has_lost(&self) -> bool {
        self.frame.skipped > 0 || self.frame.too_long
    }
}

/// Returns whether a content type begins with `beginning`, ignoring case.
pub fn is_type(content_type: &[u8], beginning: &[u8]) -> bool {
    content_type.get(..beginning.len()).is_some_and(|text| text.eq_ignore_ascii_case(beginning))
}

/// How far a step through a chunk has come.
struct Taken {
    bytes: usize,
    /// Whether these bytes complete a document.
    completes: bool,
}

impl Taken {
    fn bytes(bytes: usize) -> Self {
        Self { bytes, completes: false }
    }
}

/// The document that is being collected.
#[derive(Clone, Debug)]
struct Frame {
    bytes: Vec<u8>,
    max_bytes: usize,
    too_long: bool,
    skipped: u32,
}

impl Frame {
    fn new(max_bytes: usize) -> Self {
        Self { bytes: Vec::new(), max_bytes, too_long: false, skipped: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = self.max_bytes.saturating_sub(self.bytes.len());
        self.too_long |= bytes.len() > room;
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// Adds the first bytes of a chunk.
    fn add_from(&mut self, chunk: &[u8], bytes: usize) -> Taken {
        self.add(chunk.get(..bytes).unwrap_or(chunk));
        Taken::bytes(bytes)
    }

    /// Passes the collected document on.
    fn deliver(&mut self, each: &mut dyn FnMut(Json<'_>)) {
        let document = std::mem::take(&mut self.bytes);
        self.pass(&document, each);
        self.bytes = document;
        self.bytes.clear();
        self.too_long = false;
    }

    /// Passes a document on, or counts it as skipped.
    fn pass(&mut self, document: &[u8], each: &mut dyn FnMut(Json<'_>)) {
        match Json::root(document) {
            _ if self.too_long || document.len() > self.max_bytes => self.skipped += 1,
            Ok(document) => each(document),
            Err(Malformed) => self.skipped += u32::from(matches!(document.first(), Some(b'{' | b'['))),
        }
    }
}

/// Returns the first object of a chunk and what is after it, if the object is complete. Most answers that are not streamed
/// come in one chunk, and are read without copying them.
fn whole_object(chunk: &[u8]) -> Option<(&[u8], &[u8])> {
    let object = chunk.get(memchr(b'{', chunk)?..)?;
    object.split_at_checked(container_len(object)?)
}

/// Server-sent events. A document is the `data:` lines of an event, which ends at a blank line.
#[derive(Clone, Debug)]
pub struct Events {
    line: Line,
    /// How many bytes of a byte order mark have been skipped. All three, once anything else has come.
    mark: usize,
    /// Whether the last byte was a carriage return. A line feed after it does not end another line.
    after_return: bool,
    has_data: bool,
    /// Whether an event had the name `error`.
    has_error: bool,
}

/// The position in a line of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// In the name of the field, of which this many bytes match `data:`.
    Name(usize),
    /// Right after `data:`, where one space is skipped.
    Space,
    /// In the data.
    Data,
    /// In the name of an event, of which this many bytes match `event:error`.
    Event(usize),
    /// In another field.
    Other,
}

/// The line by which an event is named `error`. There may be a space after the colon.
const ERROR_EVENT: &[u8] = b"event:error";
/// How many bytes of it the name of the field has.
const EVENT: usize = 6;

impl Default for Events {
    fn default() -> Self {
        Self { line: Line::Name(0), mark: 0, after_return: false, has_data: false, has_error: false }
    }
}

impl Events {
    fn take(&mut self, byte: u8, chunk: &[u8], frame: &mut Frame) -> Taken {
        const MARK: &[u8] = b"\xEF\xBB\xBF";
        const NAME: &[u8] = b"data:";
        if MARK.get(self.mark) == Some(&byte) {
            self.mark += 1;
            return Taken::bytes(1);
        }
        self.mark = MARK.len();
        if byte == b'\n' && std::mem::take(&mut self.after_return) {
            return Taken::bytes(1);
        }
        self.after_return = byte == b'\r';
        if byte == b'\n' || byte == b'\r' {
            return Taken { bytes: 1, completes: self.line_end() };
        }
        match self.line {
            Line::Name(at) if NAME.get(at) == Some(&byte) => {
                self.line = if at + 1 == NAME.len() { Line::Space } else { Line::Name(at + 1) };
                if self.line == Line::Space && std::mem::replace(&mut self.has_data, true) {
                    frame.add(b"\n");
                }
                Taken::bytes(1)
            }
            Line::Space if byte == b' ' => {
                self.line = Line::Data;
                Taken::bytes(1)
            }
            Line::Space | Line::Data => {
                self.line = Line::Data;
                frame.add_from(chunk, line_len(chunk))
            }
            Line::Event(EVENT) if byte == b' ' => Taken::bytes(1),
            Line::Name(0) if byte == b'e' && may_name_an_error(chunk) => {
                self.line = Line::Event(1);
                Taken::bytes(1)
            }
            Line::Event(at) if ERROR_EVENT.get(at) == Some(&byte) => {
                self.line = Line::Event(at + 1);
                Taken::bytes(1)
            }
            Line::Name(_) | Line::Event(_) | Line::Other => {
                self.line = Line::Other;
                Taken::bytes(line_len(chunk))
            }
        }
    }

    /// Ends a line, and the event if the line was blank.
    fn line_end(&mut self) -> bool {
        self.has_error |= self.line == Line::Event(ERROR_EVENT.len());
        let blank = self.line == Line::Name(0);
        self.line = Line::Name(0);
        blank && std::mem::take(&mut self.has_data)
    }
}

/// Whether the line at the start of a chunk may name an event `error`. Most names are ruled out by their first byte.
fn may_name_an_error(chunk: &[u8]) -> bool {
    chunk.get(EVENT..EVENT + 2).is_none_or(|name| name.contains(&b'e'))
}

/// JSON objects one after the other. Anything between them is ignored, such as the brackets of an array around them.
#[derive(Clone, Debug, Default)]
pub struct Values {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Values {
    fn take(&mut self, chunk: &[u8], frame: &mut Frame) -> Taken {
        if self.depth == 0 {
            let Some(start) = memchr(b'{', chunk) else { return Taken::bytes(chunk.len()) };
            self.depth = 1;
            frame.add(b"{");
            return Taken::bytes(start + 1);
        }
        if self.in_string {
            return self.take_string(chunk, frame);
        }
        let Some(at) = chunk.iter().position(|&byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']')) else {
            return frame.add_from(chunk, chunk.len());
        };
        match chunk.get(at) {
            Some(b'"') => self.in_string = true,
            Some(b'{' | b'[') => self.depth += 1,
            _ => self.depth -= 1,
        }
        Taken { completes: self.depth == 0, ..frame.add_from(chunk, at + 1) }
    }

    fn take_string(&mut self, chunk: &[u8], frame: &mut Frame) -> Taken {
        if std::mem::take(&mut self.escaped) {
            return frame.add_from(chunk, 1);
        }
        let Some(at) = memchr2(b'"', b'\\', chunk) else { return frame.add_from(chunk, chunk.len()) };
        self.escaped = chunk.get(at) == Some(&b'\\');
        self.in_string = self.escaped;
        frame.add_from(chunk, at + 1)
    }
}

/// AWS event streams: messages with a length prefix, whose payload is JSON.
///
/// Checksums are not verified, since the client does that. If lengths contradict each other, message boundaries are no
/// longer known and the rest of the body is ignored.
#[derive(Clone, Debug, Default)]
pub struct Aws {
    prelude: [u8; 12],
    at: usize,
    lost: bool,
}

impl Aws {
    /// The bytes before the headers: two lengths and a checksum.
    const PRELUDE: usize = 12;
    /// The bytes after the payload: a checksum.
    const TRAILER: usize = 4;

    fn take(&mut self, byte: u8, chunk: &[u8], frame: &mut Frame) -> Taken {
        if self.lost {
            return Taken::bytes(chunk.len());
        }
        if let Some(slot) = self.prelude.get_mut(self.at) {
            *slot = byte;
            self.at += 1;
            return Taken::bytes(1);
        }
        let [a, b, c, d, e, f, g, h, ..] = self.prelude;
        let total = u32::from_be_bytes([a, b, c, d]) as usize;
        let payload = (u32::from_be_bytes([e, f, g, h]) as usize).saturating_add(Self::PRELUDE);
        if payload.saturating_add(Self::TRAILER) > total {
            self.lost = true;
            frame.skipped += 1;
            return Taken::bytes(chunk.len());
        }
        let trailer = total - Self::TRAILER;
        let end = [payload, trailer, total].into_iter().find(|end| self.at < *end).unwrap_or(total);
        let bytes = chunk.len().min(end - self.at);
        if self.at >= payload && end == trailer {
            frame.add_from(chunk, bytes);
        }
        self.at += bytes;
        let completes = self.at == total;
        if completes {
            self.at = 0;
        }
        Taken { bytes, completes }
    }
}

/// Returns the length of the line at the start of a chunk, or of the part of it that has come.
fn line_len(chunk: &[u8]) -> usize {
    memchr2(b'\n', b'\r', chunk).unwrap_or(chunk.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_exceeds_the_limit_is_not_stored() {
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
        let mut message = (long.len() as u32 + 16).to_be_bytes().to_vec();
        message.extend([0; 8]);
        message.extend(long.bytes());
        message.extend([0; 4]);
        for (content_type, body) in [
            ("text/event-stream", format!("data: {long}\n\n").into_bytes()),
            ("application/json", long.into_bytes()),
            ("application/vnd.amazon.eventstream", message),
        ] {
            let mut frames = Frames::new(content_type.as_bytes(), 1024);
            for chunk in body.chunks(1500) {
                frames.push(chunk, &mut |_| panic!("too long to be delivered"));
                assert!(frames.frame.bytes.capacity() <= 2048, "{content_type}");
            }
            frames.finish(&mut |_| panic!("too long to be delivered"));
            assert_eq!(frames.skipped(), 1, "{content_type}");
        }
    }
}
