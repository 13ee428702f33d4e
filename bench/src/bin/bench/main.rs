//! Measures everything on docs/benchmarks.md in one run, and writes that page.
//!
//! `make bench` builds what this needs and starts it. Each part returns rows. A missed goal is shown but is not an error. A
//! part panics if it finds that it did not measure what it is meant to measure.

// Tooling: a program that cannot continue panics with a good message.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod accuracy;
mod cpu;
mod dashboard;
mod document;
mod envoy;
mod fleet;
mod instructions;
mod machine;
mod module;
mod options;
mod paths;
mod picture;
mod pipeline;
mod rig;
mod row;
mod scale;
mod streaming;
mod table;

use clap::{Parser, ValueEnum};

use options::{Options, Part};
use row::Row;

struct Section {
    part: Part,
    rows: Vec<Row>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let options = Options::parse();
    let mut sections = Vec::new();
    for &part in Part::value_variants().iter().filter(|part| options.wants(**part)) {
        eprintln!("measuring: {}", part.title());
        sections.push(Section { part, rows: measure(part, &options).await });
    }
    for section in &sections {
        println!("\n{}\n\n{}", section.part.title(), table::terminal(&section.rows));
    }
    let summary = summary(&sections);
    println!("\n{summary}");
    if options.is_all() {
        let page = document::page(&sections, &machine::describe(), &summary);
        write("docs/benchmarks.md", &page);
        write("docs/benchmarks.svg", &picture::svg(&sections));
    }
}

/// Says how many goals are reached.
fn summary(sections: &[Section]) -> String {
    let verdicts: Vec<bool> = sections.iter().flat_map(|section| &section.rows).filter_map(Row::passes).collect();
    let passed = verdicts.iter().filter(|passes| **passes).count();
    format!("{} goals: {passed} PASS, {} MISS.", verdicts.len(), verdicts.len() - passed)
}

fn write(name: &str, text: &str) {
    let path = paths::root().join(name);
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    println!("written: {name}");
}

async fn measure(part: Part, options: &Options) -> Vec<Row> {
    match part {
        Part::Pipeline => pipeline::measure(options),
        Part::Envoy => envoy::measure(options).await,
        Part::Instructions => instructions::measure(options),
        Part::Streaming => streaming::measure(options).await,
        Part::Scale => scale::measure(options).await,
        Part::Module => module::measure(options).await,
        Part::Accuracy => accuracy::measure(options),
        Part::Fleet => fleet::measure(options).await,
        Part::Cpu => cpu::measure(options).await,
        Part::Dashboard => dashboard::measure(options).await,
    }
}
