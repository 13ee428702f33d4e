//! The steps of a run under given settings: the verdict of the filter, without the filter's host.

use agent_kill_switch::detect::progress::Rules;
use agent_kill_switch::detect::score::{Score, Scorer};
use agent_kill_switch::detect::verdict::{Verdict, decide};
use agent_kill_switch::detect::window::{Call, Window};
use agent_kill_switch::policy::{DEFAULT_THRESHOLD, DEFAULT_WINDOW_SIZE};
use agent_kill_switch::turn::Turn;
use agent_kill_switch::wire::{Action, Counting};

use super::step::Step;

/// What an agent's policy says, as far as it matters to a verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Calls looked at, the current one included.
    pub window_size: u32,
    /// The score that must be exceeded.
    pub threshold: f64,
    /// How repeats are counted.
    pub counting: Counting,
    /// Which rules `progress` counting follows.
    pub rules: Rules,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window_size: DEFAULT_WINDOW_SIZE,
            threshold: DEFAULT_THRESHOLD,
            counting: Counting::default(),
            rules: Rules::default(),
        }
    }
}

/// What became of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// How many calls were recorded, those after a kill included.
    pub calls: usize,
    /// The call that would have been refused, from 1, and all after it.
    pub killed_at: Option<usize>,
    /// The score of that call; where there is none, the highest of the run.
    pub score: Score,
    /// Why that call was refused, in the words of the kill event.
    pub reason: Option<String>,
}

/// Plays a run.
pub fn play(steps: &[Step], settings: &Settings) -> Outcome {
    let Settings { window_size, threshold, counting, rules } = *settings;
    let scorer = Scorer { window_size, counting, rules };
    let mut window = Window::empty(0, counting);
    let mut outcome = Outcome { calls: steps.len(), ..Outcome::default() };
    for (index, step) in steps.iter().enumerate() {
        let Some(turn) = step.turn(counting) else { continue };
        let (score, sequence) = scorer.score(&mut window, call(index, turn));
        if decide(&score, threshold, Action::Deactivate) == Verdict::Kill {
            let (reason, _) = scorer.explain(&window, &turn.tool_names);
            return Outcome { killed_at: Some(index + 1), score, reason: Some(reason), ..outcome };
        }
        if score.value() > outcome.score.value() {
            outcome.score = score;
        }
        scorer.attach_answer(&mut window, sequence, step.answer);
    }
    outcome
}

fn call(index: usize, turn: &Turn) -> Call {
    Call { at_ms: index as u64, input: turn.input, tools: turn.tools, ..Call::default() }
}
