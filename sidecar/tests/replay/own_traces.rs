//! The recordings that were written for the project. Each rule of progress counting has a file with a healthy run and
//! a loop. Without the rule, the healthy run would be killed or the loop would be missed. Two more files hold other shapes of
//! lines and other APIs.

use kill_switch::replay::detector::{Counting, Rules};
use kill_switch::replay::tally::Expect;
use kill_switch::replay::{Outcome, Run, Settings, play};

use crate::traces::{all_own, own, runs, runs_with};

const BOTH: [Counting; 2] = [Counting::Progress, Counting::Literal];

fn wrong(runs: &[Run], settings: &Settings) -> Vec<String> {
    let is_wrong = |run: &&Run| !Expect::of(&run.label).is_met_by(&play(&run.calls, settings));
    runs.iter().filter(is_wrong).map(|run| run.label.agent.clone().unwrap()).collect()
}

#[test]
fn no_healthy_run_is_killed_and_every_loop_is() {
    for file in all_own() {
        let runs = runs(&file, &BOTH);
        assert!(runs.iter().any(|run| Expect::of(&run.label) == Expect::Healthy), "{}", file.display());
        assert!(runs.iter().any(|run| Expect::of(&run.label) == Expect::Loop), "{}", file.display());
        assert_eq!(wrong(&runs, &Settings::default()), [""; 0], "{}", file.display());
    }
}

/// The rules that find loops. The others protect healthy runs.
const FINDS_LOOPS: [&str; 4] = ["actions", "ids", "failures", "cycles"];

#[test]
fn without_its_rule_a_run_of_each_file_is_judged_wrongly() {
    for rule in Rules::NAMES {
        let rules = Rules::default().without(rule).unwrap();
        let runs = runs_with(rules, &own(&format!("{rule}.jsonl")), &BOTH);
        let wrong = wrong(&runs, &Settings { rules, ..Settings::default() });
        assert!(!wrong.is_empty(), "without {rule}, nothing changes");
        let kind = if FINDS_LOOPS.contains(&rule) { Expect::Loop } else { Expect::Healthy };
        for run in runs.iter().filter(|run| wrong.contains(run.label.agent.as_ref().unwrap())) {
            assert_eq!(Expect::of(&run.label), kind, "without {rule}: {:?}", run.label.agent);
        }
    }
}

#[test]
fn each_loop_is_killed_at_its_call_with_its_reason() {
    let outcomes: Vec<(String, Outcome)> = all_own()
        .iter()
        .flat_map(|file| runs(file, &BOTH))
        .map(|run| (run.label.agent.unwrap(), play(&run.calls, &Settings::default())))
        .collect();
    let cases = [
        ("missing-file", 7, "the same tool call read_file with the same result 6 times in the last 6 calls"),
        ("timed-out-service", 7, "the same tool call http_get with the same result 6 times in the last 6 calls"),
        (
            "build-fixer-stuck",
            5,
            "the same action with the same result 4 times and the same input 4 times and the same answer 4 times in the last 5 calls",
        ),
        ("order-asker", 6, "the same input 6 times and the same answer 5 times in the last 6 calls"),
        ("two-step", 13, "the same tool call read_file with the same result 6 times in the last 11 calls"),
        ("three-step", 15, "a cycle: 11 of the last 15 calls repeat an earlier call and its result"),
        ("endless-continue", 13, "the same input 12 times in the last 12 calls"),
        ("log-reader-stuck", 7, "the same tool call query_logs with the same result 6 times in the last 6 calls"),
        ("table-booker", 7, "the same tool call find_table with the same result 6 times in the last 6 calls"),
        (
            "weather-asker",
            6,
            "the same tool call get_weather with nothing new in its results 6 times in the last 6 calls",
        ),
        (
            "rejected",
            6,
            "the same input 6 times and refused as wrong by the upstream (status 422) 5 times in the last 6 calls",
        ),
        ("query-tuner-stuck", 6, "the same input 5 times and the same answer 5 times in the last 6 calls"),
        (
            "releaser-stuck",
            7,
            "the same action with the same result 6 times and the same input 6 times in the last 6 calls",
        ),
        ("order-reader-stuck", 7, "the same tool call query with the same result 6 times in the last 6 calls"),
        ("plotter-stuck", 11, "the same failing result 10 times in a row, whatever was called"),
        ("six-step", 18, "a cycle: 11 of the last 18 calls repeat an earlier call and its result"),
        ("streamed-refusal", 6, "the same input 6 times and the same answer 5 times in the last 6 calls"),
    ];
    for (agent, call, reason) in cases {
        let (_, outcome) = outcomes.iter().find(|(name, _)| name == agent).unwrap();
        assert_eq!((outcome.killed_at, outcome.reason.as_deref()), (Some(call), Some(reason)), "{agent}");
    }
    let killed = outcomes.iter().filter(|(_, outcome)| outcome.killed_at.is_some()).count();
    assert_eq!(killed, cases.len(), "every kill is listed here");
}

#[test]
fn literal_counting_kills_most_healthy_runs() {
    let literal = Settings { counting: Counting::Literal, ..Settings::default() };
    let healthy = |file: &std::path::PathBuf| -> Vec<Run> {
        runs(file, &BOTH).into_iter().filter(|run| Expect::of(&run.label) == Expect::Healthy).collect()
    };
    let mut killed: Vec<String> = all_own().iter().flat_map(|file| wrong(&healthy(file), &literal)).collect();
    killed.sort();
    let expected = [
        "build-fixer",
        "careful-refactorer",
        "deployment-watcher",
        "importer-fixer",
        "log-reader",
        "page-turner",
        "plotter",
        "query-tuner",
        "silent-renamer",
        "tests-go-green",
        "ticket-sorter",
    ];
    assert_eq!(killed, expected);
}

#[test]
fn a_lower_threshold_never_kills_later() {
    for run in all_own().iter().flat_map(|file| runs(file, &BOTH)) {
        let call = |threshold| play(&run.calls, &Settings { threshold, ..Settings::default() }).killed_at;
        let calls = [20.0, 15.0, 10.0, 8.0, 6.0, 4.0].map(|threshold| call(threshold).unwrap_or(usize::MAX));
        assert!(calls.is_sorted_by(|a, b| a >= b), "{:?}: {calls:?}", run.label.agent);
    }
}
