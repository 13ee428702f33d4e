//! The request: from its headers to the verdict on its body.

use super::{AGENT_PROPERTY, CALL_PROPERTY, Flow, Forwarded, Phase, SCORE_PROPERTY, Stream, VERDICT_PROPERTY};
use crate::agent::record::session_key;
use crate::agent::{Agent, NotScored, Scored, Standing, Trip, call_of};
use crate::config::{AcceptEncoding, Evidence, Hold, OnNoPolicy, OnUnjudged};
use crate::decode::envelope;
use crate::decode::format::{by_path, is_not_a_call, is_stored_by_provider};
use crate::decode::request::{Reading, end_of_request, request};
use crate::detect::tools::Treatment;
use crate::detect::verdict::Verdict;
use crate::fingerprint::Fingerprinter;
use crate::headers::{Headers, is_compressed, parse_number};
use crate::host::StreamHost;
use crate::identity::{Identity, identify};
use crate::link::report;
use crate::metrics::{Metric, Outcome};
use crate::pause;
use crate::reply::Cause;
use crate::session;
use crate::shared::SlotLimits;
use crate::turn::{Conversation, Format, Turn, Unreadable};
use crate::wire::{Action, AnswerLoop, Counting, DeactivatedBy, Scope};

/// How many bytes of the repeated input `evidence: excerpt` keeps.
const EXCERPT_BYTES: usize = 400;
/// The smallest body of which the tail is fetched first. Copying a longer one costs more than reading it.
const LONG_BODY_BYTES: usize = 64 * 1024;
/// How many bytes of the tail are fetched first.
pub(super) const TAIL_BYTES: usize = 32 * 1024;

impl Stream {
    /// Handles the request's headers.
    pub fn request_headers(&mut self, host: &impl StreamHost, ended: bool) -> Flow {
        let mut all = host.request_headers();
        let identity = identify(&self.worker.config.agent_id, &mut all, host);
        let mut headers = RequestHeaders::read(&all);
        headers.ended = ended;
        self.path = std::mem::take(&mut headers.path);
        let agent_id = match identity {
            Identity::Agent(agent_id) => agent_id,
            Identity::Missing => return self.without_agent(host, Outcome::NoAgent, Cause::MissingAgent),
            Identity::Bad(id) => {
                self.agent_id = Some(String::from_utf8_lossy(&id).chars().take(128).collect());
                return self.without_agent(host, Outcome::BadAgentId, Cause::BadAgentId);
            }
        };
        host.set_property(AGENT_PROPERTY, &agent_id);
        self.worker.observations.borrow_mut().count_request(&agent_id, self.worker.ticked_ms.get());
        let agent = Agent::read(host, &agent_id, self.worker.round.get().unwrap_or(0));
        self.agent_id = Some(agent_id);
        let Some(agent) = agent else { return self.without_policy(host) };
        self.session = session::find(&self.worker.config.session, &all, host);
        match agent.standing(host, self.certain_conversation()) {
            Standing::Guarded => self.hold_or_pass(host, agent, &headers),
            Standing::Off => self.pass(host, Outcome::Off),
            // The end of an MCP session asks for nothing, and the server can forget it.
            _ if headers.ends_mcp_session() && !is_stored_by_provider(&self.path) => self.pass(host, Outcome::Empty),
            standing => {
                let (cause, outcome) = self.refusal(standing, self.session_name(None));
                self.refuse_when_known(host, cause, outcome, &headers)
            }
        }
    }

    /// Returns the conversation that the headers name, unless the body may name another one that comes first.
    fn certain_conversation(&self) -> Option<u64> {
        let session = self.session.as_ref()?;
        let is_certain = self.worker.config.session.of_body_before(session.place).is_empty();
        session.conversation.key().filter(|_| is_certain)
    }

    /// Returns why a request is refused, and what is counted.
    fn refusal(&self, standing: Standing, session: String) -> (Cause, Outcome) {
        match standing {
            Standing::Blocked { retry_after_seconds, reason } => {
                (Cause::Blocked { retry_after_seconds, reason }, Outcome::RefusedBlocked)
            }
            Standing::SessionStopped { retry_after_seconds, action, reason } => {
                (Cause::SessionStopped { session, reason, retry_after_seconds, action }, Outcome::RefusedSession)
            }
            Standing::Inactive { by, reason } => (Cause::Inactive { by, reason }, Outcome::RefusedInactive),
            Standing::Off | Standing::Guarded => {
                (Cause::Inactive { by: None, reason: String::new() }, Outcome::RefusedInactive)
            }
        }
    }

    /// Returns the conversation of a turn, or the one that the headers name, as people are told of it: its id, or else the
    /// key by which it is known.
    fn session_name(&self, turn: Option<&Turn>) -> String {
        let of_headers = self.session.as_ref().map(|session| &session.conversation);
        match turn.map(|turn| &turn.conversation).or(of_headers) {
            Some(Conversation::Identified { id, .. }) => id.clone(),
            Some(Conversation::Continued { key }) => session_key(*key),
            Some(Conversation::New { .. }) | None => String::new(),
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

    /// Holds the request until its body is complete, unless the headers already tell that it cannot be scored.
    fn hold_or_pass(&mut self, host: &impl StreamHost, agent: Agent, headers: &RequestHeaders) -> Flow {
        let scored_before = || host.property(&[CALL_PROPERTY]).and_then(|place| agent.find_scored(&place));
        if headers.redirected
            && let Some((agent, sequence, told)) = scored_before()
        {
            host.count(Metric::Requests(Outcome::Redirected), 1);
            let format = by_path(self.path.as_bytes()).unwrap_or(Format::Other);
            let forwarded =
                Forwarded { agent, sequence, told, format, is_batch: false, conversation: None, attached: None };
            self.phase = Phase::AwaitAnswer(forwarded);
            return Flow::Continue;
        }
        if let Some(outcome) = self.known_outcome(headers) {
            // An upgrade or gRPC where a call is expected is probably a call in disguise, and anything else none at all.
            let is_disguised = headers.is_post && !headers.ended && self.is_path_of_call();
            return match self.refusal_of_unjudged(agent.record.action, outcome) {
                Some(cause) if outcome != Outcome::NotHttp || is_disguised => {
                    self.refuse_when_known(host, cause, Outcome::RefusedUnjudged, headers)
                }
                _ => self.pass(host, outcome),
            };
        }
        if headers.accepts_compression && self.worker.config.accept_encoding == AcceptEncoding::Identity {
            host.set_request_header("accept-encoding", Some(b"identity"));
        }
        self.phase = Phase::Score(agent);
        match self.worker.config.hold {
            Hold::Headers => Flow::Hold,
            Hold::Body => Flow::Continue,
        }
    }

    /// Whether a call may be sent to the path of the request.
    #[cold]
    fn is_path_of_call(&self) -> bool {
        self.worker.config.judge_unknown || by_path(self.path.as_bytes()).is_some()
    }

    /// Returns the outcome of a request if its headers already tell that it cannot be scored.
    fn known_outcome(&self, headers: &RequestHeaders) -> Option<Outcome> {
        let too_large = |length| length > self.worker.config.max_request_bytes;
        Some(match headers {
            headers if headers.not_http => Outcome::NotHttp,
            headers if headers.ended => Outcome::Empty,
            _ if is_not_a_call(self.path.as_bytes()) => Outcome::NotACall,
            headers if headers.compressed => Outcome::Compressed,
            headers if headers.content_length.is_some_and(too_large) => Outcome::TooLarge,
            _ => return None,
        })
    }

    /// Handles a request whose body has shown that it cannot be judged.
    #[cold]
    fn unjudged(&mut self, host: &impl StreamHost, action: Action, outcome: Outcome) -> Flow {
        match self.refusal_of_unjudged(action, outcome) {
            Some(cause) => self.refuse_by_path(host, cause, Outcome::RefusedUnjudged),
            None => self.pass(host, outcome),
        }
    }

    /// Returns why a request that may be a call and cannot be judged is refused, or `None` if it is forwarded. An agent
    /// whose loops are only observed is never refused.
    #[inline(never)]
    fn refusal_of_unjudged(&self, action: Action, outcome: Outcome) -> Option<Cause> {
        if self.worker.config.on_unjudged == OnUnjudged::Allow || action == Action::Observe {
            return None;
        }
        let because = match outcome {
            Outcome::NotHttp => "its headers say that it is gRPC or an upgrade",
            Outcome::Compressed => "its body has a content-encoding, and only plain bodies can be read",
            Outcome::TooLarge => "its body is longer than the kill switch reads",
            Outcome::Malformed => "its body is not valid JSON",
            _ => return None,
        };
        Some(Cause::Unjudged { because })
    }

    /// Handles more of the request's body. `held_bytes` are held so far.
    pub fn request_body(&mut self, host: &impl StreamHost, held_bytes: usize, ended: bool) -> Flow {
        let max_bytes = self.worker.config.max_request_bytes;
        self.held_bytes = held_bytes;
        match &self.phase {
            Phase::Score(agent) if held_bytes > max_bytes => {
                let action = agent.record.action;
                self.unjudged(host, action, Outcome::TooLarge)
            }
            Phase::Score(_) | Phase::Refuse(_) if !ended && held_bytes <= max_bytes => Flow::Hold,
            Phase::Score(_) | Phase::Refuse(_) => self.request_end(host),
            _ => Flow::Continue,
        }
    }

    /// Handles the request's trailers, which means that its body is complete.
    pub fn request_trailers(&mut self, host: &impl StreamHost) -> Flow {
        self.request_end(host)
    }

    fn request_end(&mut self, host: &impl StreamHost) -> Flow {
        match self.take_phase() {
            Phase::Score(agent) => self.score(host, agent),
            Phase::Refuse(cause) => self.refuse_complete(host, cause),
            other => {
                self.phase = other;
                Flow::Continue
            }
        }
    }

    fn score(&mut self, host: &impl StreamHost, mut agent: Agent) -> Flow {
        // The steady time, because a clock that is set must not make calls seem older or younger.
        let started_ns = host.steady_ns();
        let now_ms = started_ns / 1_000_000;
        let mut text = self.worker.take_fingerprinter();
        let turn = self.read_turn(host, agent.record.counting, &mut text);
        self.worker.return_fingerprinter(text);
        let turn = match turn {
            Ok(turn) => turn,
            Err(Unreadable::Malformed) => return self.unjudged(host, agent.record.action, Outcome::Malformed),
            Err(Unreadable::Empty) => return self.pass(host, Outcome::Empty),
            Err(Unreadable::NotACall) => return self.pass(host, Outcome::NotACall),
        };
        let config = &self.worker.config;
        let limits = SlotLimits { slots: config.session_slots, max_bytes: config.max_session_bytes };
        let (kind, mut call) = call_of(&turn, now_ms);
        let flow = match agent.score(host, &turn, call, limits) {
            Ok(mut scored) => {
                let known = (agent.id(), agent.record.generation);
                // The sidecar does not know which tools a call is about, so it is told how they are counted.
                call.treatment = scored.treatment;
                scored.told = self.worker.entries.borrow_mut().add_call(known, kind, call, &scored.score);
                if scored.treatment != Treatment::Ignored {
                    let at_ms = started_ns.wrapping_add(self.worker.clock_ahead_ns.get()) / 1_000_000;
                    let numbered = (&scored.score, scored.sequence);
                    self.worker.observations.borrow_mut().add_score(agent.id(), numbered, at_ms);
                    host.set_property(SCORE_PROPERTY, &scored.score.to_string());
                }
                match scored.verdict {
                    Verdict::Allow if scored.treatment == Treatment::Ignored => {
                        self.forward(host, Outcome::Ignored, agent, &scored, &turn)
                    }
                    Verdict::Allow => self.forward(host, Outcome::Allowed, agent, &scored, &turn),
                    _ => self.trip(host, agent, &mut scored, &turn),
                }
            }
            Err(reason) => self.not_scored(host, reason, &turn),
        };
        host.record(Metric::FilterMicroseconds, host.steady_ns().saturating_sub(started_ns) / 1000);
        flow
    }

    /// Handles a request whose agent's policy has changed while the request was held.
    #[cold]
    fn not_scored(&mut self, host: &impl StreamHost, reason: NotScored, turn: &Turn) -> Flow {
        let standing = match reason {
            NotScored::Contended => return self.pass(host, Outcome::Contended),
            NotScored::Deleted => return self.pass(host, Outcome::UnknownAgent),
            NotScored::Standing(Standing::Off | Standing::Guarded) => return self.pass(host, Outcome::Off),
            NotScored::Standing(standing) => standing,
        };
        let (cause, outcome) = self.refusal(standing, self.session_name(Some(turn)));
        host.count(Metric::Requests(outcome), 1);
        self.refuse_complete(host, cause)
    }

    /// Reads what the request brings, from the tail of its body if that is enough.
    fn read_turn(
        &self,
        host: &impl StreamHost,
        counting: Counting,
        text: &mut Fingerprinter,
    ) -> Result<Turn, Unreadable> {
        let path = self.path.as_bytes();
        let reading = self.reading(counting);
        let from_tail = || {
            let tail = host.request_body(self.held_bytes - TAIL_BYTES, TAIL_BYTES);
            let start = |bytes| host.request_body(0, bytes);
            end_of_request(path, &tail, start, reading, text)
        };
        let turn = (self.held_bytes >= LONG_BODY_BYTES).then(from_tail).flatten();
        let turn = turn.map_or_else(|| request(path, &self.whole_body(host), reading, text), Ok)?;
        Ok(match (&turn.conversation, &self.session) {
            // An id in the body counts only if it comes first in the list of sources, and only those were looked for.
            (Conversation::Identified { .. }, _) | (_, None) => turn,
            (_, Some(session)) => Turn { conversation: session.conversation.clone(), ..turn },
        })
    }

    fn reading(&self, counting: Counting) -> Reading<'_> {
        let place = self.session.as_ref().map_or(usize::MAX, |session| session.place);
        let config = &self.worker.config;
        let session = config.session.of_body_before(place);
        Reading {
            counting,
            judge_unknown: config.judge_unknown,
            session,
            find_opening: self.session.is_none(),
            ..Reading::default()
        }
    }

    pub(super) fn whole_body(&self, host: &impl StreamHost) -> Vec<u8> {
        host.request_body(0, self.worker.config.max_request_bytes)
    }

    fn forward(
        &mut self,
        host: &impl StreamHost,
        outcome: Outcome,
        agent: Agent,
        scored: &Scored,
        turn: &Turn,
    ) -> Flow {
        host.count(Metric::Requests(outcome), 1);
        let verdict = if scored.verdict == Verdict::WouldKill { "would_kill" } else { "allow" };
        host.set_property(VERDICT_PROPERTY, verdict);
        host.set_property(CALL_PROPERTY, &agent.place_of(scored));
        let is_cut = agent.record.answer_loop == AnswerLoop::Cut;
        self.phase = Phase::AwaitAnswer(Forwarded {
            conversation: is_cut.then(|| turn.conversation.clone()),
            agent,
            sequence: scored.sequence,
            told: scored.told,
            format: turn.format,
            is_batch: turn.is_batch,
            attached: None,
        });
        Flow::Continue
    }

    /// Acts on a loop. While the fleet is paused, it is only reported.
    #[cold] // keeps this out of the code that every request runs through
    fn trip(&mut self, host: &impl StreamHost, agent: Agent, scored: &mut Scored, turn: &Turn) -> Flow {
        let paused = scored.verdict != Verdict::WouldKill && pause::is_in_force(host);
        if paused {
            scored.verdict = Verdict::WouldKill;
        }
        let scored = &*scored;
        let explain = |window| agent.record.scorer().explain(window, &turn.tool_names);
        let (reason, matches) = scored.window.as_ref().map(explain).unwrap_or_default();
        let mut report = report::report(host, &self.worker, &agent, scored, &turn.conversation, reason.clone());
        report.paused = paused;
        if let Some(window) = &scored.window {
            (report.loop_calls, report.loop_usage) = agent.record.scorer().cost(window);
        }
        let evidence = report::Evidence { tools: turn.tool_names.clone(), matches, excerpt: None };
        let excerpt = || self.excerpt(host, agent.record.counting);
        let trip = report::act(host, &agent, scored, &turn.conversation, report, evidence, &excerpt);
        let record = &agent.record;
        let cause = match (scored.verdict, agent.scope(&turn.conversation)) {
            _ if trip == Trip::Outdated => return self.forward(host, Outcome::Allowed, agent, scored, turn),
            // To say that the agent is inactive would be false. The next call of the loop gets another verdict.
            _ if trip == Trip::Contended => return self.forward(host, Outcome::Contended, agent, scored, turn),
            (Verdict::Allow | Verdict::WouldKill, _) => {
                return self.forward(host, Outcome::Allowed, agent, scored, turn);
            }
            (verdict, Scope::Session) => Cause::SessionStopped {
                session: self.session_name(Some(turn)),
                reason,
                retry_after_seconds: match verdict {
                    Verdict::Block => record.retry_after_seconds,
                    _ => record.session_stop_seconds,
                },
                action: record.action,
            },
            (Verdict::Kill, _) => Cause::Inactive { by: Some(DeactivatedBy::KillSwitch), reason },
            (Verdict::Block, _) => Cause::Blocked { retry_after_seconds: record.retry_after_seconds, reason },
        };
        host.count(Metric::Requests(Outcome::Tripped), 1);
        self.refuse(host, cause, &envelope::read(&self.path, &self.whole_body(host)))
    }

    /// Returns the beginning of the repeated input, if the operator asked for it.
    fn excerpt(&self, host: &impl StreamHost, counting: Counting) -> Option<String> {
        if self.worker.config.evidence == Evidence::None {
            return None;
        }
        let mut text = self.worker.take_fingerprinter();
        text.keep_excerpt(EXCERPT_BYTES);
        let read = request(self.path.as_bytes(), &self.whole_body(host), self.reading(counting), &mut text);
        let excerpt = text.take_excerpt();
        self.worker.return_fingerprinter(text);
        read.is_ok().then_some(excerpt)
    }
}

/// What the headers of a request tell.
#[derive(Default)]
pub(super) struct RequestHeaders {
    path: String,
    pub(super) content_length: Option<usize>,
    compressed: bool,
    accepts_compression: bool,
    /// An upgrade, a tunnel or gRPC, whose body may never end.
    pub(super) not_http: bool,
    /// Envoy has followed a redirect, so the request may have been scored before. A client can send this header, too, and
    /// gains nothing by it.
    redirected: bool,
    is_delete: bool,
    is_post: bool,
    has_mcp_session: bool,
    /// There is no body.
    pub(super) ended: bool,
}

impl RequestHeaders {
    fn ends_mcp_session(&self) -> bool {
        self.is_delete && self.has_mcp_session && self.ended
    }

    fn read(all: &Headers) -> Self {
        let mut headers = Self::default();
        for (name, value) in all.iter() {
            match name {
                b":path" => headers.path = String::from_utf8_lossy(value).into_owned(),
                b":method" => {
                    headers.not_http |= value == b"CONNECT";
                    headers.is_delete = value == b"DELETE";
                    headers.is_post = value == b"POST";
                }
                b"upgrade" => headers.not_http = true,
                b"content-type" => headers.not_http |= value.starts_with(b"application/grpc"),
                b"content-length" => headers.content_length = parse_number(value),
                b"content-encoding" => headers.compressed |= is_compressed(value),
                b"accept-encoding" => headers.accepts_compression = value != b"identity",
                b"x-envoy-original-url" => headers.redirected = true,
                b"mcp-session-id" => headers.has_mcp_session = true,
                _ => {}
            }
        }
        headers
    }
}
