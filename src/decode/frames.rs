//! A response body, in chunks of any size, to the JSON documents in it.
//!
//! Three framings: server-sent events; JSON values one after the other, which covers a plain JSON answer, NDJSON and the
//! JSON array that Gemini streams; and AWS event streams. All work on bytes: a character split between two chunks is
//! whole again before anyone looks at it. A frame longer than the cap is skipped, not grown, and counted, as is one that
//! begins like JSON and is not.

use memchr::{memchr, memchr2};

use super::json::{Json, container_len};
use crate::scan::Malformed;

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
}

impl Frames {
    /// Chooses the framing by content type.
    pub fn new(content_type: &[u8], max_bytes: usize) -> Self {
        let framing = match () {
            () if is_type(content_type, b"text/event-stream") => Framing::Events(Events::default()),
            () if is_type(content_type, b"application/vnd.amazon.eventstream") => Framing::Aws(Aws::default()),
            () => Framing::Values(Values::default()),
        };
        Self { framing, frame: Frame::new(max_bytes) }
    }

    /// Takes the next chunk and passes on every document that it completes.
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

    /// Says that the body has ended. An event needs no blank line after it then; other documents must be whole.
    pub fn finish(&mut self, each: &mut dyn FnMut(Json<'_>)) {
        let cut_short = match &mut self.framing {
            Framing::Events(_) => {
                self.frame.deliver(each);
                false
            }
            Framing::Values(values) => values.depth > 0,
            Framing::Aws(aws) => aws.at > 0 || aws.lost,
        };
        self.frame.skipped += u32::from(cut_short);
    }

    /// Documents that were too long, that the end of the body cut short, or that are none.
    pub fn skipped(&self) -> u32 {
        self.frame.skipped
    }
}

/// Whether a content type begins like this, in any case.
pub fn is_type(content_type: &[u8], beginning: &[u8]) -> bool {
    content_type.get(..beginning.len()).is_some_and(|text| text.eq_ignore_ascii_case(beginning))
}

/// A step through a chunk: as many bytes at once as are of one kind.
struct Taken {
    bytes: usize,
    /// Whether a document is whole.
    completes: bool,
}

impl Taken {
    fn some(bytes: usize) -> Self {
        Self { bytes, completes: false }
    }
}

/// The document that is being gathered.
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
    fn add_some(&mut self, chunk: &[u8], bytes: usize) -> Taken {
        self.add(chunk.get(..bytes).unwrap_or(chunk));
        Taken::some(bytes)
    }

    /// Passes on what was gathered.
    fn deliver(&mut self, each: &mut dyn FnMut(Json<'_>)) {
        let gathered = std::mem::take(&mut self.bytes);
        self.pass(&gathered, each);
        self.bytes = gathered;
        self.bytes.clear();
        self.too_long = false;
    }

    /// Passes on a document, or counts it as skipped.
    fn pass(&mut self, document: &[u8], each: &mut dyn FnMut(Json<'_>)) {
        match Json::root(document) {
            _ if self.too_long || document.len() > self.max_bytes => self.skipped += 1,
            Ok(document) => each(document),
            Err(Malformed) => self.skipped += u32::from(matches!(document.first(), Some(b'{' | b'['))),
        }
    }
}

/// The first object of a chunk and what is after it, if all of the object is there: most answers in one piece come in one
/// chunk, and are read where they lie.
fn whole_object(chunk: &[u8]) -> Option<(&[u8], &[u8])> {
    let object = chunk.get(memchr(b'{', chunk)?..)?;
    object.split_at_checked(container_len(object)?)
}

/// Server-sent events: the `data:` lines of each event, up to a blank line.
#[derive(Clone, Debug)]
pub struct Events {
    line: Line,
    /// How many bytes of a byte order mark the body has begun with; all of it, or anything else, settles that.
    mark: usize,
    /// The last byte was a carriage return: a line feed after it ends no second line.
    after_return: bool,
    has_data: bool,
}

/// Where in a line of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// In its name, which matches this many bytes of `data:`.
    Name(usize),
    /// Right after `data:`, where one space is skipped.
    Space,
    /// In the data.
    Data,
    /// In a line of another name.
    Other,
}

impl Default for Events {
    fn default() -> Self {
        Self { line: Line::Name(0), mark: 0, after_return: false, has_data: false }
    }
}

impl Events {
    fn take(&mut self, byte: u8, chunk: &[u8], frame: &mut Frame) -> Taken {
        const MARK: &[u8] = b"\xEF\xBB\xBF";
        const NAME: &[u8] = b"data:";
        if MARK.get(self.mark) == Some(&byte) {
            self.mark += 1;
            return Taken::some(1);
        }
        self.mark = MARK.len();
        if byte == b'\n' && std::mem::take(&mut self.after_return) {
            return Taken::some(1);
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
                Taken::some(1)
            }
            Line::Space if byte == b' ' => {
                self.line = Line::Data;
                Taken::some(1)
            }
            Line::Space | Line::Data => {
                self.line = Line::Data;
                frame.add_some(chunk, line_len(chunk))
            }
            Line::Name(_) | Line::Other => {
                self.line = Line::Other;
                Taken::some(line_len(chunk))
            }
        }
    }

    /// Ends a line, and the event if the line was blank.
    fn line_end(&mut self) -> bool {
        let blank = self.line == Line::Name(0);
        self.line = Line::Name(0);
        blank && std::mem::take(&mut self.has_data)
    }
}

/// JSON values: objects one after the other, with anything between them, an outer array's brackets included.
#[derive(Clone, Debug, Default)]
pub struct Values {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Values {
    fn take(&mut self, chunk: &[u8], frame: &mut Frame) -> Taken {
        if self.depth == 0 {
            let Some(start) = memchr(b'{', chunk) else { return Taken::some(chunk.len()) };
            self.depth = 1;
            frame.add(b"{");
            return Taken::some(start + 1);
        }
        if self.in_string {
            return self.take_string(chunk, frame);
        }
        let Some(at) = chunk.iter().position(|&byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']')) else {
            return frame.add_some(chunk, chunk.len());
        };
        match chunk.get(at) {
            Some(b'"') => self.in_string = true,
            Some(b'{' | b'[') => self.depth += 1,
            _ => self.depth -= 1,
        }
        Taken { completes: self.depth == 0, ..frame.add_some(chunk, at + 1) }
    }

    fn take_string(&mut self, chunk: &[u8], frame: &mut Frame) -> Taken {
        if std::mem::take(&mut self.escaped) {
            return frame.add_some(chunk, 1);
        }
        let Some(at) = memchr2(b'"', b'\\', chunk) else { return frame.add_some(chunk, chunk.len()) };
        self.escaped = chunk.get(at) == Some(&b'\\');
        self.in_string = self.escaped;
        frame.add_some(chunk, at + 1)
    }
}

/// AWS event streams: length-prefixed messages whose payload is JSON.
///
/// Checksums are not verified: the client does that. Lengths that contradict each other mean that the framing is lost,
/// and nothing after that is read.
#[derive(Clone, Debug, Default)]
pub struct Aws {
    prelude: [u8; 12],
    at: usize,
    lost: bool,
}

impl Aws {
    /// Bytes before the headers: two lengths and a checksum.
    const PRELUDE: usize = 12;
    /// The checksum at the end.
    const TRAILER: usize = 4;

    fn take(&mut self, byte: u8, chunk: &[u8], frame: &mut Frame) -> Taken {
        if self.lost {
            return Taken::some(chunk.len());
        }
        if let Some(slot) = self.prelude.get_mut(self.at) {
            *slot = byte;
            self.at += 1;
            return Taken::some(1);
        }
        let [a, b, c, d, e, f, g, h, ..] = self.prelude;
        let total = u32::from_be_bytes([a, b, c, d]) as usize;
        let payload = (u32::from_be_bytes([e, f, g, h]) as usize).saturating_add(Self::PRELUDE);
        if payload.saturating_add(Self::TRAILER) > total {
            self.lost = true;
            return Taken::some(chunk.len());
        }
        let trailer = total - Self::TRAILER;
        let end = [payload, trailer, total].into_iter().find(|end| self.at < *end).unwrap_or(total);
        let bytes = chunk.len().min(end - self.at);
        if self.at >= payload && end == trailer {
            frame.add_some(chunk, bytes);
        }
        self.at += bytes;
        let completes = self.at == total;
        if completes {
            self.at = 0;
        }
        Taken { bytes, completes }
    }
}

/// How long the line at the start of a chunk is, or what there is of it.
fn line_len(chunk: &[u8]) -> usize {
    memchr2(b'\n', b'\r', chunk).unwrap_or(chunk.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_longer_than_the_cap_grows_no_memory() {
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
