//! docs/benchmarks.md: the tables, the machine, and how each part was measured.

use crate::Section;
use crate::options::Part;
use crate::table;

/// The page.
pub fn page(sections: &[Section], machine: &[(&'static str, String)], summary: &str) -> String {
    let mut page = format!(
        "# Benchmarks\n\n\
         Written by `make bench`, which measures all of this anew. Compare the ratios: each was taken between slices of one\n\
         run that took turns, and is the median over its rounds. Times are of the machine below, which others use, too.\n\n\
         {summary}\n\n\
         ![How much of what its goal allows each figure uses](benchmarks.svg)\n\n"
    );
    for (name, value) in machine {
        page += &format!("- {name}: {value}\n");
    }
    for section in sections {
        page +=
            &format!("\n## {}\n\n{}\n\n{}", section.part.title(), about(section.part), table::markdown(&section.rows));
    }
    page
}

/// How a part is measured.
fn about(part: Part) -> &'static str {
    match part {
        Part::Pipeline => {
            "Decode, normalise, SimHash, a window of 20 and the score, on chat requests of generated text that does not\n\
             repeat itself. *Naive*: the whole body as a JSON value, regular expressions over the text, 64 counters for\n\
             each feature; it finds the same fingerprint in every bit, which a test holds. *Copy and touch*: the body\n\
             copied once and a byte of each cache line read. *wasm*: in V8, by Node, compiled as Envoy has V8 compile. The\n\
             value is how many times as long the naive one takes."
        }
        Part::Envoy => {
            "One Envoy with one worker and a listener for each filter; HTTP/1.1, connections kept; upstream and client by\n\
             hand. *no-op*: a wasm filter that holds each request until its body is whole and looks at nothing; the values\n\
             compare with it. *on*, *off*, *inactive*: ours, with an agent in that state; the traffic of *on* is healthy,\n\
             and Envoy's counters confirm that all of it was judged. *Lua*: asks for the body and does nothing. Times are\n\
             of one connection, the percentiles of each round's; throughput is of 32. *Streamed*: an answer of 20 events."
        }
        Part::Streaming => {
            "The upstream sends an event only when the client has said, past Envoy, that it has the one before: were any of\n\
             them held back, the answer would end there. The other rows are of answers that stream freely."
        }
        Part::Scale => {
            "Two sidecars, one with one agent and one with a hundred thousand, and an Envoy for each, with two workers. A\n\
             change is in force when each of four connections, two on each worker, has got an answer that shows it."
        }
        Part::Module => "Envoy's start with the filter and without, in turns.",
        Part::Instructions => {
            "Counted by callgrind, natively, for one call once everything is warm: the same number every time."
        }
        Part::Accuracy => {
            "Excerpts of five words to a hundred kilobytes of the documentation, manual pages and sources of the machine,\n\
             each compared with each. Different: less than a third of the words in common, counted exactly."
        }
    }
}
