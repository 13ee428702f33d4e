//! A response body, in chunks of any size, to the JSON documents in it.
//!
//! Three framings: server-sent events; JSON values one after the other, which covers a plain JSON answer, NDJSON and the
//! JSON array that Gemini streams; and AWS event streams. All work on bytes: a character split between two chunks is
//! whole again before anyone looks at it. A frame longer than the cap is skipped, not grown, and counted, as is one that
//! begins like JSON and is not.

use super::json::{Json, Malformed};

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
        let content_type = content_type.to_ascii_lowercase();
        let framing = match () {
            () if content_type.starts_with(b"text/event-stream") => Framing::Events(Events::default()),
            () if content_type.starts_with(b"application/vnd.amazon.eventstream") => Framing::Aws(Aws::default()),
            () => Framing::Values(Values::default()),
        };
        Self { framing, frame: Frame::new(max_bytes) }
    }

    /// Takes the next chunk and passes on every document that it completes.
    pub fn push(&mut self, chunk: &[u8], each: &mut impl FnMut(Json<'_>)) {
        for &byte in chunk {
            let complete = match &mut self.framing {
                Framing::Events(events) => events.take(byte, &mut self.frame),
                Framing::Values(values) => values.take(byte, &mut self.frame),
                Framing::Aws(aws) => aws.take(byte, &mut self.frame),
            };
            if complete {
                self.frame.deliver(each);
            }
        }
    }

    /// Says that the body has ended. An event needs no blank line after it then; other documents must be whole.
    pub fn finish(&mut self, each: &mut impl FnMut(Json<'_>)) {
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

    fn add(&mut self, byte: u8) {
        if self.bytes.len() < self.max_bytes {
            self.bytes.push(byte);
        } else {
            self.too_long = true;
        }
    }

    fn deliver(&mut self, each: &mut impl FnMut(Json<'_>)) {
        match Json::root(&self.bytes) {
            _ if self.too_long => self.skipped += 1,
            Ok(document) => each(document),
            Err(Malformed) => self.skipped += u32::from(matches!(self.bytes.first(), Some(b'{' | b'['))),
        }
        self.bytes.clear();
        self.too_long = false;
    }
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
    fn take(&mut self, byte: u8, frame: &mut Frame) -> bool {
        const MARK: &[u8] = b"\xEF\xBB\xBF";
        if MARK.get(self.mark) == Some(&byte) {
            self.mark += 1;
            return false;
        }
        self.mark = MARK.len();
        if byte == b'\n' && std::mem::take(&mut self.after_return) {
            return false;
        }
        self.after_return = byte == b'\r';
        if byte == b'\n' || byte == b'\r' {
            return self.line_end();
        }
        const NAME: &[u8] = b"data:";
        match self.line {
            Line::Name(at) if NAME.get(at) == Some(&byte) => {
                self.line = if at + 1 == NAME.len() { Line::Space } else { Line::Name(at + 1) };
                if self.line == Line::Space && std::mem::replace(&mut self.has_data, true) {
                    frame.add(b'\n');
                }
            }
            Line::Name(_) | Line::Other => self.line = Line::Other,
            Line::Space if byte == b' ' => self.line = Line::Data,
            Line::Space | Line::Data => {
                self.line = Line::Data;
                frame.add(byte);
            }
        }
        false
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
    fn take(&mut self, byte: u8, frame: &mut Frame) -> bool {
        if self.depth == 0 && byte != b'{' {
            return false;
        }
        frame.add(byte);
        if self.in_string {
            let ends = byte == b'"' && !self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            self.in_string = !ends;
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth -= 1,
            _ => {}
        }
        self.depth == 0
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

    fn take(&mut self, byte: u8, frame: &mut Frame) -> bool {
        if self.lost {
            return false;
        }
        if let Some(slot) = self.prelude.get_mut(self.at) {
            *slot = byte;
        }
        let at = self.at;
        self.at += 1;
        if self.at < Self::PRELUDE {
            return false;
        }
        let [a, b, c, d, e, f, g, h, ..] = self.prelude;
        let total = u32::from_be_bytes([a, b, c, d]) as usize;
        let payload = (u32::from_be_bytes([e, f, g, h]) as usize).saturating_add(Self::PRELUDE);
        self.lost = payload.saturating_add(Self::TRAILER) > total;
        if at >= payload && at + Self::TRAILER < total {
            frame.add(byte);
        }
        let complete = self.at >= total && !self.lost;
        if complete {
            self.at = 0;
        }
        complete
    }
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
