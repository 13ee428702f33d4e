//! One call through all stages of a request: decode, normalise, SimHash, window of 20, score.

use agent_kill_switch::config::{Config, SessionSources};
use agent_kill_switch::decode::request::{Reading, request};
use agent_kill_switch::detect::progress::Rules;
use agent_kill_switch::detect::score::Scorer;
use agent_kill_switch::detect::window::{Call, Window};
use agent_kill_switch::fingerprint::{Fingerprint, Fingerprinter};
use agent_kill_switch::turn::{Answer, ToolTurn, Turn};
use agent_kill_switch::wire::Counting;

use crate::body::PATH;
use crate::naive;
use crate::text::english;

pub const WINDOW: u32 = 20;

/// An agent with a full window.
pub struct Pipeline {
    text: Fingerprinter,
    counting: Counting,
    session: SessionSources,
    /// The window as it is stored in shared data. It is never replaced, so that every call sees the same window.
    window: Vec<u8>,
}

impl Pipeline {
    /// Creates a healthy agent with a full window.
    pub fn new(counting: Counting) -> Self {
        let config = Config::parse(br#"{"cluster": "kill-switch"}"#, &|_| None);
        let session = config.map(|config| config.session).unwrap_or_default();
        let mut pipeline = Self { text: Fingerprinter::default(), counting, session, window: Vec::new() };
        let mut window = Window::empty(0, counting);
        for number in 0..WINDOW {
            let input = pipeline.fingerprint(&english(200, u64::from(number)));
            let answer = pipeline.fingerprint(&english(200, !u64::from(number)));
            let call = Call { at_ms: u64::from(number) * 1000, input, ..Call::default() };
            let (_, sequence) = pipeline.scorer().score(&mut window, call);
            pipeline.scorer().attach_answer(&mut window, sequence, Answer::Text(answer), call.at_ms);
        }
        pipeline.window = window.into_bytes();
        pipeline
    }

    /// Runs the filter's own pipeline on a body. The result depends on every stage.
    #[inline(never)]
    pub fn fast(&mut self, body: &[u8]) -> u64 {
        match self.decode(body) {
            Some(turn) => self.score(turn.input, turn.tools),
            None => 0,
        }
    }

    /// Runs the naive pipeline on a body.
    #[inline(never)]
    pub fn naive(&mut self, body: &[u8]) -> u64 {
        match naive::decode(body, self.counting) {
            Some((input, tools)) => self.score(input, tools),
            None => 0,
        }
    }

    /// Decodes a body as the filter does.
    pub fn decode(&mut self, body: &[u8]) -> Option<Turn> {
        let session = self.session.of_body_before(usize::MAX);
        let reading = Reading { session, ..Reading::new(self.counting) };
        request(PATH.as_bytes(), body, reading, &mut self.text).ok()
    }

    pub fn window(&self) -> &[u8] {
        &self.window
    }

    fn scorer(&self) -> Scorer {
        Scorer { window_size: WINDOW, counting: self.counting, rules: Rules::default(), idle_reset_seconds: 120 }
    }

    fn score(&self, input: Fingerprint, tools: ToolTurn) -> u64 {
        let mut window = Window::decode(&self.window, 0, self.counting);
        let call = Call { at_ms: 60_000, input, tools, ..Call::default() };
        let (score, _) = self.scorer().score(&mut window, call);
        let bytes = window.into_bytes();
        u64::from(score.half_points) ^ bytes.len() as u64 ^ input.simhash.0 ^ u64::from(input.digest)
    }

    fn fingerprint(&mut self, text: &str) -> Fingerprint {
        self.text.push(text.as_bytes());
        self.text.finish()
    }
}
