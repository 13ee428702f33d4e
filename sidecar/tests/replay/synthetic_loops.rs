//! Loops made of real pieces: steps of healthy recorded runs, repeated in place.
//!
//! A step is what the model said or called and what came back. Of the steps before the loop, as many are kept as fit in a
//! window: older ones cannot change the score.

use std::sync::OnceLock;

use kill_switch::replay::detector::{Counting, DEFAULT_WINDOW_SIZE};
use kill_switch::replay::recording::{Calls, Recording};
use kill_switch::replay::{Settings, play};
use lab::recordings::public;
use serde_json::value::RawValue;

use crate::random::Random;
use crate::traces::{each_line, run_reader};

const DRAWS: usize = 500;

/// A healthy run, taken apart. Each string is the JSON of one or more messages.
struct HealthyRun {
    opening: String,
    steps: Vec<String>,
}

/// Returns the healthy runs of each file. A file is drawn first and then one of its runs, so that all files are drawn
/// equally often, however many runs they hold.
fn healthy_runs() -> Option<&'static [Vec<HealthyRun>]> {
    static RUNS: OnceLock<Vec<Vec<HealthyRun>>> = OnceLock::new();
    let files = public()?;
    Some(RUNS.get_or_init(|| {
        let mut runs: Vec<Vec<HealthyRun>> = files.iter().map(|file| runs_of(file)).collect();
        runs.retain(|runs| !runs.is_empty());
        runs
    }))
}

fn runs_of(file: &std::path::Path) -> Vec<HealthyRun> {
    let mut runs = Vec::new();
    each_line(file, |line| {
        let Ok(Recording::Run(label, calls)) = Recording::read(line) else { return };
        if label.expect.as_deref() != Some("healthy") {
            return;
        }
        let run = match &calls {
            Calls::Messages(messages) => split(messages),
            // The longest request holds the conversation.
            Calls::Recorded(calls) => {
                let longest = calls.iter().max_by_key(|call| call.request.len()).unwrap();
                #[derive(serde::Deserialize)]
                struct Request<'a> {
                    #[serde(borrow)]
                    messages: Vec<&'a RawValue>,
                }
                split(&serde_json::from_slice::<Request<'_>>(&longest.request).unwrap().messages)
            }
        };
        if run.steps.len() >= 4 {
            runs.push(run);
        }
    });
    runs
}

#[derive(serde::Deserialize)]
struct Role {
    role: String,
}

fn split(messages: &[&RawValue]) -> HealthyRun {
    let (mut opening, mut steps) = (Vec::new(), Vec::<Vec<&str>>::new());
    for message in messages {
        let Role { role } = serde_json::from_str(message.get()).unwrap();
        match steps.last_mut() {
            _ if role == "assistant" => steps.push(vec![message.get()]),
            Some(step) => step.push(message.get()),
            None => opening.push(message.get()),
        }
    }
    // The last step of a run may have no result.
    steps.retain(|step| step.len() > 1);
    HealthyRun { opening: opening.join(","), steps: steps.iter().map(|step| step.join(",")).collect() }
}

/// Draws runs and repeats `cycle` steps of each `times` times. Returns how many of these loops are killed.
fn killed(seed: u64, cycle: usize, times: usize) -> Option<usize> {
    let files = healthy_runs()?;
    let mut random = Random::seeded(seed);
    let mut reader = run_reader(&[Counting::Progress]);
    let mut killed = 0;
    for _ in 0..DRAWS {
        let run = loop {
            let file = random.pick(files);
            let run = random.pick(file);
            if run.steps.len() >= cycle {
                break run;
            }
        };
        let at = random.below(run.steps.len() - cycle + 1);
        let before = &run.steps[at.saturating_sub(DEFAULT_WINDOW_SIZE as usize)..at];
        let again = &run.steps[at..at + cycle];
        let looping = std::iter::repeat_n(again, times).flatten();
        let end = r#"{"role":"assistant","content":"that is all"}"#;
        let parts = [run.opening.as_str()].into_iter();
        let parts = parts.chain(before.iter().chain(looping).map(String::as_str)).chain([end]);
        let messages: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        let line = format!(r#"{{"agent":"loop","messages":[{}]}}"#, messages.join(","));
        let run = reader.line(line.as_bytes()).unwrap().unwrap();
        killed += usize::from(play(&run.calls, &Settings::default()).killed_at.is_some());
    }
    Some(killed)
}

#[test]
fn repeated_steps_are_killed() {
    let short = [(1, 1, 8, 99), (2, 2, 7, 95), (3, 3, 7, 95)];
    for (seed, cycle, times, percent) in short.into_iter().chain((4..=7).map(|cycle| (cycle as u64, cycle, 7, 99))) {
        let Some(killed) = killed(seed, cycle, times) else { return };
        assert!(killed * 100 >= DRAWS * percent, "a cycle of {cycle}, {times} times: {killed} of {DRAWS}");
    }
}
