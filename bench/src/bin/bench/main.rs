//! Measures everything that docs/benchmarks.md says, in one run, and writes it down.
//!
//! `make bench` builds what this needs and starts it. Each part returns rows; a goal that is missed is shown, and is no
//! failure: this is a measurement. What is a failure is a measurement that does not measure what it says, and then the
//! part that finds out panics.

// Tooling: where it cannot go on, a panic with a good message is the result that is wanted.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod instructions;
mod options;
mod paths;
mod pipeline;
mod row;
mod table;

use clap::Parser;

use options::{Options, Part};
use row::{Row, Verdict};

/// One part's rows.
struct Section {
    part: Part,
    rows: Vec<Row>,
}

fn main() {
    let options = Options::parse();
    let mut sections = Vec::new();
    for part in Part::ALL.into_iter().filter(|part| options.wants(*part)) {
        eprintln!("measuring: {}", part.title());
        sections.push(Section { part, rows: measure(part, &options) });
    }
    for section in &sections {
        println!("\n{}\n\n{}", section.part.title(), table::terminal(&section.rows));
    }
    let count =
        |verdict| sections.iter().flat_map(|section| &section.rows).filter(|row| row.verdict() == verdict).count();
    println!("\n{} PASS, {} MISS", count(Some(Verdict::Pass)), count(Some(Verdict::Miss)));
}

fn measure(part: Part, options: &Options) -> Vec<Row> {
    match part {
        Part::Pipeline => pipeline::measure(options),
        Part::Instructions => instructions::measure(options),
        _ => Vec::new(),
    }
}
