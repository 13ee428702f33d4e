//! An exchange to what the detector sees of it, decoded by the filter's own code.

use std::rc::Rc;

use agent_kill_switch::config::{Config, ConfigError};
use agent_kill_switch::decode::answer::{AnswerReader, ResponseHead};
use agent_kill_switch::decode::request::request;
use agent_kill_switch::fingerprint::Fingerprinter;
use agent_kill_switch::fingerprint::patterns::Pattern;
use agent_kill_switch::turn::{Answer, Turn};
use agent_kill_switch::wire::Counting;

use super::recording::Exchange;

/// One call, decoded. Nothing of its text is kept.
#[derive(Clone, Debug)]
pub struct Step {
    literal: Option<Turn>,
    progress: Option<Turn>,
    /// What came back.
    pub answer: Answer,
}

impl Step {
    /// The request as this way of counting reads it; nothing where the filter lets it pass unjudged, or where it was not
    /// read this way.
    pub fn turn(&self, counting: Counting) -> Option<&Turn> {
        match counting {
            Counting::Literal => self.literal.as_ref(),
            Counting::Progress => self.progress.as_ref(),
        }
    }
}

/// The smallest configuration of a filter: every default that matters here.
pub const PLAIN_CONFIG: &[u8] = br#"{"cluster": "kill-switch"}"#;

/// A filter's configuration, for its patterns and limits. Its secrets are not looked up.
pub fn filter_config(json: &[u8]) -> Result<Config, ConfigError> {
    Config::parse(json, &|_| Some("not-needed-here".to_owned()))
}

/// Decodes exchanges under a filter's configuration.
#[derive(Debug)]
pub struct StepReader {
    text: Fingerprinter,
    patterns: Rc<[Pattern]>,
    max_request_bytes: usize,
    max_event_bytes: usize,
    countings: Vec<Counting>,
}

impl StepReader {
    /// A reader for these ways of counting: each reads requests in its own way.
    pub fn new(config: &Config, countings: &[Counting]) -> Self {
        Self {
            text: Fingerprinter::with_patterns(Rc::clone(&config.patterns)),
            patterns: Rc::clone(&config.patterns),
            max_request_bytes: config.max_request_bytes,
            max_event_bytes: config.max_event_bytes,
            countings: countings.to_vec(),
        }
    }

    /// Decodes one exchange.
    pub fn read(&mut self, exchange: &Exchange<'_>) -> Step {
        let literal = self.turn(exchange, Counting::Literal);
        let progress = self.turn(exchange, Counting::Progress);
        let answer = match (literal.as_ref().or(progress.as_ref()), &exchange.response) {
            (Some(turn), Some(body)) => self.answer(turn, exchange.status, body),
            // A failure without a body is a failure all the same.
            (Some(_), None) if !(200..300).contains(&exchange.status) => Answer::Failed,
            _ => Answer::Unknown,
        };
        Step { literal, progress, answer }
    }

    fn turn(&mut self, exchange: &Exchange<'_>, counting: Counting) -> Option<Turn> {
        if !self.countings.contains(&counting) || exchange.request.len() > self.max_request_bytes {
            return None;
        }
        request(exchange.path.as_bytes(), &exchange.request, counting, &mut self.text).ok()
    }

    fn answer(&self, turn: &Turn, status: u16, body: &[u8]) -> Answer {
        let head = ResponseHead { status, content_type: content_type(body) };
        let mut reader = AnswerReader::new(turn.format, head, Rc::clone(&self.patterns), self.max_event_bytes);
        reader.push(body);
        reader.finish()
    }
}

/// What the response said of itself, told by how it begins.
fn content_type(body: &[u8]) -> &'static [u8] {
    let begins = |prefixes: &[&[u8]]| prefixes.iter().any(|prefix| body.trim_ascii_start().starts_with(prefix));
    match () {
        () if begins(&[b"data:", b"event:", b"id:", b"retry:", b":"]) => b"text/event-stream",
        () if begins(&[b"{", b"["]) => b"application/json",
        () => b"text/plain",
    }
}
