//! Public recordings of real agents: no healthy run is killed, and every loop is, early enough.

use kill_switch::replay::detector::Counting;
use kill_switch::replay::recording::{Calls, Recording};
use kill_switch::replay::tally::Expect;
use kill_switch::replay::{Settings, play};
use lab::recordings::public;
use serde_json::Value;

use crate::traces::{each_line, run_reader, runs};

/// How many runs the recordings hold, unless KILL_SWITCH_TRACES names others.
const HEALTHY: usize = 410;
const LOOPS: usize = 9;

#[test]
fn no_healthy_run_is_killed_and_every_loop_is() {
    let Some(files) = public() else { return };
    let mut outcomes = Vec::new();
    for run in files.iter().flat_map(|file| runs(file, &[Counting::Progress])) {
        let (expect, outcome) = (Expect::of(&run.label), play(&run.calls, &Settings::default()));
        let agent = run.label.agent.unwrap_or_default();
        assert!(expect.is_met_by(&outcome), "{} {agent}: {outcome:?}", expect.word());
        outcomes.push((expect, outcome));
    }
    let count = |wanted| outcomes.iter().filter(|(expect, _)| *expect == wanted).count();
    if std::env::var_os("KILL_SWITCH_TRACES").is_none() {
        assert_eq!((count(Expect::Healthy), count(Expect::Loop)), (HEALTHY, LOOPS));
    }
    let healthy = outcomes.iter().filter(|(expect, _)| *expect == Expect::Healthy);
    let highest = healthy.map(|(_, outcome)| outcome.score.value()).fold(0.0, f64::max);
    assert!(highest <= 7.0, "a healthy run comes near the threshold: {highest}");
}

#[test]
fn loops_are_killed_no_later_than_their_thirteenth_repeated_call() {
    let Some(files) = public() else { return };
    let mut loops = 0;
    for file in files {
        let kind = br#""expect": "loop""#;
        each_line(&file, |line| {
            if !line.windows(kind.len()).any(|part| part == kind) {
                return;
            }
            let run = run_reader(&[Counting::Progress]).line(line).unwrap().unwrap();
            let killed_at = play(&run.calls, &Settings::default()).killed_at.unwrap();
            let Recording::Run(_, calls) = Recording::read(line).unwrap() else { panic!("a run") };
            let repeated = occurrences(&calls, killed_at);
            assert!((2..=13).contains(&repeated), "killed at the {repeated}th occurrence, call {killed_at}");
            loops += 1;
        });
    }
    assert!(loops > 0);
}

/// Counts the requests up to `call` that have the same last message as the request at `call`. This compares plain text,
/// independently of the detector, and ignores words with a digit, which are numbers and ids.
fn occurrences(calls: &Calls<'_>, call: usize) -> usize {
    let mut last = Vec::new();
    calls
        .each(|exchange| {
            let request: Value = serde_json::from_slice(&exchange.request).unwrap();
            let message = request["messages"].as_array().and_then(|messages| messages.last()).unwrap();
            let text = message["content"].to_string();
            let words = text.split([' ', '\\']).filter(|word| !word.bytes().any(|byte| byte.is_ascii_digit()));
            last.push(words.collect::<Vec<_>>().join(" "));
        })
        .unwrap();
    last[..call].iter().filter(|text| **text == last[call - 1]).count()
}
