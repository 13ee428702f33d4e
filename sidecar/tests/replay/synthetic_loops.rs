//! Loops made of real pieces: steps of healthy recorded runs, repeated in place.
//!
//! A step is what the model said or called and what came back. Of the history before the loop the last calls are kept,
//! one window of them: what is older cannot matter.

use std::sync::OnceLock;

use agent_kill_switch::policy::DEFAULT_WINDOW_SIZE;
use agent_kill_switch::wire::Counting;
use kill_switch::replay::recording::{Calls, Recording};
use kill_switch::replay::{Run, Settings, play};
use lab::recordings::public;
use serde_json::value::RawValue;

use crate::random::Random;
use crate::traces::{each_line, replayer};

const DRAWS: usize = 500;

/// A healthy run as steps, each the JSON of its messages.
struct Piece {
    opening: String,
    steps: Vec<String>,
}

/// The pieces of each file, so that a file of many runs is not drawn from more than one of few.
fn pieces() -> Option<&'static [Vec<Piece>]> {
    static PIECES: OnceLock<Vec<Vec<Piece>>> = OnceLock::new();
    let files = public()?;
    Some(PIECES.get_or_init(|| {
        let mut pieces: Vec<Vec<Piece>> = files.iter().map(|file| pieces_of(file)).collect();
        pieces.retain(|pieces| !pieces.is_empty());
        pieces
    }))
}

fn pieces_of(file: &std::path::Path) -> Vec<Piece> {
    let mut pieces = Vec::new();
    each_line(file, |line| {
        let Ok(Recording::Run(label, calls)) = Recording::read(line) else { return };
        if label.expect.as_deref() != Some("healthy") {
            return;
        }
        let piece = match &calls {
            Calls::Messages(messages) => piece(messages),
            // The longest request holds the conversation.
            Calls::Recorded(calls) => {
                let longest = calls.iter().max_by_key(|call| call.request.len()).unwrap();
                #[derive(serde::Deserialize)]
                struct Request<'a> {
                    #[serde(borrow)]
                    messages: Vec<&'a RawValue>,
                }
                piece(&serde_json::from_slice::<Request<'_>>(&longest.request).unwrap().messages)
            }
        };
        if piece.steps.len() >= 4 {
            pieces.push(piece);
        }
    });
    pieces
}

#[derive(serde::Deserialize)]
struct Role {
    role: String,
}

fn piece(messages: &[&RawValue]) -> Piece {
    let (mut opening, mut steps) = (Vec::new(), Vec::<Vec<&str>>::new());
    for message in messages {
        let Role { role } = serde_json::from_str(message.get()).unwrap();
        match steps.last_mut() {
            _ if role == "assistant" => steps.push(vec![message.get()]),
            Some(step) => step.push(message.get()),
            None => opening.push(message.get()),
        }
    }
    // A step that nothing came back for ends its run.
    steps.retain(|step| step.len() > 1);
    Piece { opening: opening.join(","), steps: steps.iter().map(|step| step.join(",")).collect() }
}

/// How many of the draws are killed: `cycle` steps in a row, `times` over.
fn killed(seed: u64, cycle: usize, times: usize) -> Option<usize> {
    let files = pieces()?;
    let mut random = Random::seeded(seed);
    let mut replayer = replayer(&[Counting::Progress]);
    let mut killed = 0;
    for _ in 0..DRAWS {
        let file = random.pick(files);
        let piece = random.pick(file);
        let at = random.below(piece.steps.len() - cycle + 1);
        let before = &piece.steps[at.saturating_sub(DEFAULT_WINDOW_SIZE as usize)..at];
        let again = &piece.steps[at..at + cycle];
        let looping = std::iter::repeat_n(again, times).flatten();
        let end = r#"{"role":"assistant","content":"that is all"}"#;
        let parts = [piece.opening.as_str()].into_iter();
        let parts = parts.chain(before.iter().chain(looping).map(String::as_str)).chain([end]);
        let messages: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        let line = format!(r#"{{"agent":"loop","messages":[{}]}}"#, messages.join(","));
        let mut judge = |run: Run| {
            killed += usize::from(play(&run.steps, &Settings::default()).killed_at.is_some());
        };
        replayer.line(line.as_bytes(), &mut judge).unwrap();
    }
    println!("a cycle of {cycle}, {times} times: {killed} of {DRAWS} killed");
    Some(killed)
}

#[test]
fn one_step_repeated_eight_times_is_killed() {
    let Some(killed) = killed(1, 1, 8) else { return };
    assert!(killed * 100 >= DRAWS * 99, "{killed} of {DRAWS}");
}

#[test]
fn two_steps_taking_turns_seven_times_are_killed() {
    let Some(killed) = killed(2, 2, 7) else { return };
    assert!(killed * 100 >= DRAWS * 95, "{killed} of {DRAWS}");
}

#[test]
fn three_steps_in_a_circle_seven_times_are_killed() {
    let Some(killed) = killed(3, 3, 7) else { return };
    assert!(killed * 100 >= DRAWS * 95, "{killed} of {DRAWS}");
}
