//! The module itself: its size, and how much longer Envoy takes to start with it.

use std::time::Instant;

use bench::stats::median;

use crate::options::Options;
use crate::rig::upstream::Upstream;
use crate::rig::{self, Listener};
use crate::row::{Goal, Row, Unit, Value};

/// Starts Envoys with the module and without it, in turns.
pub async fn measure(options: &Options) -> Vec<Row> {
    let upstream = Upstream::start();
    // The sidecar does not run: only loading is measured, without the first sync.
    let sidecar = rig::sidecar();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..options.rounds() {
        for (times, listener) in times.iter_mut().zip([Listener::Plain, Listener::Ours]) {
            let started = Instant::now();
            drop(rig::envoy(&[listener], upstream.address, sidecar.address(), 1).await);
            times.push(started.elapsed().as_secs_f64());
        }
    }
    let [without, with] = &times;
    let longer: Vec<f64> = with.iter().zip(without).map(|(with, without)| with - without).collect();
    let [with, without] = [with, without].map(|times| Value(median(times), Unit::Seconds));
    let module = lab::proc::wasm_module();
    let bytes = std::fs::metadata(&module).unwrap_or_else(|error| panic!("{}: {error}", module.display())).len();
    vec![
        Row::new("size of the module", "", Value(bytes as f64, Unit::Bytes), Goal::AtMost(512.0 * 1024.0)),
        Row::new(
            "additional time until Envoy is ready",
            format!("with {with}; without {without}"),
            Value(median(&longer), Unit::Seconds),
            Goal::Below(1.0),
        ),
    ]
}
