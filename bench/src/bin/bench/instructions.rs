//! The number of instructions of one call, counted by callgrind. It does not depend on how busy the machine is.
//!
//! The call runs natively after a few other calls, so that late binding and the first use of buffers are not counted.

use std::process::Command;

use bench::answer::TEXT_BYTES;
use bench::body::{ALL, Body, Shape};
use bench::cell::SEED;

use crate::options::Options;
use crate::paths;
use crate::row::{Goal, Row, Unit, Value};

/// Counts the instructions for every body, or with `--quick` for the bodies of 100 KB.
pub fn measure(options: &Options) -> Vec<Row> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("SKIPPED: valgrind is not installed, so instructions were not counted");
        return Vec::new();
    }
    let bodies = ALL.iter().enumerate().filter(|(_, body)| !options.quick || body.kilobytes == 100);
    let bodies = bodies.flat_map(|(number, body)| rows(*body, count("once", number)));
    bodies.chain(answers()).collect()
}

fn rows(body: Body, instructions: f64) -> Vec<Row> {
    let bytes = body.text(SEED).len() as f64;
    let per_kilobyte = Value(instructions / bytes * 1024.0, Unit::Count);
    let before = match (body.shape, body.kilobytes) {
        (Shape::Message, 100) => ", 96 per byte before it was optimised",
        (Shape::History, 100) => ", 902,000 before it was optimised",
        _ => "",
    };
    let measured = format!("{per_kilobyte} per KB{before}");
    let in_all = Goal::AtMost(13_000.0);
    let goal = if body.shape == Shape::History && body.kilobytes == 100 { in_all } else { Goal::None };
    let mut rows = vec![Row::new(format!("instructions: {body}"), measured, Value(instructions, Unit::Count), goal)];
    if body.shape == Shape::Message && body.kilobytes == 100 {
        let per_byte = Value(instructions / bytes, Unit::Count);
        rows.push(Row::new(format!("instructions per byte: {body}"), "", per_byte, Goal::AtMost(19.0)));
    }
    rows
}

/// What the search for words that the model repeats adds to reading an answer.
fn answers() -> [Row; 2] {
    [("streamed, an event for each word", 0), ("not streamed", 2)].map(|(name, number)| {
        let (without, with) = (count("answer", number), count("answer", number + 1));
        let per_byte = Value(with / TEXT_BYTES as f64, Unit::Count);
        let measured = format!("{per_byte} instructions per byte of text");
        let name = format!("search for repetitions in an answer, {name}");
        Row::new(name, measured, Value(with / without, Unit::Times), Goal::AtMost(1.1))
    })
}

fn count(what: &str, number: usize) -> f64 {
    let mut command = Command::new("valgrind");
    command.env("LD_BIND_NOW", "1");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*counted_call*"]);
    command.arg(paths::measured("pipeline")).arg(what).arg(number.to_string());
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse::<f64>().ok());
    count.filter(|count| *count > 0.0).unwrap_or_else(|| panic!("valgrind counted nothing: {text}"))
}
