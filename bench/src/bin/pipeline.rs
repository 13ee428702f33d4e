//! Runs the pipeline natively.
//!
//! `pipeline time ROUNDS SLICE_MS` prints a line of JSON for each cell of each round, as `pipeline.mjs` does for the
//! module. `pipeline once BODY` processes body number BODY a few times, the last time in a function of its own, so that
//! callgrind can count the instructions of that call only. `pipeline answer NUMBER` does the same with an answer: a streamed
//! one (0, or 1 with the search for repetitions) or a whole one (2 or 3).
#![allow(clippy::panic, clippy::expect_used)] // tooling: a program that cannot continue panics with a good message

use std::hint::black_box;
use std::time::{Duration, Instant};

use bench::answer::{BenchAnswer, Delivery};
use bench::body::ALL;
use bench::cell::{Table, WAYS};

/// The number of the fast way.
const FAST: usize = 0;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| -> u32 {
        arguments
            .get(index)
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("argument {index} must be a number"))
    };
    match arguments.first().map(String::as_str) {
        Some("time") => time(number(1), Duration::from_millis(u64::from(number(2)))),
        Some("once") => once(number(1) as usize),
        Some("answer") => answer(number(1)),
        _ => panic!("usage: pipeline time ROUNDS SLICE_MS, pipeline once BODY, or pipeline answer NUMBER"),
    }
}

fn time(rounds: u32, slice: Duration) {
    let mut table = Table::default();
    let cells: Vec<(usize, usize)> =
        (0..ALL.len()).flat_map(|body| (0..WAYS.len()).map(move |way| (body, way))).collect();
    let times: Vec<u32> = cells.iter().map(|&(body, way)| times(&mut table, (body, way), slice)).collect();
    for round in 0..rounds {
        for (&(body, way), &times) in cells.iter().zip(&times) {
            let ns = elapsed(&mut table, (body, way), times).as_nanos() as f64 / f64::from(times);
            println!(r#"{{"round":{round},"body":{body},"way":{way},"ns":{ns:.1}}}"#);
        }
    }
}

/// Returns how often a cell can be run in a slice of time, once it is warm.
fn times(table: &mut Table, cell: (usize, usize), slice: Duration) -> u32 {
    let mut times = 1;
    loop {
        let taken = elapsed(table, cell, times);
        if taken * 4 > slice {
            return (f64::from(times) * slice.as_secs_f64() / taken.as_secs_f64()).ceil().max(1.0) as u32;
        }
        times *= 4;
    }
}

fn elapsed(table: &mut Table, (body, way): (usize, usize), times: u32) -> Duration {
    let started = Instant::now();
    black_box(table.run(way, body, times));
    started.elapsed()
}

fn once(body: usize) {
    let body = ALL.get(body).unwrap_or_else(|| panic!("there are {} bodies", ALL.len()));
    let mut table = Table::of(&[*body]);
    black_box(table.run(FAST, 0, 3));
    black_box(counted_call(&mut table));
}

fn answer(number: u32) {
    let answer = BenchAnswer::new(if number < 2 { Delivery::Streamed } else { Delivery::Whole });
    let finds_repetition = number % 2 == 1;
    black_box(answer.read(finds_repetition));
    black_box(counted_call_of_answer(&answer, finds_repetition));
}

/// The answer whose instructions are counted.
#[inline(never)]
fn counted_call_of_answer(answer: &BenchAnswer, finds_repetition: bool) -> u64 {
    answer.read(finds_repetition)
}

/// The call whose instructions are counted.
#[inline(never)]
fn counted_call(table: &mut Table) -> u64 {
    table.run(FAST, 0, 1)
}
