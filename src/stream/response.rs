//! The answer: read as it streams past, and attached to its call as soon as the model has finished.
//!
//! Many clients stop to read there and ask again, though the stream goes on. The rest are tokens and the last event.

use super::{Attached, Flow, Forwarded, Phase, Stream};
use crate::decode::answer::{AnswerReader, AnswerState, ResponseHead, Stated};
use crate::decode::format::by_path;
use crate::headers::{Headers, is_compressed, parse_number};
use crate::host::StreamHost;
use crate::metrics::Metric;
use crate::turn::{Answer, Format};
use crate::wire::{AnswerLoop, Usage};
use crate::worker::Worker;

impl Stream {
    /// Handles the response's headers.
    pub fn response_headers(&mut self, host: &impl StreamHost, ended: bool) {
        // With `hold: body`, an upstream may answer before the request is judged or refused, which goes on.
        if !matches!(self.phase, Phase::AwaitAnswer(_)) {
            return;
        }
        let Phase::AwaitAnswer(forwarded) = self.take_phase() else { return };
        let all = host.response_headers();
        let headers = ResponseHeaders::read(&all);
        if let Some(answer) = Answer::of_failed_status(headers.status) {
            return forwarded.attach(host, &self.worker, answer, Stated::default());
        }
        if !headers.is_from_upstream(host) {
            return forwarded.attach(host, &self.worker, Answer::Unknown, Stated::default());
        }
        if headers.compressed {
            host.count(Metric::AnswersUnread, 1);
            return forwarded.attach(host, &self.worker, Answer::Unknown, Stated::default());
        }
        let head = ResponseHead { status: headers.status, content_type: headers.content_type };
        let text = self.worker.take_fingerprinter();
        let max_event_bytes = self.worker.config.max_event_bytes;
        let mut reader = AnswerReader::with_fingerprinter(text, forwarded.format, head, max_event_bytes);
        if is_of_model(forwarded.format) && forwarded.agent.record.answer_loop != AnswerLoop::Off {
            reader.find_repetition();
        }
        self.phase = Phase::ReadAnswer(forwarded, Box::new(reader));
        if ended {
            self.response_body(host, 0, true);
        }
    }

    /// Handles bytes of the response that pass. Returns `Flow::Hold` if the response was cut, and they must not pass.
    pub fn response_body(&mut self, host: &impl StreamHost, size: usize, ended: bool) -> Flow {
        let Phase::ReadAnswer(forwarded, reader) = &mut self.phase else { return Flow::Continue };
        if size > 0 {
            reader.push(&host.response_body(size));
        }
        // Clients close the stream when the last event of their API has come, and need not wait for its end.
        let is_complete = ended || (reader.state() == AnswerState::Ended && !forwarded.is_batch);
        if is_complete {
            reader.end_text();
        } else if forwarded.attached.is_none() && !forwarded.is_batch && reader.has_finished() {
            let (answer, usage) = reader.answer_so_far();
            forwarded.attach_to_call(host, answer, usage);
        }
        if let Some(repetition) = reader.take_repetition()
            && self.act_on_repetition(host, repetition) == Flow::Hold
        {
            return Flow::Hold;
        }
        if is_complete {
            self.response_end(host);
        }
        Flow::Continue
    }

    /// Handles the response's trailers, which means that its body is complete.
    pub fn response_trailers(&mut self, host: &impl StreamHost) -> Flow {
        self.response_body(host, 0, true)
    }

    /// Handles the end of the response: its last event has passed, its body has ended, or its trailers have come.
    fn response_end(&mut self, host: &impl StreamHost) {
        if let Phase::ReadAnswer(forwarded, reader) = self.take_phase() {
            // The upstream went away, and a proxy in between ended the body as if it were complete.
            let lacks_end = reader.lacks_end();
            // A request that only looks like a call, for example to store messages, is answered in another way.
            let is_no_call = reader.is_of_another_api() && by_path(self.path.as_bytes()).is_none();
            let (answer, stated) = self.finish(*reader);
            let answer =
                if lacks_end || (is_no_call && is_of_model(forwarded.format)) { Answer::Failed } else { answer };
            if forwarded.attached.map_or(answer, |early| early.answer) == Answer::Unknown {
                host.count(Metric::AnswersUnread, 1);
            }
            forwarded.attach(host, &self.worker, answer, stated);
        }
    }

    /// Handles the end of the stream, whatever came of it.
    pub fn closed(&mut self, host: &impl StreamHost) {
        match self.take_phase() {
            Phase::ReadAnswer(forwarded, reader) => {
                host.count(Metric::AnswersCut, 1);
                let is_finished = reader.state() >= AnswerState::Finished;
                let if_closed_by_client = reader.if_closed_by_client();
                let (answer, stated) = self.finish(*reader);
                let answer = match answer {
                    answer if is_finished || answer == Answer::Failed => answer,
                    _ if if_closed_by_client == Answer::Failed || !is_closed_by_client(host) => Answer::Failed,
                    _ => if_closed_by_client,
                };
                forwarded.attach(host, &self.worker, answer, stated);
            }
            // Another pass over the request awaits the answer.
            Phase::AwaitAnswer(_) if details(host) == INTERNAL_REDIRECT => {}
            Phase::AwaitAnswer(forwarded) => {
                host.count(Metric::AnswersCut, 1);
                forwarded.attach(host, &self.worker, Answer::Failed, Stated::default());
            }
            Phase::Pass | Phase::Score(_) | Phase::Refuse(_) => {}
        }
    }

    fn finish(&self, reader: AnswerReader) -> (Answer, Stated) {
        let (answer, stated, text) = reader.finish_into_parts();
        self.worker.return_fingerprinter(text);
        (answer, stated)
    }
}

impl Forwarded {
    /// Attaches the answer and tells the sidecar.
    #[inline(never)] // so that it is compiled once
    fn attach(mut self, host: &impl StreamHost, worker: &Worker, answer: Answer, stated: Stated) {
        let Attached { answer, usage, at_ms } = self.attach_to_call(host, answer, stated.usage);
        // The sidecar is told only once, so that it is told of all tokens.
        let agent = (self.agent.id(), self.agent.record.generation);
        worker.entries.borrow_mut().add_answer(agent, self.told, answer, usage, at_ms);
        if let Some(usage) = stated.report() {
            worker.observations.borrow_mut().add_usage(self.agent.id(), usage);
        }
    }

    /// Attaches the answer to its call. If that was done before, the answer stays as it is, and the tokens that were stated
    /// since are added.
    #[inline(never)] // likewise
    fn attach_to_call(&mut self, host: &impl StreamHost, answer: Answer, usage: Usage) -> Attached {
        let is_new = self.attached.is_none();
        let now = || Attached { answer, usage: Usage::default(), at_ms: host.steady_ms() };
        let attached = self.attached.get_or_insert_with(now);
        let Attached { answer, usage: known, at_ms } = *attached;
        if is_new {
            self.agent.attach_answer(host, self.sequence, answer, usage, at_ms);
        } else if usage != known {
            self.agent.add_usage(host, self.sequence, usage.since(known));
        }
        attached.usage = usage;
        *attached
    }
}

/// Whether answers of this format are written by this agent's model, and not by a tool or another agent.
fn is_of_model(format: Format) -> bool {
    !matches!(format, Format::Mcp | Format::A2a | Format::Other)
}

/// What Envoy says about a stream that it has sent to another upstream, because the first one redirected it.
const INTERNAL_REDIRECT: &[u8] = b"internal_redirect";

/// Returns what Envoy says about how a response came about.
fn details(host: &impl StreamHost) -> Vec<u8> {
    host.property(&["response", "code_details"]).unwrap_or_default()
}

/// Whether the client, and not the upstream or Envoy, ended a stream before its time.
fn is_closed_by_client(host: &impl StreamHost) -> bool {
    let details = details(host);
    // HTTP/1.1 connections are closed, HTTP/2 and HTTP/3 streams are reset.
    [b"downstream_".as_slice(), b"http2.", b"http3."].iter().any(|beginning| details.starts_with(beginning))
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
                b"content-encoding" => headers.compressed |= is_compressed(value),
                b"x-envoy-upstream-service-time" => headers.timed_by_router = true,
                _ => {}
            }
        }
        headers
    }

    /// Whether the upstream answered, rather than Envoy itself. The router's own header tells, unless it is configured
    /// away. The property always tells, but costs a host call.
    fn is_from_upstream(&self, host: &impl StreamHost) -> bool {
        self.timed_by_router || details(host) == b"via_upstream"
    }
}
