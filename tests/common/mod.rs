//! An agent's calls through decode and detect, with no Envoy: what the filter does, without its host.
#![allow(dead_code)] // each test file uses its own part
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // helpers of tests

use std::rc::Rc;

use agent_kill_switch::decode::answer::{AnswerReader, ResponseHead};
use agent_kill_switch::decode::request::request;
use agent_kill_switch::detect::progress::Rules;
use agent_kill_switch::detect::score::{Score, Scorer};
use agent_kill_switch::detect::verdict::{Verdict, decide};
use agent_kill_switch::detect::window::{Call, Sequence, Window};
use agent_kill_switch::fingerprint::Fingerprinter;
use agent_kill_switch::turn::Format;
use agent_kill_switch::wire::{Action, Counting};
use serde_json::{Value, json};

/// What the upstream sends back.
pub struct Upstream {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

impl Upstream {
    pub fn json(body: Value) -> Self {
        Self { status: 200, content_type: "application/json", body: body.to_string().into_bytes() }
    }

    pub fn failure(status: u16) -> Self {
        let body = json!({"error": {"message": "limit reached, try again later"}}).to_string().into_bytes();
        Self { status, content_type: "application/json", body }
    }
}

/// One agent with its window.
pub struct Agent {
    pub scorer: Scorer,
    pub threshold: f64,
    pub action: Action,
    pub window: Window,
    pub path: &'static str,
    pub scores: Vec<Score>,
    text: Fingerprinter,
    generation: u64,
}

impl Agent {
    /// Default settings.
    pub fn new() -> Self {
        Self::with(20, 10.0, Counting::Progress)
    }

    pub fn with(window_size: u32, threshold: f64, counting: Counting) -> Self {
        Self {
            scorer: Scorer { window_size, counting, rules: Rules::default() },
            threshold,
            action: Action::Deactivate,
            window: Window::empty(0, counting),
            path: "/v1/chat/completions",
            scores: Vec::new(),
            text: Fingerprinter::default(),
            generation: 0,
        }
    }

    pub fn at(mut self, path: &'static str) -> Self {
        self.path = path;
        self
    }

    /// A request whose answer is still on its way.
    pub fn ask(&mut self, body: &Value) -> (Verdict, Sequence, Format) {
        let body = body.to_string();
        let counting = self.scorer.counting;
        let turn = request(self.path.as_bytes(), body.as_bytes(), counting, &mut self.text).unwrap();
        let call = Call { at_ms: self.scores.len() as u64, input: turn.input, tools: turn.tools, ..Call::default() };
        // Through the bytes each time, as in shared data.
        let mut window = Window::decode(self.window.bytes(), self.generation, counting);
        let (score, sequence) = self.scorer.score(&mut window, call);
        self.window = window;
        self.scores.push(score);
        (decide(&score, self.threshold, self.action), sequence, turn.format)
    }

    pub fn answer(&mut self, sequence: Sequence, format: Format, upstream: &Upstream) {
        let head = ResponseHead { status: upstream.status, content_type: upstream.content_type.as_bytes() };
        let mut reader = AnswerReader::new(format, head, Rc::new([]), 256 * 1024);
        for chunk in upstream.body.chunks(7) {
            reader.push(chunk);
        }
        self.scorer.attach_answer(&mut self.window, sequence, reader.finish());
    }

    /// A request and its answer.
    pub fn call(&mut self, body: &Value, upstream: Upstream) -> Verdict {
        let (verdict, sequence, format) = self.ask(body);
        if verdict != Verdict::Kill && verdict != Verdict::Block {
            self.answer(sequence, format, &upstream);
        }
        verdict
    }

    /// A question of its own and an answer in words.
    pub fn chat(&mut self, question: &str, answer: &str) -> Verdict {
        self.call(&json!({"messages": [{"role": "user", "content": question}]}), words(answer))
    }

    /// The agent is activated again: the window of the old generation is void.
    pub fn activate(&mut self) {
        self.generation += 1;
    }

    pub fn last(&self) -> Score {
        *self.scores.last().unwrap()
    }

    pub fn highest(&self) -> f64 {
        self.scores.iter().map(|score| score.value()).fold(0.0, f64::max)
    }
}

/// An OpenAI answer in words, in a fresh envelope.
pub fn words(text: &str) -> Upstream {
    let id = format!("chatcmpl-{}", text.len());
    Upstream::json(json!({
        "id": id, "object": "chat.completion", "created": 1_700_000_000, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}
    }))
}

/// A conversation that grows, as a client that uses tools sends it.
pub struct Conversation {
    pub messages: Vec<Value>,
    calls: usize,
}

impl Conversation {
    pub fn new(task: &str) -> Self {
        Self {
            messages: vec![
                json!({"role": "system", "content": "You are a careful engineer."}),
                json!({"role": "user", "content": task}),
            ],
            calls: 0,
        }
    }

    pub fn body(&self) -> Value {
        json!({"model": "m", "messages": self.messages, "tools": [{"type": "function", "function": {"name": "x"}}]})
    }

    /// The model calls tools; their results come back with the next request.
    pub fn step(&mut self, agent: &mut Agent, calls: &[(&str, Value, String)]) -> Verdict {
        let first = self.calls;
        self.calls += calls.len();
        let listed: Vec<Value> = calls
            .iter()
            .enumerate()
            .map(|(index, (name, arguments, _))| {
                let function = json!({"name": name, "arguments": arguments.to_string()});
                json!({"id": format!("call_{}", first + index), "type": "function", "function": function})
            })
            .collect();
        let message = json!({"role": "assistant", "content": null, "tool_calls": listed});
        let upstream =
            Upstream::json(json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}));
        let verdict = agent.call(&self.body(), upstream);
        self.messages.push(message);
        for (index, (_, _, result)) in calls.iter().enumerate() {
            let id = format!("call_{}", first + index);
            self.messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
        }
        verdict
    }
}

/// The number of the call at which a run of steps is killed, from 1.
pub fn killed_at(steps: usize, mut step: impl FnMut(usize) -> Verdict) -> Option<usize> {
    (0..steps).find(|&number| step(number) == Verdict::Kill).map(|number| number + 1)
}

/// Sentences that have nothing in common.
pub fn sentence(number: usize) -> String {
    const SUBJECTS: [&str; 8] = [
        "the parser",
        "a worker thread",
        "our cache",
        "the migration",
        "every test",
        "the header",
        "a lock",
        "the index",
    ];
    const VERBS: [&str; 7] =
        ["rejects", "rewrites quietly", "doubles", "forgets about", "waits for", "serialises", "leaks into"];
    const OBJECTS: [&str; 9] = [
        "unicode names",
        "the second replica",
        "stale cookies",
        "nested arrays",
        "an empty response",
        "user sessions",
        "the build directory",
        "long retries",
        "decimal prices",
    ];
    const REASONS: [&str; 5] =
        ["since the schema changed", "under load", "when the flag is unset", "after a restart", "on slow disks"];
    let pick = |list: &[&'static str], stride: usize| list[(number * stride + number / list.len()) % list.len()];
    format!(
        "{} {} {} {} ({} {})",
        pick(&SUBJECTS, 3),
        pick(&VERBS, 5),
        pick(&OBJECTS, 7),
        pick(&REASONS, 2),
        pick(&OBJECTS, 4),
        pick(&VERBS, 3)
    )
}
