//! The filter in a real Envoy, against a filter that holds bodies and does nothing.
//!
//! Envoy has one worker, so that Envoy is the bottleneck and not the machine. All kinds of traffic take turns in short
//! slices, each round in another order. At the end Envoy's own counters must confirm that all calls that should have been
//! judged were judged, and that no agent was stopped.

use std::collections::BTreeMap;
use std::time::Duration;

use bench::body::{Body, Shape};
use bench::stats::{median, ratio};
use lab::proc::Envoy;
use serde_json::json;

use crate::options::Options;
use crate::rig::pool::{Load, Pool, load};
use crate::rig::{Listener, Rig};
use crate::row::{Goal, Row, Unit, Value};

/// A kind of traffic: the filter, and the state of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Variant {
    Plain,
    Noop,
    Off,
    On,
    Inactive,
    Lua,
}

impl Variant {
    const ALL: [Self; 6] = [Self::Plain, Self::Noop, Self::Off, Self::On, Self::Inactive, Self::Lua];

    fn listener(self) -> Listener {
        match self {
            Self::Plain => Listener::Plain,
            Self::Noop => Listener::Noop,
            Self::Lua => Listener::Lua,
            Self::Off | Self::On | Self::Inactive => Listener::Ours,
        }
    }

    /// Returns its name in the results, which is also the name of its agent.
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "no filter",
            Self::Noop => "no-op",
            Self::Off => "off",
            Self::On => "on",
            Self::Inactive => "inactive",
            Self::Lua => "Lua",
        }
    }

    fn status(self) -> u16 {
        if self == Self::Inactive { 403 } else { 200 }
    }
}

/// The connections on which throughput is measured.
const MANY: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    body: Body,
    answer: &'static str,
    connections: usize,
}

/// The load of each kind of traffic, by round.
type Results = BTreeMap<(Case, Variant), Vec<Load>>;

const BODIES: [Body; 6] = [
    Body { shape: Shape::Message, kilobytes: 1 },
    Body { shape: Shape::Message, kilobytes: 10 },
    Body { shape: Shape::History, kilobytes: 100 },
    Body { shape: Shape::Message, kilobytes: 100 },
    Body { shape: Shape::History, kilobytes: 1024 },
    LARGEST,
];
/// The largest body that the filter judges by default, about a context of a million tokens. It is measured on one
/// connection only, since many of them would need gigabytes of memory.
const LARGEST: Body = Body { shape: Shape::History, kilobytes: 8 * 1024 };
const WHOLE: &str = "whole";
const EVENTS: &str = "sse 20";

/// Measures everything in one Envoy.
pub async fn measure(options: &Options) -> Vec<Row> {
    let rig = Rig::start(&Listener::ALL, 1).await;
    introduce(&rig).await;
    let mut results = Results::new();
    let mut judged = 0;
    for body in BODIES.into_iter().filter(|body| !options.quick || body.kilobytes != 1024) {
        let pool = Pool::new(body);
        for round in 0..options.rounds() {
            for case in cases(body, options) {
                for (variant, load) in take_turns(&rig, case, round, &pool, options).await {
                    judged += if variant == Variant::On { load.calls() } else { 0 };
                    results.entry((case, variant)).or_default().push(load);
                }
            }
        }
    }
    assert_judged(&rig.envoy, judged).await;
    rows(&results)
}

/// Creates an agent in each state.
async fn introduce(Rig { remote, .. }: &Rig) {
    remote.enable("on", json!({})).await;
    remote.enable("off", json!({"kill_switch_enabled": false})).await;
    remote.enable("inactive", json!({})).await;
    remote.deactivate("inactive").await;
    remote.settled().await;
}

fn cases(body: Body, options: &Options) -> Vec<Case> {
    if body == LARGEST {
        return vec![Case { body, answer: WHOLE, connections: 1 }];
    }
    let answers: &[&'static str] = if options.quick { &[WHOLE] } else { &[WHOLE, EVENTS] };
    let case = |answer| [1, MANY].map(|connections| Case { body, answer, connections });
    answers.iter().flat_map(|answer| case(*answer)).collect()
}

/// Runs one round of a case: short slices of every variant in turn.
async fn take_turns(rig: &Rig, case: Case, round: usize, pool: &Pool, options: &Options) -> BTreeMap<Variant, Load> {
    let mut loads: BTreeMap<Variant, Load> = BTreeMap::new();
    for slice in 0..if options.quick { 2 } else { 5 } {
        for variant in turns(case, round + slice) {
            loads.entry(variant).or_default().add(run(rig, case, variant, pool).await);
        }
    }
    loads
}

/// Returns the variants of a case. Each round begins with another one.
fn turns(case: Case, round: usize) -> Vec<Variant> {
    let mut variants = Variant::ALL.to_vec();
    variants.rotate_left(round % Variant::ALL.len());
    variants.retain(|variant| match variant {
        // Envoy closes the connection before the largest body is sent, and the client then may not get the answer.
        Variant::Inactive => case.answer == WHOLE && case.body != LARGEST,
        Variant::Lua => case.answer == WHOLE,
        _ => true,
    });
    variants
}

async fn run(rig: &Rig, case: Case, variant: Variant, pool: &Pool) -> Load {
    let target = rig.target(variant.listener(), &variant.name().replace(' ', "-"), case.answer);
    // Long enough for many answers, and short enough that other work of the machine affects all variants alike.
    let time = match case {
        Case { body: LARGEST, .. } => 400,
        Case { connections: 1, .. } => 100,
        _ => 60,
    };
    load(&target, pool, case.connections, Duration::from_millis(time), variant.status()).await
}

/// Checks that Envoy has counted every call of the agent whose switch is on as judged and answered, and no kill.
async fn assert_judged(envoy: &Envoy, judged: u64) {
    let stats = envoy.stats().await;
    let stat = |name: &str| stats.get(&format!("wasmcustom.kill_switch.{name}")).copied().unwrap_or(0);
    assert_eq!(stat("requests.allowed"), judged, "calls that were judged and forwarded");
    let stops = ["kills", "blocks", "would_kills", "sessions_stopped", "requests.tripped", "requests.refused_session"];
    let not_judged = ["requests.too_large", "requests.contended", "answers_unread"];
    for name in stops.into_iter().chain(not_judged) {
        assert_eq!(stat(name), 0, "{name}");
    }
}

fn rows(results: &Results) -> Vec<Row> {
    let mut cases: Vec<Case> = results.keys().map(|(case, _)| *case).collect();
    cases.dedup();
    cases.sort_by_key(|case| {
        (case.answer != WHOLE, case.connections, BODIES.iter().position(|body| *body == case.body))
    });
    cases
        .into_iter()
        .flat_map(|case| if case.connections == 1 { latency(results, case) } else { rate(results, case) })
        .collect()
}

/// Returns one figure of every variant, by round.
fn figures(results: &Results, case: Case, figure: impl Fn(&Load) -> f64) -> BTreeMap<Variant, Vec<f64>> {
    let of = |variant| Some((variant, results.get(&(case, variant))?.iter().map(&figure).collect()));
    Variant::ALL.into_iter().filter_map(of).collect()
}

/// Lists the medians of all variants.
fn listed(figures: &BTreeMap<Variant, Vec<f64>>, unit: impl Fn(f64) -> String) -> String {
    let one = |(variant, values): (&Variant, &Vec<f64>)| format!("{} {}", variant.name(), unit(median(values)));
    figures.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn latency(results: &Results, case: Case) -> Vec<Row> {
    let p50 = figures(results, case, |load| load.percentile(50.0));
    let p99 = figures(results, case, |load| load.percentile(99.0));
    let whole = case.answer == WHOLE;
    let [most_p50, most_p99] = match (case.body.shape, case.body.kilobytes) {
        _ if !whole => [Goal::None; 2],
        (_, 1) => [Goal::AtMost(1.15), Goal::AtMost(1.5)],
        (_, 10) => [Goal::AtMost(1.25), Goal::AtMost(1.5)],
        (Shape::History, 100) => [Goal::AtMost(1.2), Goal::AtMost(1.5)],
        (_, 100) => [Goal::AtMost(2.0), Goal::AtMost(1.5)],
        _ if case.body == LARGEST => [Goal::AtMost(1.1), Goal::None],
        _ => [Goal::None; 2],
    };
    let what = format!("{}{}", case.body, if whole { "" } else { ", streamed" });
    let us = |us| Value(us, Unit::Microseconds).to_string();
    let row = |name: &str, figures: &BTreeMap<Variant, Vec<f64>>, goal| {
        let value = Value(ratio(&figures[&Variant::On], &figures[&Variant::Noop]), Unit::Times);
        Row::new(format!("{name}: {what}"), listed(figures, us), value, goal)
    };
    let mut rows = vec![row("p50", &p50, most_p50), row("p99", &p99, most_p99)];
    if let Some(inactive) = p50.get(&Variant::Inactive) {
        let closed = median(&figures(results, case, Load::closed)[&Variant::Inactive]);
        let times = format!("{}; forwarding {}", us(median(inactive)), us(median(&p50[&Variant::Plain])));
        let measured = format!("{times}; connection closed after {}", Value(closed, Unit::Percent));
        let value = Value(ratio(inactive, &p50[&Variant::Plain]), Unit::Times);
        rows.push(Row::new(format!("refusing an inactive agent: {what}"), measured, value, Goal::Below(1.0)));
    }
    rows
}

fn rate(results: &Results, case: Case) -> Vec<Row> {
    let rates = figures(results, case, Load::rate);
    let is_goal = case.answer == WHOLE && case.body.kilobytes == 10;
    let what = format!("{}{}", case.body, if case.answer == WHOLE { "" } else { ", streamed" });
    let row = |variant: Variant, least: f64| {
        let value = Value(100.0 * ratio(&rates[&variant], &rates[&Variant::Noop]), Unit::Percent);
        let goal = if is_goal { Goal::AtLeast(least) } else { Goal::None };
        let measured = listed(&rates, |rate| format!("{}/s", Value(rate, Unit::Count)));
        Row::new(format!("throughput, {}: {what}", variant.name()), measured, value, goal)
    };
    vec![row(Variant::On, 60.0), row(Variant::Off, 90.0)]
}
