//! An agent's calls through decode and detect: what the filter does, without Envoy.

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
use lab::Answer;
use lab::chat::{Conversation, Input, Request};
use lab::scenario::ToolStep;

pub use lab::prose::sentence;
pub use lab::scenario::tool;

/// An agent with its window.
pub struct Agent {
    pub scorer: Scorer,
    pub threshold: f64,
    pub action: Action,
    pub window: Window,
    pub scores: Vec<Score>,
    text: Fingerprinter,
    generation: u64,
}

/// A request that was forwarded and awaits its answer.
pub struct Pending {
    request: Request,
    sequence: Sequence,
    format: Format,
}

impl Agent {
    /// Creates an agent with default settings.
    pub fn new() -> Self {
        Self::with(20, 10.0, Counting::Progress)
    }

    pub fn with(window_size: u32, threshold: f64, counting: Counting) -> Self {
        Self {
            scorer: Scorer { window_size, counting, rules: Rules::default() },
            threshold,
            action: Action::Deactivate,
            window: Window::empty(0, counting),
            scores: Vec::new(),
            text: Fingerprinter::default(),
            generation: 0,
        }
    }

    /// Scores a request whose answer has not arrived yet.
    pub fn ask(&mut self, sent: &Request) -> (Verdict, Pending) {
        let body = sent.body_text();
        let counting = self.scorer.counting;
        let turn = request(sent.path.as_bytes(), body.as_bytes(), counting, &mut self.text).unwrap();
        let call = Call { at_ms: self.scores.len() as u64, input: turn.input, tools: turn.tools, ..Call::default() };
        // The window is decoded from its bytes for each call, as it is in shared data.
        let mut window = Window::decode(self.window.bytes(), self.generation, counting);
        let (score, sequence) = self.scorer.score(&mut window, call);
        self.window = window;
        self.scores.push(score);
        let pending = Pending { request: sent.clone(), sequence, format: turn.format };
        (decide(&score, self.threshold, self.action), pending)
    }

    /// Reads the answer to a request, in pieces of a few bytes.
    pub fn answer(&mut self, pending: &Pending, answer: &Answer) {
        let response = pending.request.reply(answer);
        let head = ResponseHead { status: answer.status, content_type: response.content_type.as_bytes() };
        let mut reader = AnswerReader::new(pending.format, head, Rc::new([]), 256 * 1024);
        for chunk in response.pieces.concat().as_bytes().chunks(7) {
            reader.push(chunk);
        }
        self.scorer.attach_answer(&mut self.window, pending.sequence, reader.finish());
    }

    /// Makes a request and, if it is forwarded, reads its answer.
    pub fn call(&mut self, request: &Request, answer: &Answer) -> Verdict {
        let (verdict, pending) = self.ask(request);
        if verdict != Verdict::Kill && verdict != Verdict::Block {
            self.answer(&pending, answer);
        }
        verdict
    }

    /// Asks a question that opens a conversation, and gets a text.
    pub fn chat(&mut self, question: &str, answer: &str) -> Verdict {
        self.call(&crate::ask(question), &Answer::text(answer))
    }

    /// Makes a request whose answer calls a tool, and adds the tool's result to the conversation.
    pub fn work(&mut self, conversation: &mut Conversation, (name, arguments, result): ToolStep) -> Verdict {
        let answer = Answer::call(name, arguments).with_ids();
        let verdict = self.call(&conversation.request(), &answer);
        conversation.hear(&answer);
        conversation.say(&Input::Results(vec![result]));
        verdict
    }

    /// Activates the agent: the window of the old generation is void.
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

/// Opens a conversation with a task.
pub fn conversation(task: &str) -> Conversation {
    let mut conversation = Conversation::new(lab::Format::OpenAiChat, false);
    conversation.say(&Input::Open(task.to_owned()));
    conversation
}

/// Returns the number of the step, from 1, that is the first to be killed.
pub fn killed_at(steps: usize, mut step: impl FnMut(usize) -> Verdict) -> Option<usize> {
    (1..=steps).find(|&number| step(number - 1) == Verdict::Kill)
}
