//! The commands `replay`, `fingerprint` and `compare`: what they print, and their exit codes.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::traces::{all_own, own};

fn kill_switch() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kill-switch"));
    // These commands need neither a server nor a token, so they need no environment.
    command.env_clear().stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    kill_switch().args(arguments).output().unwrap()
}

fn run_with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = kill_switch()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn error_of(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn path(name: &str) -> String {
    own(name).display().to_string()
}

#[test]
fn json_is_one_object_per_run_and_then_a_summary() {
    let all = objects(&printed(&run(&["replay", "--json", &path("results.jsonl")])));
    let (summary, runs) = all.split_last().unwrap();
    assert_eq!(
        runs[2],
        json!({"agent": "missing-file", "source": "own", "expect": "loop", "calls": 10, "killed_at": 7, "score": 12.5,
            "similar_prompts": 5, "similar_responses": 0, "repeated_tool_calls": 5})
    );
    assert_eq!(runs[0]["killed_at"], Value::Null);
    let summary = &summary["summary"];
    assert_eq!((&summary["runs"], &summary["calls"], &summary["killed"]), (&json!(4), &json!(60), &json!(2)));
    assert_eq!(summary["healthy"]["killed"], 0);
    assert_eq!(
        summary["loop"],
        json!({"runs": 2, "calls": 20, "killed": 2, "highest_score": 0.0, "median_killed_at": 7})
    );
    assert_eq!(summary["settings"], json!({"window_size": 20, "threshold": 10.0, "counting": "progress"}));
}

#[test]
fn tools_are_ignored_or_counted_from_a_number_on() {
    let killed_at = |rules: &[&str]| {
        let file = path("results.jsonl");
        let runs = objects(&printed(&run(&[&["replay", "--json", &file], rules].concat())));
        [runs[2]["killed_at"].clone(), runs[3]["killed_at"].clone()]
    };
    assert_eq!(killed_at(&[]), [json!(7), json!(7)]);
    assert_eq!(killed_at(&["--tool", "read_file=ignore"]), [Value::Null, json!(7)]);
    assert_eq!(killed_at(&["--tool", "read_file=8", "--tool", "http_get=ignore"]), [json!(9), Value::Null]);
    let error = error_of(&run(&["replay", "--tool", "read_file=21", &path("results.jsonl")]), 5);
    assert!(error.contains("tools.read_file (21) must be at most kill_switch_window_size (20)"), "{error}");
    let sweep = ["replay", "--json", "--sweep", "--window", "20", "--threshold", "10", "--tool", "read_file=ignore"];
    let rows = objects(&printed(&run(&[&sweep[..], &[&path("results.jsonl")]].concat())));
    assert_eq!(rows[0]["loop"]["killed"], 1, "{rows:?}");
}

#[test]
fn the_table_gives_reasons_and_can_be_limited_to_killed_runs() {
    let table = printed(&run(&["replay", &path("results.jsonl")]));
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("AGENT") && lines[0].ends_with("WHY"), "{table}");
    assert!(lines[3].contains("the same tool call read_file with the same result 6 times in the last 6 calls"));
    assert!(lines[6].starts_with("EXPECT"), "{table}");
    let killed = printed(&run(&["replay", "--killed", &path("results.jsonl")]));
    assert!(!killed.contains("tests-go-green") && killed.contains("missing-file"), "{killed}");
}

#[test]
fn standard_input_and_gzip_give_the_same_result_as_the_file() {
    let plain = std::fs::read(own("recorded.jsonl")).unwrap();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&plain).unwrap();
    let expected = printed(&run(&["replay", "--json", &path("recorded.jsonl")]));
    assert_eq!(printed(&run_with_input(&["replay", "--json", "-"], &plain)), expected);
    assert_eq!(printed(&run_with_input(&["replay", "--json", "-"], &gzip.finish().unwrap())), expected);
}

#[test]
fn calls_that_come_one_per_line_are_collected_by_agent_and_file() {
    let runs = objects(&printed(&run(&["replay", "--json", &path("recorded.jsonl"), &path("recorded.jsonl")])));
    let agents: Vec<_> = runs.iter().filter_map(|run| run["agent"].as_str()).collect();
    let once = ["weather-asker", "page-turner", "rejected", "unlucky", "streamed-refusal", "retrier"];
    assert_eq!(agents, [once, once].concat());
    assert_eq!(runs[2]["calls"], 16);
}

#[test]
fn a_bad_line_is_reported_and_the_others_are_played() {
    let good =
        r#"{"agent": "a", "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}"#;
    let input = format!("{good}\n{{\"agent\": \"b\"}}\n\nnonsense\n{good}");
    let output = run_with_input(&["replay", "--json", "-"], input.as_bytes());
    let error = error_of(&output, 1);
    assert!(error.contains("standard input, line 2: must have one of messages, calls or request"), "{error}");
    assert!(error.contains("standard input, line 4: expected ident"), "{error}");
    assert!(error.ends_with("2 lines could not be read\n"), "{error}");
    assert_eq!(objects(&String::from_utf8(output.stdout).unwrap()).len(), 3);
    let error = error_of(&run(&["replay", &path("results.jsonl"), "nowhere.jsonl"]), 1);
    assert!(error.contains("nowhere.jsonl: No such file"), "{error}");
}

#[test]
fn expect_fails_if_a_healthy_run_is_killed_or_a_loop_missed() {
    let files: Vec<String> = all_own().iter().map(|file| file.display().to_string()).collect();
    let with = |options: &[&str]| {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        run(&[&["replay", "--expect"], options, &files].concat())
    };
    printed(&with(&[]));
    for (options, expected) in [
        (&["--threshold", "50"][..], "0 healthy killed, 17 loops missed"),
        (&["--counting", "literal"], "11 healthy killed, 1 loops missed"),
        (&["--without", "results", "--without", "followups"], "4 healthy killed, 0 loops missed"),
    ] {
        let error = error_of(&with(options), 1);
        assert!(error.contains(expected), "{options:?}: {error}");
    }
}

#[test]
fn settings_have_the_bounds_of_a_policy() {
    let file = path("results.jsonl");
    for (options, code, expected) in [
        (&["--window", "101"][..], 5, "kill_switch_window_size (101) must be a whole number from 2 to 100"),
        (&["--threshold", "-1"], 5, "kill_switch_threshold (-1) must be above 0"),
        (&["--window", "5", "--threshold", "40"], 5, "the highest score a window of 5 can reach"),
        (&["--window", "10,20"], 5, "several settings at once need --sweep"),
        (&["--counting", "both"], 2, "must be progress or literal"),
        (
            &["--without", "luck"],
            2,
            "results, followups, sameness, novelty, information, wording, actions, ids, failures, cycles",
        ),
        (&["--sweep", "--window", "1"], 5, "kill_switch_window_size (1)"),
    ] {
        let error = error_of(&run(&[&["replay"], options, &[file.as_str()]].concat()), code);
        assert!(error.contains(expected), "{options:?}: {error}");
    }
}

#[test]
fn a_sweep_shows_what_each_setting_would_kill() {
    let file = path("novelty.jsonl");
    let table = printed(&run(&["replay", "--sweep", "--window", "20,40", "--threshold", "8,10", &file]));
    let cells: Vec<Vec<&str>> =
        table.lines().map(|line| line.split("  ").filter(|cell| !cell.is_empty()).collect()).collect();
    assert_eq!(cells.len(), 9, "a heading, two countings, two windows, two thresholds: {table}");
    let trimmed: Vec<_> = cells[2].iter().map(|cell| cell.trim()).collect();
    assert_eq!(trimmed, ["progress", "20", "10", "0 of 1", "2 of 2", "13", "0 of 0"]);
    let rows = objects(&printed(&run(&["replay", "--sweep", "--json", &file])));
    assert_eq!(rows.len(), 48);
    assert_eq!(rows[0]["window_size"], 10);
}

#[test]
fn the_patterns_of_a_filter_configuration_are_used() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("filter.json");
    std::fs::write(
        &config,
        r#"{"cluster": "kill-switch", "token_env": "TOKEN", "patterns": [{"pattern": "BOOKING-[A-Z]+", "placeholder": "<BOOKING>"}]}"#,
    )
    .unwrap();
    let config = config.display().to_string();
    let text = printed(&run_with_input(&["fingerprint", "--filter-config", &config, "-"], b"Cancel BOOKING-QXZ now"));
    assert!(text.starts_with("normalised   cancel <BOOKING> now\n"), "{text}");
    let words = ["QXZ", "PLM", "RTY", "WSD", "VBN", "HJK", "LOP", "AQE"];
    let calls: Vec<_> = words
        .map(|word| {
            json!({"request": {"messages": [{"role": "user", "content": format!("Cancel BOOKING-{word}")}]},
                "response": {"choices": [{"message": {"content": "The booking office is closed today."}}]}})
        })
        .into();
    let line = json!({"agent": "a", "calls": calls}).to_string();
    let killed_at = |options: &[&str]| {
        let output = run_with_input(&[&["replay", "--json", "-"], options].concat(), line.as_bytes());
        objects(&printed(&output))[0]["killed_at"].clone()
    };
    assert_eq!(killed_at(&[]), Value::Null);
    assert_eq!(killed_at(&["--filter-config", &config]), 6);
}

#[test]
fn fingerprint_shows_the_text_as_the_detector_sees_it() {
    let text =
        printed(&run_with_input(&["fingerprint", "-"], b"Where is Order #12345,  placed 2024-01-15T10:30:00Z?\n"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "normalised   where is order #<NUM>, placed <TS>?");
    assert_eq!(lines[3], "informative  yes");
    let shown: Value = serde_json::from_str(&printed(&run_with_input(&["fingerprint", "--json", "-"], b"ok"))).unwrap();
    assert_eq!((&shown["normalised"], &shown["informative"]), (&json!("ok"), &json!(false)));
    assert_eq!(shown["hash"].as_str().unwrap().len(), 16);
}

#[test]
fn compare_tells_similar_from_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let twelve = file("a", "12 tests failed, see the log of the build");
    for (text, similar, same, expected) in [
        ("12 tests failed, see the LOG of  the build\n", true, true, "same      yes"),
        ("7 tests failed, see the log of the build", true, false, "same      no: a number that stands free differs"),
        ("everything is green, the release can go out", false, false, "similar   no: not below 3"),
    ] {
        let other = file("b", text);
        let compared: Value = serde_json::from_str(&printed(&run(&["compare", "--json", &twelve, &other]))).unwrap();
        assert_eq!((&compared["similar"], &compared["same"]), (&json!(similar), &json!(same)), "{text}");
        assert_eq!(compared["distance"].as_u64().unwrap() < 3, similar);
        assert_eq!(compared["a"]["normalised"], "<NUM> tests failed, see the log of the build");
        let table = printed(&run(&["compare", &twelve, &other]));
        assert!(table.contains(expected), "{table}");
    }
    error_of(&run(&["compare", &twelve, "nowhere"]), 1);
}
