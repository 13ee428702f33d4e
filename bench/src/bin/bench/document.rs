//! docs/benchmarks.md: the tables, the machine, and how each part is measured.

use crate::Section;
use crate::options::Part;
use crate::table;

pub fn page(sections: &[Section], machine: &[(&'static str, String)], summary: &str) -> String {
    let mut page = format!(
        "# Benchmarks\n\n\
         This page is written by `make bench`. Compare the ratios, not the times: the times depend on the machine below,\n\
         which also has other users. A ratio compares short slices of the same run, which alternate, and is the median\n\
         of all rounds.\n\n\
         {summary}\n\n\
         ![How close each figure is to its goal](benchmarks.svg)\n\n"
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

/// Says how a part is measured.
fn about(part: Part) -> &'static str {
    match part {
        Part::Pipeline => {
            "Decode, normalise, SimHash, a window of 20 and the score, on chat requests of generated text that does not\n\
             repeat itself. *Naive* parses the whole body to a JSON value, normalises with regular expressions, and has 64\n\
             counters for each feature; a test checks that it finds the same fingerprint in every bit. *Copy and touch*\n\
             copies the body once and reads a byte of each cache line. *wasm* runs in V8, in Node, compiled in the same\n\
             way as in Envoy. The value is the time of the naive pipeline divided by that of ours, unless the row says\n\
             otherwise."
        }
        Part::Envoy => {
            "One Envoy has one worker and a listener for each filter. Connections are HTTP/1.1 and kept alive; upstream and\n\
             client are written by hand. *no-op* is a wasm filter that holds each request until its body is complete and\n\
             reads nothing; the values are relative to it. *on*, *off* and *inactive* are our filter with an agent in that\n\
             state. The traffic of *on* is healthy, and Envoy's counters confirm that all of it was judged. *Lua* asks for\n\
             the body and does nothing. Times are measured on one connection, throughput on 32. A *streamed* answer has 20\n\
             events. Bodies of 8 MB, about a context of a million tokens, are the largest that the filter judges by default,\n\
             and are measured on one connection only."
        }
        Part::Streaming => {
            "In the first and the last row the upstream sends an event only after the client has reported, without going\n\
             through Envoy, that the previous event has arrived. If the filter held an event back, the answer would stop\n\
             there. In the other rows the upstream sends events without waiting."
        }
        Part::Scale => {
            "Two sidecars, one with one agent and one with a hundred thousand, and an Envoy with two workers for each. A\n\
             change is in force when each of four connections, two on each worker, has received an answer that shows it.\n\
             A conversation is named by a session id in a header, and its requests have a short history. Agents and\n\
             conversations that call in turn have all called once before the measurement."
        }
        Part::Module => "Envoy is started with the filter and without it, in turns.",
        Part::Instructions => {
            "Counted by callgrind, natively, for one call after a few others. The numbers are the same in every run."
        }
        Part::Accuracy => {
            "Generated texts of five words to a hundred kilobytes: English, code, Russian, Arabic, Chinese and Japanese.\n\
             Each is compared with every other one. Two texts are different if they have less than a third of their words\n\
             in common, counted exactly."
        }
        Part::Fleet => {
            "An agent loops over four Envoys in turn, without pauses. They report to one sidecar with SQLite. The time is\n\
             from the beginning of its sixth call, which one Envoy that sees everything refuses, to that of the last call\n\
             that is served; the slowest of several loops counts. CPU time is the user and system time of the process,\n\
             HTTP and JSON included. For it, eight workers report the calls of a hundred agents. *Another replica* gets\n\
             no reports itself, but merges what the first one writes to PostgreSQL. The rows about p99 compare calls\n\
             through four Envoys, made at a fixed rate, with `fleet: true` and with `fleet: false`, in turns of ten\n\
             seconds and for a minute each. For them the sidecar has the lowest priority, since in a mesh it takes no\n\
             cores from the Envoys. [scaling.md](scaling.md) says what follows from these numbers."
        }
        Part::Cpu => {
            "User and system time of the Envoy process, divided by the requests, under a steady load on two workers. The\n\
             value is the difference from a request without an agent id, which the filter forwards after reading its\n\
             headers."
        }
        Part::Dashboard => {
            "One sidecar with SQLite, 10,000 agents, 100,000 scores and 20,000 events of the last week. A page is *fetched*\n\
             without a browser, from the request to the last byte, and *opened* in a headless Chromium. Values are medians."
        }
    }
}
