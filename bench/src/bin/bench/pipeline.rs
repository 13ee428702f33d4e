//! Compares the pipeline with the naive one and with copying the body, natively and as wasm in V8.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use bench::body::{ALL, Body, Shape};
use bench::cell::{WAYS, Way};
use bench::stats::{median, ratio};
use serde::Deserialize;

use crate::options::Options;
use crate::paths;
use crate::row::{Goal, Row, Unit, Value};

/// A line of the output of the measured programs.
#[derive(Deserialize)]
struct Sample {
    body: usize,
    way: usize,
    ns: f64,
}

/// The times of each cell in microseconds, by round.
type Times = BTreeMap<(Body, Way), Vec<f64>>;

/// Measures the pipeline natively and as wasm.
pub fn measure(options: &Options) -> Vec<Row> {
    let arguments =
        ["time".to_owned(), options.rounds().to_string(), if options.quick { "10" } else { "40" }.to_owned()];
    let native = times(Command::new(paths::measured("pipeline")).args(&arguments));
    let mut node = Command::new("node");
    node.args(["--no-warnings", "--no-liftoff", "--no-wasm-lazy-compilation"]);
    node.arg(paths::root().join("bench/pipeline.mjs")).arg(paths::measured_module()).args(&arguments[1..]);
    if Command::new("node").arg("--version").output().is_err() {
        eprintln!("SKIPPED: node is not installed, so the pipeline was not measured as wasm");
        return against_naive("native", &native, |_| Goal::None);
    }
    let wasm = times(&mut node);
    let mut rows = against_naive("wasm", &wasm, goal);
    rows.extend(of_wasm(&wasm));
    rows.extend(against_naive("native", &native, |_| Goal::None));
    rows
}

fn times(command: &mut Command) -> Times {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?} ended with {}", output.status);
    let mut times = Times::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let sample: Sample = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        times.entry((ALL[sample.body], WAYS[sample.way])).or_default().push(sample.ns / 1000.0);
    }
    times
}

/// Returns the goal of a body in wasm.
fn goal(body: Body) -> Goal {
    match (body.shape, body.kilobytes) {
        (Shape::Message, 1) => Goal::AtLeast(90.0),
        (Shape::Message, 10 | 100) => Goal::AtLeast(140.0),
        _ => Goal::None,
    }
}

fn against_naive(engine: &str, times: &Times, goal: impl Fn(Body) -> Goal) -> Vec<Row> {
    let of = |body, way| times[&(body, way)].as_slice();
    let row = |body: &Body| {
        let [fast, naive, floor] = WAYS.map(|way| Value(median(of(*body, way)), Unit::Microseconds));
        let measured = format!("{fast}; naive {naive}; copy and touch {floor}");
        let value = Value(ratio(of(*body, Way::Naive), of(*body, Way::Fast)), Unit::Times);
        Row::new(format!("{engine}: {body}"), measured, value, goal(*body))
    };
    ALL.iter().map(row).collect()
}

/// Returns the rows of the other goals in wasm: long messages, and histories compared with copying the body.
fn of_wasm(times: &Times) -> Vec<Row> {
    let of = |shape, kilobytes, way| times[&(Body { shape, kilobytes }, way)].as_slice();
    let both = |one: &[f64], word: &str, other: &[f64]| {
        let [one, other] = [one, other].map(|times| Value(median(times), Unit::Microseconds));
        format!("{one}; {word} {other}")
    };
    let (megabyte, hundred) = (of(Shape::Message, 1024, Way::Fast), of(Shape::Message, 100, Way::Fast));
    let mut rows = vec![Row::new(
        "wasm: one message, 1 MB against 100 KB",
        both(megabyte, "100 KB", hundred),
        Value(ratio(megabyte, hundred), Unit::Times),
        Goal::AtMost(2.0),
    )];
    for (kilobytes, most) in [(100, 50.0), (1024, 4.0)] {
        let [history, floor] = [Way::Fast, Way::Floor].map(|way| of(Shape::History, kilobytes, way));
        rows.push(Row::new(
            format!("wasm: {} against copy and touch", Body { shape: Shape::History, kilobytes }),
            both(history, "copy and touch", floor),
            Value(100.0 * ratio(history, floor), Unit::Percent),
            Goal::AtMost(most),
        ));
    }
    rows
}
