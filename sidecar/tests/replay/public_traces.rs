//! Public recordings of real agents: no healthy run is killed, and every loop is, early enough.

use kill_switch::replay::detector::Counting;
use kill_switch::replay::recording::{Calls, Recording};
use kill_switch::replay::tally::Expect;
use kill_switch::replay::{Settings, play};
use lab::recordings::{more, public};
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

/// Healthy runs of the larger set that are killed. docs/detection.md argues each of them.
const KILLED_HEALTHY: [&str; 4] = [
    "dab-gemini-2.5-flash-GITHUB_REPOS-query4-16",
    "intercode-sql_multiturn_text-davinci-003_10_turns-536",
    "ko-azure_gpt-4o-mini-L5-010",
    "ko-azure_gpt-4o-mini-L5-018",
];
/// Loops of the larger set that are not killed. In all of them the model gives an empty answer 7 to 10 times and is asked
/// again, and then goes on with its work.
const MISSED_LOOPS: [&str; 18] = [
    "dab-kimi-k2-thinking-bookreview-query3-40",
    "dab-kimi-k2-thinking-civic_unstructured-query2-24",
    "dab-kimi-k2-thinking-crmarenapro-query10-28",
    "dab-kimi-k2-thinking-crmarenapro-query10-36",
    "dab-kimi-k2-thinking-crmarenapro-query13-27",
    "dab-kimi-k2-thinking-crmarenapro-query2-14",
    "dab-kimi-k2-thinking-crmarenapro-query3-32",
    "dab-kimi-k2-thinking-crmarenapro-query6-27",
    "dab-kimi-k2-thinking-music_brainz_20k-query2-18",
    "dab-kimi-k2-thinking-paper_unstructured-query1-37",
    "dab-kimi-k2-thinking-paper_unstructured-query2-40",
    "dab-kimi-k2-thinking-paper_unstructured-query4-9",
    "dab-kimi-k2-thinking-stockindex-query1-16",
    "dab-kimi-k2-thinking-stockmarket-query2-19",
    "dab-kimi-k2-thinking-stockmarket-query5-24",
    "dab-kimi-k2-thinking-yelp-query2-24",
    "dab-kimi-k2-thinking-yelp-query3-6",
    "dab-kimi-k2-thinking-yelp-query5-14",
];

#[test]
fn the_larger_set_is_judged_as_documented() {
    let Some(files) = more() else { return };
    let (mut counts, mut killed_healthy, mut missed_loops) = ((0, 0), Vec::new(), Vec::new());
    for run in files.iter().flat_map(|file| runs(file, &[Counting::Progress])) {
        let is_killed = play(&run.calls, &Settings::default()).killed_at.is_some();
        let agent = run.label.agent.clone().unwrap_or_default();
        match Expect::of(&run.label) {
            Expect::Healthy => {
                counts.0 += 1;
                killed_healthy.extend(is_killed.then_some(agent));
            }
            Expect::Loop => {
                counts.1 += 1;
                missed_loops.extend((!is_killed).then_some(agent));
            }
            Expect::Unknown => {}
        }
    }
    killed_healthy.sort();
    missed_loops.sort();
    if std::env::var_os("KILL_SWITCH_TRACES").is_none() {
        assert_eq!(counts, (5485, 659));
        assert_eq!(killed_healthy, KILLED_HEALTHY);
        assert_eq!(missed_loops, MISSED_LOOPS);
    } else {
        let argued = |name: &String| KILLED_HEALTHY.contains(&name.as_str()) || MISSED_LOOPS.contains(&name.as_str());
        assert!(killed_healthy.iter().chain(&missed_loops).all(argued), "{killed_healthy:?}, {missed_loops:?}");
    }
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
