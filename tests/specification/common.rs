//! An agent's calls through decode and detect: what the filter does, without Envoy.

use std::rc::Rc;

use agent_kill_switch::decode::answer::{AnswerReader, ResponseHead};
use agent_kill_switch::decode::request::{Reading, request};
use agent_kill_switch::detect::progress::Rules;
use agent_kill_switch::detect::score::{Score, Scorer};
use agent_kill_switch::detect::tools::{StoredRule, Treatment};
use agent_kill_switch::detect::verdict::{Verdict, decide};
use agent_kill_switch::detect::window::{Call, Window};
use agent_kill_switch::detect::windows::{Place, Windows};
use agent_kill_switch::fingerprint::Fingerprinter;
use agent_kill_switch::turn::Format;
use agent_kill_switch::wire::{Action, Counting};
use lab::Answer;
use lab::chat::{Conversation, Input, Request};
use lab::scenario::ToolStep;

pub use lab::prose::sentence;
pub use lab::scenario::tool;

/// An agent with its windows.
pub struct Agent {
    pub scorer: Scorer,
    pub threshold: f64,
    pub action: Action,
    /// The tools whose calls are counted differently.
    pub tools: Vec<StoredRule>,
    pub windows: Windows,
    pub scores: Vec<Score>,
    /// The conversation of the latest call.
    latest: agent_kill_switch::turn::Conversation,
    /// The time of the next call, in milliseconds.
    pub now_ms: u64,
    text: Fingerprinter,
}

/// A request that was forwarded and awaits its answer.
pub struct Pending {
    request: Request,
    place: Place,
    format: Format,
}

impl Agent {
    /// Creates an agent with default settings.
    pub fn new() -> Self {
        Self::with(20, 10.0, Counting::Progress)
    }

    pub fn with(window_size: u32, threshold: f64, counting: Counting) -> Self {
        let scorer = Scorer { window_size, counting, rules: Rules::default(), idle_reset_seconds: 120 };
        Self {
            scorer,
            threshold,
            action: Action::Deactivate,
            tools: Vec::new(),
            windows: Windows::new(scorer),
            scores: Vec::new(),
            latest: agent_kill_switch::turn::Conversation::default(),
            now_ms: 1_700_000_000_000,
            text: Fingerprinter::default(),
        }
    }

    /// Scores a request whose answer has not arrived yet.
    pub fn ask(&mut self, sent: &Request) -> (Verdict, Pending) {
        let body = sent.body_text();
        let counting = self.scorer.counting;
        let reading = Reading::new(counting);
        let turn = request(sent.path.as_bytes(), body.as_bytes(), reading, &mut self.text).unwrap();
        let treatment = Treatment::of(&turn.tool_hashes, &self.tools);
        let call = Call { treatment, ..Call::new(&turn, self.now_ms) };
        let (score, place) = self.windows.score(&turn.conversation, call);
        self.scores.push(score);
        self.latest = turn.conversation;
        let pending = Pending { request: sent.clone(), place, format: turn.format };
        (decide(&score, self.threshold, self.action), pending)
    }

    /// Scores a request whose answer will never be known.
    pub fn ask_in_vain(&mut self, sent: &Request) -> Verdict {
        let (verdict, pending) = self.ask(sent);
        self.windows.attach_answer(pending.place, agent_kill_switch::turn::Answer::Unknown, self.now_ms);
        verdict
    }

    /// Returns the window that has the latest call.
    pub fn window(&self) -> &Window {
        self.windows.window(&self.latest)
    }

    /// Reads the answer to a request, in pieces of a few bytes.
    pub fn answer(&mut self, pending: &Pending, answer: &Answer) {
        let response = pending.request.reply(answer);
        let head = ResponseHead { status: answer.status, content_type: response.content_type.as_bytes() };
        let mut reader = AnswerReader::new(pending.format, head, Rc::new([]), 256 * 1024);
        for chunk in response.pieces.concat().as_bytes().chunks(7) {
            reader.push(chunk);
        }
        self.windows.attach_answer(pending.place, reader.finish(), self.now_ms);
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

    /// Activates the agent: the windows of the old generation are void.
    pub fn activate(&mut self) {
        self.windows.activate();
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
