//! The filter's decoding and detection, for recorded calls.
//!
//! This is the only file of `replay` that uses the filter's crate. [`Decoder`] turns an [`Exchange`] into a
//! [`DecodedCall`], which keeps fingerprints and no text. [`play`] scores the decoded calls of a run, as often as needed,
//! each time under other settings.

use std::rc::Rc;

use agent_kill_switch::config::{Config, ConfigError, SessionSources};
use agent_kill_switch::decode::answer::{AnswerReader, ResponseHead};
use agent_kill_switch::decode::request::{Reading, request};
use agent_kill_switch::detect::score::Scorer;
use agent_kill_switch::detect::tools::{self, Treatment};
use agent_kill_switch::detect::verdict::{Verdict, decide};
use agent_kill_switch::detect::window::Call;
use agent_kill_switch::detect::windows::Windows;
use agent_kill_switch::fingerprint::Fingerprinter;
use agent_kill_switch::policy::{DEFAULT_IDLE_RESET_SECONDS, DEFAULT_THRESHOLD, check_settings};
use agent_kill_switch::turn::{Answer, Turn};
use agent_kill_switch::wire::Action;

// What the callers of this module need to name.
pub use agent_kill_switch::detect::progress::Rules;
pub use agent_kill_switch::detect::score::Score;
pub use agent_kill_switch::fingerprint::patterns::Pattern;
pub use agent_kill_switch::policy::{DEFAULT_WINDOW_SIZE, SettingError};
pub use agent_kill_switch::wire::{Counting, Signals, ToolRules};

use super::recording::Exchange;

/// What the filter's configuration says about reading messages.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The operator's own patterns.
    pub patterns: Rc<[Pattern]>,
    session: SessionSources,
    judge_unknown: bool,
    max_request_bytes: usize,
    max_event_bytes: usize,
    /// The rules of `progress` counting that are in force. One of them applies when requests are read.
    pub rules: Rules,
}

impl ReadOptions {
    /// Reads the options from a filter's configuration. Secrets that it refers to are not looked up.
    pub fn parse(filter_config: &[u8]) -> Result<Self, ConfigError> {
        let config = Config::parse(filter_config, &|_| Some("unused".to_owned()))?;
        Ok(Self {
            patterns: config.patterns,
            session: config.session,
            judge_unknown: config.judge_unknown,
            max_request_bytes: config.max_request_bytes,
            max_event_bytes: config.max_event_bytes,
            rules: Rules::default(),
        })
    }

    /// Returns the options of a filter whose configuration sets none of them.
    pub fn defaults() -> Result<Self, ConfigError> {
        Self::parse(br#"{"cluster": "kill-switch"}"#)
    }
}

/// One call as the detector sees it. Keeps none of its text.
#[derive(Clone, Debug)]
pub struct DecodedCall {
    literal: Option<Turn>,
    progress: Option<Turn>,
    answer: Answer,
}

impl DecodedCall {
    /// Returns the request as one way of counting reads it. `None` if the filter does not score such a request, or if it
    /// was not decoded for this way of counting.
    fn turn(&self, counting: Counting) -> Option<&Turn> {
        match counting {
            Counting::Literal => self.literal.as_ref(),
            Counting::Progress => self.progress.as_ref(),
        }
    }
}

/// Decodes recorded calls.
#[derive(Debug)]
pub struct Decoder {
    options: ReadOptions,
    countings: Vec<Counting>,
    fingerprinter: Fingerprinter,
}

impl Decoder {
    /// Creates a decoder for these ways of counting. Each of them reads requests in its own way.
    pub fn new(options: ReadOptions, countings: &[Counting]) -> Self {
        let fingerprinter = Fingerprinter::with_patterns(Rc::clone(&options.patterns));
        Self { options, countings: countings.to_vec(), fingerprinter }
    }

    /// Decodes one call.
    pub fn decode(&mut self, exchange: &Exchange<'_>) -> DecodedCall {
        let literal = self.turn(exchange, Counting::Literal);
        let progress = self.turn(exchange, Counting::Progress);
        let answer = match (literal.as_ref().or(progress.as_ref()), &exchange.response) {
            (Some(turn), Some(body)) => self.answer(turn, exchange.status, body),
            (Some(_), None) => Answer::of_failed_status(exchange.status).unwrap_or_default(),
            _ => Answer::Unknown,
        };
        DecodedCall { literal, progress, answer }
    }

    fn turn(&mut self, exchange: &Exchange<'_>, counting: Counting) -> Option<Turn> {
        if !self.countings.contains(&counting) || exchange.request.len() > self.options.max_request_bytes {
            return None;
        }
        let reading = Reading {
            judge_unknown: self.options.judge_unknown,
            session: self.options.session.of_body_before(usize::MAX),
            keep_quoted_ids: !self.options.rules.ids,
            ..Reading::new(counting)
        };
        request(exchange.path.as_bytes(), &exchange.request, reading, &mut self.fingerprinter).ok()
    }

    fn answer(&self, turn: &Turn, status: u16, body: &[u8]) -> Answer {
        let head = ResponseHead { status, content_type: content_type(body) };
        let patterns = Rc::clone(&self.options.patterns);
        let mut reader = AnswerReader::new(turn.format, head, patterns, self.options.max_event_bytes);
        reader.push(body);
        reader.finish()
    }
}

/// Guesses the content type of a response from its beginning, since recordings do not contain headers.
fn content_type(body: &[u8]) -> &'static [u8] {
    let begins = |prefixes: &[&[u8]]| prefixes.iter().any(|prefix| body.trim_ascii_start().starts_with(prefix));
    if begins(&[b"data:", b"event:", b"id:", b"retry:", b":"]) {
        b"text/event-stream"
    } else if begins(&[b"{", b"["]) {
        b"application/json"
    } else {
        b"text/plain"
    }
}

/// The part of an agent's policy that decides on a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How many calls are looked at, the current one included.
    pub window_size: u32,
    /// The score that must be exceeded.
    pub threshold: f64,
    /// How repeats are counted.
    pub counting: Counting,
    /// The rules of `progress` counting that are in force.
    pub rules: Rules,
    /// The tools whose calls are counted differently.
    pub tools: ToolRules,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window_size: DEFAULT_WINDOW_SIZE,
            threshold: DEFAULT_THRESHOLD,
            counting: Counting::default(),
            rules: Rules::default(),
            tools: ToolRules::default(),
        }
    }
}

impl Settings {
    /// Changes the window's size and the threshold, within the bounds of a policy.
    pub fn with(self, window_size: f64, threshold: f64) -> Result<Self, SettingError> {
        let (window_size, threshold) = check_settings(window_size, threshold)?;
        Ok(Self { window_size, threshold, ..self })
    }
}

/// How a run ends under given settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// How many calls were recorded, those after a kill included.
    pub calls: usize,
    /// The first call that would have been refused, counted from 1. All later ones would have been refused too.
    pub killed_at: Option<usize>,
    /// The score of that call. If no call was refused, the highest score of the run.
    pub score: Score,
    /// Why that call was refused, in the words of the kill event.
    pub reason: Option<String>,
}

/// Scores the calls of a run one after the other, until one of them would be refused.
pub fn play(calls: &[DecodedCall], settings: &Settings) -> Outcome {
    let Settings { window_size, threshold, counting, rules, .. } = *settings;
    let tools = tools::encode(&settings.tools, window_size);
    let scorer = Scorer { window_size, counting, rules, idle_reset_seconds: DEFAULT_IDLE_RESET_SECONDS };
    let mut windows = Windows::new(scorer);
    let mut outcome = Outcome { calls: calls.len(), ..Outcome::default() };
    for (index, recorded) in calls.iter().enumerate() {
        let Some(turn) = recorded.turn(counting) else { continue };
        // Recordings do not say when a call was made. All of them are one run.
        let now_ms = index as u64;
        let call = Call { treatment: Treatment::of(&turn.tool_hashes, &tools), ..Call::new(turn, now_ms) };
        let (score, place) = windows.score(&turn.conversation, call);
        if decide(&score, threshold, Action::Deactivate) == Verdict::Kill {
            let (reason, _) = scorer.explain(windows.window(&turn.conversation), &turn.tool_names);
            return Outcome { killed_at: Some(index + 1), score, reason: Some(reason), ..outcome };
        }
        if score.half_points > outcome.score.half_points {
            outcome.score = score;
        }
        windows.attach_answer(place, recorded.answer, now_ms);
    }
    outcome
}
