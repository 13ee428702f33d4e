//! Measures everything that docs/benchmarks.md says, in one run, and writes it down.
//!
//! `make bench` builds what this needs and starts it. Each part returns rows; a goal that is missed is shown, and is no
//! failure: this is a measurement. What is a failure is a measurement that does not measure what it says, and then the
//! part that finds out panics.

// Tooling: where it cannot go on, a panic with a good message is the result that is wanted.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod accuracy;
mod document;
mod envoy;
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

use clap::Parser;

use options::{Options, Part};
use row::{Row, Verdict};

/// One part's rows.
struct Section {
    part: Part,
    rows: Vec<Row>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let options = Options::parse();
    let mut sections = Vec::new();
    for part in Part::ALL.into_iter().filter(|part| options.wants(*part)) {
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

/// How many goals are reached.
fn summary(sections: &[Section]) -> String {
    let verdicts: Vec<Verdict> = sections.iter().flat_map(|section| &section.rows).filter_map(Row::verdict).collect();
    let passed = verdicts.iter().filter(|verdict| **verdict == Verdict::Pass).count();
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
    }
}
