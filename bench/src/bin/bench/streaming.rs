//! Streamed answers: no event is held back, and little speed is lost.
//!
//! No timing is needed to show that no event is held back: the upstream sends an event only after the client has reported,
//! without going through Envoy, that the previous event has arrived. A filter that held an event back would stop the answer
//! for good.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bench::body::{Body, Shape};
use bench::stats::{median, ratio};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::options::Options;
use crate::rig::client::{Connection, Target};
use crate::rig::pool::{Load, Pool, load};
use crate::rig::{Listener, Rig};
use crate::row::{Goal, Row, Unit, Value};

/// The listeners that are compared.
const LISTENERS: [Listener; 3] = [Listener::Plain, Listener::Noop, Listener::Ours];
/// Events of an answer.
const EVENTS: usize = 200;
/// Events of an answer whose time to the first byte is measured.
const FEW: usize = 5;
/// Answers that are acknowledged event by event, in each round.
const STEPPED: usize = 5;
/// How many answers are streamed at once when events per second are measured.
const CONNECTIONS: usize = 8;

/// How long a turn takes.
const SLICE: Duration = Duration::from_millis(150);
/// An answer that takes longer has stopped for good.
const HELD_AFTER: Duration = Duration::from_secs(5);
/// Bytes that every event holds exactly once.
const MARK: &[u8] = b"\"delta\"";

/// The figures of a listener, by round.
#[derive(Default)]
struct Figures {
    first_byte: Vec<f64>,
    events: Vec<f64>,
    stepped: Vec<f64>,
    arrived: usize,
    sent: usize,
}

/// Measures all of it in one Envoy.
pub async fn measure(options: &Options) -> Vec<Row> {
    let rig = Rig::start(&LISTENERS, 1).await;
    rig.remote.enable("on", json!({})).await;
    let target = |listener, mode: &str, events: usize| rig.target(listener, "on", &format!("{mode} {events}"));
    let pool = Pool::new(Body { shape: Shape::Message, kilobytes: 10 });
    let slices = if options.quick { 2 } else { 6 };
    let mut all: BTreeMap<Listener, Figures> = BTreeMap::new();
    for round in 0..options.rounds() {
        let mut listeners = LISTENERS;
        listeners.rotate_left(round % LISTENERS.len());
        let mut loads: BTreeMap<Listener, [Load; 2]> = BTreeMap::new();
        for _ in 0..slices {
            for listener in listeners {
                let [few, many] = loads.entry(listener).or_default();
                few.add(load(&target(listener, "sse", FEW), &pool, 1, SLICE, 200).await);
                many.add(load(&target(listener, "sse", EVENTS), &pool, CONNECTIONS, SLICE, 200).await);
            }
        }
        for (listener, [few, many]) in loads {
            let figures = all.entry(listener).or_default();
            figures.first_byte.push(few.first_byte());
            figures.events.push(many.rate() * EVENTS as f64);
            step(&target(listener, "step", EVENTS), &pool, &rig.upstream.steps, figures).await;
        }
    }
    let kills = rig.envoy.stat("wasmcustom.kill_switch.kills").await;
    let unread = rig.envoy.stat("wasmcustom.kill_switch.answers_unread").await;
    assert_eq!((kills, unread), (0, 0), "kills, and answers that could not be read");
    rows(&all)
}

/// Streams answers of which each event is acknowledged before the next is sent.
async fn step(target: &Target, pool: &Pool, steps: &Semaphore, figures: &mut Figures) {
    if steps.is_closed() {
        return;
    }
    let mut connection = Connection::new(target.address);
    let started = Instant::now();
    for _ in 0..STEPPED {
        let (mut arrived, mut looked_at) = (0, 0);
        let call = connection.call_with(target, pool.next(), |seen| {
            // A mark may have been cut at the end of the part seen before.
            let new = count(&seen[looked_at..], MARK);
            looked_at = seen.len().saturating_sub(MARK.len() - 1);
            steps.add_permits(new);
            arrived += new;
        });
        let reply = tokio::time::timeout(HELD_AFTER, call).await;
        figures.arrived += arrived;
        figures.sent += EVENTS;
        let Ok(reply) = reply else {
            // An event is held back. Closing the semaphore lets the waiting upstream go.
            return steps.close();
        };
        assert_eq!(reply.status, 200, "an answer to {target:?}");
    }
    figures.stepped.push((STEPPED * EVENTS) as f64 / started.elapsed().as_secs_f64());
}

fn count(bytes: &[u8], wanted: &[u8]) -> usize {
    bytes.windows(wanted.len()).filter(|window| *window == wanted).count()
}

fn rows(all: &BTreeMap<Listener, Figures>) -> Vec<Row> {
    let [plain, noop, ours] = LISTENERS.map(|listener| &all[&listener]);
    let listed = |of: fn(&Figures) -> &Vec<f64>, unit: fn(f64) -> String| {
        let [plain, noop, ours] = [plain, noop, ours].map(|figures| unit(median(of(figures))));
        format!("on {ours}; no-op {noop}; no filter {plain}")
    };
    let per_second = |rate: f64| format!("{}/s", Value(rate, Unit::Count));
    let percent = |of: fn(&Figures) -> &Vec<f64>| Value(100.0 * ratio(of(ours), of(noop)), Unit::Percent);
    vec![
        Row::new(
            "events that arrive before the next is sent",
            format!("{} of {}", ours.arrived, ours.sent),
            Value(100.0 * ours.arrived as f64 / ours.sent as f64, Unit::Percent),
            Goal::AtLeast(100.0),
        ),
        Row::new(
            "time to the first byte of an answer",
            listed(|figures| &figures.first_byte, |us| Value(us, Unit::Microseconds).to_string()),
            Value(ratio(&ours.first_byte, &noop.first_byte), Unit::Times),
            Goal::AtMost(1.1),
        ),
        Row::new(
            format!("events per second, {CONNECTIONS} answers at once"),
            listed(|figures| &figures.events, per_second),
            percent(|figures| &figures.events),
            Goal::AtLeast(85.0),
        ),
        Row::new(
            "events per second, each acknowledged before the next",
            listed(|figures| &figures.stepped, per_second),
            percent(|figures| &figures.stepped),
            Goal::None,
        ),
    ]
}
