//! The answer: read as it streams past, and attached to its call when it has ended.

use super::{Phase, Stream};
use crate::decode::answer::{AnswerReader, ResponseHead};
use crate::headers::{Headers, is_compressed, parse_number};
use crate::host::StreamHost;
use crate::metrics::Metric;
use crate::turn::Answer;

impl Stream {
    /// Handles the response's headers.
    pub fn response_headers(&mut self, host: &impl StreamHost, ended: bool) {
        let Phase::AwaitAnswer(forwarded) = self.take_phase() else { return };
        let all = host.response_headers();
        let headers = ResponseHeaders::read(&all);
        if !headers.is_from_upstream(host) {
            return;
        }
        if !(200..300).contains(&headers.status) {
            return forwarded.agent.attach_answer(host, forwarded.sequence, Answer::Failed);
        }
        if headers.compressed {
            return host.count(Metric::AnswersUnread, 1);
        }
        let head = ResponseHead { status: headers.status, content_type: headers.content_type };
        let text = self.worker.take_fingerprinter();
        let reader = AnswerReader::with_fingerprinter(text, forwarded.format, head, self.worker.config.max_event_bytes);
        self.phase = Phase::ReadAnswer(forwarded, Box::new(reader));
        if ended {
            self.response_end(host);
        }
    }

    /// Handles bytes of the response that pass.
    pub fn response_body(&mut self, host: &impl StreamHost, size: usize, ended: bool) {
        if let Phase::ReadAnswer(_, reader) = &mut self.phase {
            if size > 0 {
                reader.push(&host.response_body(size));
            }
            if ended {
                self.response_end(host);
            }
        }
    }

    /// Handles the end of the response: its body has ended, or its trailers have come.
    pub fn response_end(&mut self, host: &impl StreamHost) {
        if let Phase::ReadAnswer(forwarded, reader) = self.take_phase() {
            let (answer, text) = reader.finish_into_parts();
            self.worker.return_fingerprinter(text);
            if answer == Answer::Unknown {
                host.count(Metric::AnswersUnread, 1);
            }
            forwarded.agent.attach_answer(host, forwarded.sequence, answer);
        }
    }
}

/// What the headers of a response tell.
#[derive(Default)]
struct ResponseHeaders<'a> {
    status: u16,
    content_type: &'a [u8],
    compressed: bool,
    timed_by_router: bool,
}

impl<'a> ResponseHeaders<'a> {
    fn read(all: &'a Headers) -> Self {
        let mut headers = Self::default();
        for (name, value) in all.iter() {
            match name {
                b":status" => headers.status = parse_number(value).unwrap_or(0) as u16,
                b"content-type" => headers.content_type = value,
                b"content-encoding" => headers.compressed = is_compressed(value),
                b"x-envoy-upstream-service-time" => headers.timed_by_router = true,
                _ => {}
            }
        }
        headers
    }

    /// Whether the upstream answered, rather than Envoy itself. The router's own header tells, unless it is configured
    /// away. The property always tells, but costs a host call.
    fn is_from_upstream(&self, host: &impl StreamHost) -> bool {
        let details = || host.property(&["response", "code_details"]);
        self.timed_by_router || details().as_deref() == Some(b"via_upstream")
    }
}
