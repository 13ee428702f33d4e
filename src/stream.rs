//! One request's life.
//!
//! ```text
//! headers   who is the agent? -> policy -> inactive or blocked: refuse; switched off: pass, touch no body
//! body      held until it is whole, then judged: forward, or refuse and never forward
//! answer    never held: read as it streams past, and attached to its call at the end
//! ```
//!
//! Whatever cannot be judged is forwarded and counted. Answers that did not come from the upstream, ours among them, are
//! not read. An answer that is cut off is attached to nothing: half an answer is another answer.

use std::rc::Rc;

use crate::config::{AcceptEncoding, Evidence as Keep, Hold, InactiveReply, OnNoPolicy};
use crate::decode::answer::{AnswerReader, ResponseHead};
use crate::decode::envelope::{self, Envelope};
use crate::decode::format::by_path;
use crate::decode::request::{end_of_request, request};
use crate::detect::verdict::Verdict;
use crate::detect::window::Sequence;
use crate::enforce::{Evidence, Judged, Subject, Trip};
use crate::fingerprint::{Fingerprinter, hash_bytes};
use crate::headers::Headers;
use crate::host::{Host, StreamHost};
use crate::identity::{Identity, identify};
use crate::metrics::{Metric, Outcome};
use crate::number::of_digits;
use crate::policy::{Record, is_agent_id};
use crate::reply::{Cause, Refusal};
use crate::state::{AgentKey, Kept};
use crate::turn::{Answer, Format, Turn, Unreadable};
use crate::wire::{Counting, DeactivatedBy};
use crate::worker::Worker;

/// Bytes of the repeated input that `evidence: excerpt` keeps.
const EXCERPT_BYTES: usize = 400;
/// A body of at most so many bytes is waited for before its request is refused: HTTP/1.1 closes the connection of a
/// request that is answered too early.
const WAITED_FOR: usize = 64 * 1024;
/// Of a body of at least so many bytes, the end is asked for first: copying all of it costs more than reading it.
const LONG: usize = 64 * 1024;
/// So many bytes of it.
const END: usize = 32 * 1024;
/// Where the number of a judged call is noted, so that another pass over the same request does not count it again.
pub const CALL_NOTE: &str = "kill_switch_call";

/// What the host does with the request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Goes on.
    Continue,
    /// Waits for more of the body.
    Hold,
}

/// One request.
pub struct Stream {
    worker: Rc<Worker>,
    phase: Phase,
    path: String,
    agent: Option<String>,
    /// Bytes of the body that are held.
    held: usize,
}

enum Phase {
    /// Nothing to do, or all done.
    Pass,
    /// Waiting for the body, to judge it.
    Judge(Subject),
    /// Waiting for the body, to refuse it in the client's own format.
    Refuse(Cause),
    /// Forwarded; waiting for the answer.
    Await(Awaited),
    /// Reading the answer.
    Read(Awaited, Box<AnswerReader>),
}

/// A forwarded call.
struct Awaited {
    subject: Subject,
    sequence: Sequence,
    format: Format,
}

impl Stream {
    /// A new request.
    pub fn new(worker: Rc<Worker>) -> Self {
        Self { worker, phase: Phase::Pass, path: String::new(), agent: None, held: 0 }
    }

    /// The request's headers.
    pub fn request_headers(&mut self, host: &impl StreamHost, ended: bool) -> Flow {
        let mut headers = host.request_headers();
        let identity = identify(&self.worker.config.agent_id, &mut headers, host);
        let mut headers = RequestHeaders::read(&headers, self.worker.config.session_header.as_deref());
        headers.ended = ended;
        self.path = std::mem::take(&mut headers.path);
        let agent = match identity {
            Identity::Agent(agent) => agent,
            Identity::Missing => return self.without_agent(host, Outcome::NoAgent, Cause::MissingAgent),
            Identity::Bad(id) => {
                self.agent = Some(String::from_utf8_lossy(&id).chars().take(128).collect());
                return self.without_agent(host, Outcome::BadAgentId, Cause::BadAgentId);
            }
        };
        host.note("kill_switch_agent", &agent);
        self.worker.seen.borrow_mut().request(&agent, self.worker.ticked_ms.get());
        let key = AgentKey::new(&agent);
        self.agent = Some(agent);
        let stored = host.get(key.as_str());
        let current = self.worker.round.get().unwrap_or(0);
        let kept = Kept::decode(&stored.bytes).filter(|kept| kept.round >= current);
        let Some(Kept { record, .. }) = kept else { return self.without_policy(host) };
        match refusal(&record, host) {
            Some((cause, outcome)) => self.refuse_when_known(host, cause, outcome, &headers),
            None if !record.enabled => self.pass(host, Outcome::Off),
            None => {
                let slot = headers.session.as_ref().map(|session| self.slot(session));
                self.with_policy(host, Subject { key, record, stored, slot }, &headers)
            }
        }
    }

    fn without_agent(&mut self, host: &impl StreamHost, outcome: Outcome, cause: Cause) -> Flow {
        if self.worker.config.require_agent {
            return self.refuse_by_path(host, cause, Outcome::RefusedAgentId);
        }
        self.pass(host, outcome)
    }

    fn without_policy(&mut self, host: &impl StreamHost) -> Flow {
        let synced = self.worker.round.get().is_some();
        match self.worker.config.on_no_policy {
            _ if synced => self.pass(host, Outcome::UnknownAgent),
            OnNoPolicy::Allow => self.pass(host, Outcome::NoPolicy),
            OnNoPolicy::Deny => self.refuse_by_path(host, Cause::NoPolicy, Outcome::RefusedNoPolicy),
        }
    }

    fn with_policy(&mut self, host: &impl StreamHost, subject: Subject, headers: &RequestHeaders) -> Flow {
        let judged_before = || host.noted(CALL_NOTE).and_then(|note| Sequence::parse(&note));
        if headers.redirected
            && let Some(call) = judged_before()
        {
            host.count(Metric::Requests(Outcome::Redirected), 1);
            let format = by_path(self.path.as_bytes()).unwrap_or(Format::Other);
            self.phase = Phase::Await(Awaited { subject, sequence: call, format });
            return Flow::Continue;
        }
        let too_large = headers.content_length.is_some_and(|length| length > self.worker.config.max_request_bytes);
        match () {
            () if headers.not_http => return self.pass(host, Outcome::NotHttp),
            () if headers.ended => return self.pass(host, Outcome::Empty),
            () if headers.compressed => return self.pass(host, Outcome::Compressed),
            () if too_large => return self.pass(host, Outcome::TooLarge),
            () => {}
        }
        if headers.asks_compression && self.worker.config.accept_encoding == AcceptEncoding::Identity {
            host.set_request_header("accept-encoding", Some(b"identity"));
        }
        self.phase = Phase::Judge(subject);
        self.hold_from_headers()
    }

    /// More of the request's body: `held` bytes so far.
    pub fn request_body(&mut self, host: &impl StreamHost, held: usize, ended: bool) -> Flow {
        let cap = self.worker.config.max_request_bytes;
        self.held = held;
        match &self.phase {
            Phase::Judge(_) if held > cap => self.pass(host, Outcome::TooLarge),
            Phase::Judge(_) | Phase::Refuse(_) if !ended && held <= cap => Flow::Hold,
            Phase::Judge(_) | Phase::Refuse(_) => self.request_end(host),
            _ => Flow::Continue,
        }
    }

    /// The request's trailers: its body is whole.
    pub fn request_trailers(&mut self, host: &impl StreamHost) -> Flow {
        self.request_end(host)
    }

    fn request_end(&mut self, host: &impl StreamHost) -> Flow {
        match std::mem::replace(&mut self.phase, Phase::Pass) {
            Phase::Judge(subject) => self.judge(host, subject),
            Phase::Refuse(cause) if self.path_tells(&self.path) => {
                self.refuse(host, cause, &envelope::from_path(&self.path))
            }
            Phase::Refuse(cause) => {
                let envelope = envelope::read(&self.path, &self.whole_body(host));
                self.refuse(host, cause, &envelope)
            }
            other => {
                self.phase = other;
                Flow::Continue
            }
        }
    }

    fn judge(&mut self, host: &impl StreamHost, mut subject: Subject) -> Flow {
        let started_ns = host.now_ns();
        let now_ms = started_ns / 1_000_000;
        let mut text = self.worker.take_text();
        let turn = self.turn(host, subject.record.counting, &mut text);
        self.worker.give_back(text);
        let turn = match turn {
            Ok(turn) => turn,
            Err(Unreadable::Malformed) => return self.pass(host, Outcome::Malformed),
            Err(Unreadable::Empty | Unreadable::NotACall) => return self.pass(host, Outcome::Empty),
        };
        let Some(judged) = subject.observe(host, &turn, now_ms) else {
            return self.pass(host, Outcome::Contended);
        };
        self.worker.seen.borrow_mut().score(subject.key.agent(), &judged.score, now_ms);
        host.note("kill_switch_score", &judged.score.text());
        let flow = match judged.verdict {
            Verdict::Allow => self.forward(host, subject, &judged, turn.format),
            Verdict::Observe | Verdict::Block | Verdict::Kill => self.enforce(host, subject, &judged, &turn, now_ms),
        };
        host.record(Metric::FilterMicroseconds, host.now_ns().saturating_sub(started_ns) / 1000);
        flow
    }

    /// What the request brings, read off the end of its body if that is enough.
    fn turn(&self, host: &impl StreamHost, counting: Counting, text: &mut Fingerprinter) -> Result<Turn, Unreadable> {
        let path = self.path.as_bytes();
        if self.held >= LONG
            && let Some(turn) = end_of_request(path, &host.request_body(self.held - END, END), counting, text)
        {
            return Ok(turn);
        }
        request(path, &self.whole_body(host), counting, text)
    }

    fn whole_body(&self, host: &impl StreamHost) -> Vec<u8> {
        host.request_body(0, self.worker.config.max_request_bytes)
    }

    #[cold] // and so kept out of the code that every request runs through
    fn enforce(&mut self, host: &impl StreamHost, subject: Subject, judged: &Judged, turn: &Turn, now_ms: u64) -> Flow {
        let trip = subject.trip(host, judged.verdict, now_ms);
        if trip == Trip::First {
            let evidence = Evidence { at_ms: now_ms, excerpt: self.excerpt(host, &subject.record) };
            subject.report(host, &self.worker, judged, turn, evidence);
        }
        let cause = match judged.verdict {
            Verdict::Kill => Cause::Inactive { by: Some(DeactivatedBy::KillSwitch) },
            Verdict::Block => Cause::Blocked { retry_after_seconds: subject.record.retry_after_seconds },
            Verdict::Allow | Verdict::Observe => return self.forward(host, subject, judged, turn.format),
        };
        if trip == Trip::Void {
            return self.forward(host, subject, judged, turn.format);
        }
        host.count(Metric::Requests(Outcome::Tripped), 1);
        self.refuse(host, cause, &envelope::read(&self.path, &self.whole_body(host)))
    }

    fn forward(&mut self, host: &impl StreamHost, subject: Subject, judged: &Judged, format: Format) -> Flow {
        host.count(Metric::Requests(Outcome::Allowed), 1);
        host.note("kill_switch_verdict", if judged.verdict == Verdict::Observe { "would_kill" } else { "allow" });
        host.note(CALL_NOTE, &judged.sequence.0.to_string());
        self.phase = Phase::Await(Awaited { subject, sequence: judged.sequence, format });
        Flow::Continue
    }

    /// The beginning of the repeated input, where the operator asked for it.
    fn excerpt(&self, host: &impl StreamHost, record: &Record) -> Option<String> {
        if self.worker.config.evidence == Keep::None {
            return None;
        }
        let mut text = self.worker.take_text();
        text.keep_excerpt(EXCERPT_BYTES);
        let read = request(self.path.as_bytes(), &self.whole_body(host), record.counting, &mut text);
        let excerpt = text.take_excerpt();
        self.worker.give_back(text);
        read.is_ok().then_some(excerpt)
    }

    /// The response's headers.
    pub fn response_headers(&mut self, host: &impl StreamHost, ended: bool) {
        let Phase::Await(awaited) = std::mem::replace(&mut self.phase, Phase::Pass) else { return };
        let all = host.response_headers();
        let headers = ResponseHeaders::read(&all);
        if !headers.is_from_upstream(host) {
            return;
        }
        if !(200..300).contains(&headers.status) {
            return awaited.subject.answer(host, awaited.sequence, Answer::Failed);
        }
        if headers.compressed {
            return host.count(Metric::AnswersUnread, 1);
        }
        let head = ResponseHead { status: headers.status, content_type: headers.content_type };
        let reader = AnswerReader::with_fingerprinter(
            self.worker.take_text(),
            awaited.format,
            head,
            self.worker.config.max_event_bytes,
        );
        self.phase = Phase::Read(awaited, Box::new(reader));
        if ended {
            self.response_end(host);
        }
    }

    /// Bytes of the response that pass.
    pub fn response_body(&mut self, host: &impl StreamHost, size: usize, ended: bool) {
        if let Phase::Read(_, reader) = &mut self.phase {
            if size > 0 {
                reader.push(&host.response_body(size));
            }
            if ended {
                self.response_end(host);
            }
        }
    }

    /// The response is whole: its body has ended, or its trailers have come.
    pub fn response_end(&mut self, host: &impl StreamHost) {
        let phase = std::mem::replace(&mut self.phase, Phase::Pass);
        if let Phase::Read(awaited, reader) = phase {
            let (answer, text) = reader.finish_into_parts();
            self.worker.give_back(text);
            if answer == Answer::Unknown {
                host.count(Metric::AnswersUnread, 1);
            }
            awaited.subject.answer(host, awaited.sequence, answer);
        }
    }

    fn pass(&mut self, host: &impl Host, outcome: Outcome) -> Flow {
        host.count(Metric::Requests(outcome), 1);
        self.phase = Phase::Pass;
        Flow::Continue
    }

    fn hold_from_headers(&self) -> Flow {
        match self.worker.config.hold {
            Hold::Headers => Flow::Hold,
            Hold::Body => Flow::Continue,
        }
    }

    /// Whether the path alone tells how to word a refusal.
    fn path_tells(&self, path: &str) -> bool {
        self.worker.config.inactive_reply == InactiveReply::Error && by_path(path.as_bytes()).is_some()
    }

    /// Refuses at once where the path tells the client's format and the body is long, else once the body is there.
    fn refuse_when_known(
        &mut self,
        host: &impl StreamHost,
        cause: Cause,
        outcome: Outcome,
        headers: &RequestHeaders,
    ) -> Flow {
        let waited_for = headers.content_length.is_some_and(|length| length <= WAITED_FOR);
        // The body of an upgrade or of a gRPC stream may never end.
        let at_once = headers.ended || headers.not_http || (self.path_tells(&self.path) && !waited_for);
        if at_once || self.worker.config.hold == Hold::Body {
            return self.refuse_by_path(host, cause, outcome);
        }
        host.count(Metric::Requests(outcome), 1);
        self.phase = Phase::Refuse(cause);
        Flow::Hold
    }

    fn refuse_by_path(&mut self, host: &impl StreamHost, cause: Cause, outcome: Outcome) -> Flow {
        host.count(Metric::Requests(outcome), 1);
        self.refuse(host, cause, &envelope::from_path(&self.path))
    }

    #[cold]
    fn refuse(&mut self, host: &impl StreamHost, cause: Cause, envelope: &Envelope) -> Flow {
        self.phase = Phase::Pass;
        // What is no id is nobody's: telling the sidecar would only take the place of an agent.
        if let Some(agent) = self.agent.as_ref().filter(|agent| is_agent_id(agent.as_bytes())) {
            self.worker.seen.borrow_mut().refused(agent);
        }
        let reply = Refusal {
            format: envelope.format,
            delivery: envelope.delivery,
            json_rpc_id: envelope.json_rpc_id.as_deref(),
            model: envelope.model.as_deref(),
            agent_id: self.agent.as_deref(),
            cause,
            style: self.worker.config.inactive_reply,
            dashboard_url: self.worker.config.dashboard_url.as_deref(),
            at_ms: host.now_ms(),
        }
        .reply();
        host.note("kill_switch_verdict", reply.details);
        host.reply(&reply);
        Flow::Hold
    }

    fn slot(&self, session: &[u8]) -> u32 {
        (hash_bytes(session) % u64::from(self.worker.config.session_slots.max(1))) as u32
    }
}

/// Why a policy refuses everything, if it does.
fn refusal(record: &Record, host: &impl Host) -> Option<(Cause, Outcome)> {
    if !record.active {
        return Some((Cause::Inactive { by: record.deactivated_by }, Outcome::RefusedInactive));
    }
    if record.blocked_until_ms == 0 {
        return None;
    }
    match record.blocked_for_seconds(host.now_ms()) {
        0 => None,
        seconds => Some((Cause::Blocked { retry_after_seconds: seconds }, Outcome::RefusedBlocked)),
    }
}

/// What the headers of a request say.
#[derive(Default)]
struct RequestHeaders {
    path: String,
    content_length: Option<usize>,
    compressed: bool,
    asks_compression: bool,
    not_http: bool,
    /// Envoy has followed a redirect, so that another pass may have been judged. A client may say so, too, and gains
    /// nothing by it.
    redirected: bool,
    session: Option<Vec<u8>>,
    /// No body comes after them.
    ended: bool,
}

impl RequestHeaders {
    fn read(all: &Headers, session_header: Option<&str>) -> Self {
        let mut headers = Self::default();
        for (name, value) in all.iter() {
            match name {
                b":path" => headers.path = String::from_utf8_lossy(value).into_owned(),
                b":method" => headers.not_http |= value == b"CONNECT",
                b"upgrade" => headers.not_http = true,
                b"content-type" => headers.not_http |= value.starts_with(b"application/grpc"),
                b"content-length" => headers.content_length = number(value),
                b"content-encoding" => headers.compressed = is_encoding(value),
                b"accept-encoding" => headers.asks_compression = value != b"identity",
                b"x-envoy-original-url" => headers.redirected = true,
                _ => {}
            }
            if session_header.is_some_and(|session| session.as_bytes() == name) {
                headers.session = Some(value.to_vec());
            }
        }
        headers
    }
}

/// What the headers of a response say.
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
                b":status" => headers.status = number(value).unwrap_or(0) as u16,
                b"content-type" => headers.content_type = value,
                b"content-encoding" => headers.compressed = is_encoding(value),
                b"x-envoy-upstream-service-time" => headers.timed_by_router = true,
                _ => {}
            }
        }
        headers
    }

    /// Whether the upstream answered, rather than Envoy in its name. The router's own header says so, unless it is
    /// configured away; the property always knows, and costs more.
    fn is_from_upstream(&self, host: &impl StreamHost) -> bool {
        let asked = || host.property(&["response", "code_details"]);
        self.timed_by_router || asked().as_deref() == Some(b"via_upstream")
    }
}

fn is_encoding(value: &[u8]) -> bool {
    !value.is_empty() && value != b"identity"
}

fn number(text: &[u8]) -> Option<usize> {
    of_digits(text.trim_ascii())?.try_into().ok()
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
