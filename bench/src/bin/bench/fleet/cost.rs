//! What the sidecar and PostgreSQL spend on reports, observations and polls: the user and system time of their processes.

use std::time::{Duration, Instant, SystemTime};

use agent_kill_switch::entries::ITEM_BYTES;
use lab::mesh::Remote;
use lab::proc::{Postgres, Sidecar, wait_until};
use serde_json::json;

use super::reports::{self, AGENTS, Link, entries, observations, single_calls};
use crate::cpu::{cpu_microseconds, cpu_of_children};
use crate::options::Options;
use crate::rig;
use crate::row::{Goal, Row, Unit, Value};

/// Workers of all Envoys together.
const SENDERS: usize = 8;
/// Calls in a large report. With a report every 150 ms from each worker, these are 4,000 calls a second.
const CALLS: usize = 75;
/// How many agents call in each second while observations are measured.
const OBSERVED: usize = 1_000;
/// How many agents one report observes, as in the filter.
const AGENTS_PER_REPORT: usize = 100;
/// How long everything may take to be merged or written.
const DEADLINE: Duration = Duration::from_secs(60);

/// Measures one sidecar with SQLite, and two replicas with PostgreSQL if that is installed.
pub async fn measure(options: &Options) -> Vec<Row> {
    let mut sidecar = rig::sidecar();
    sidecar.resume().await;
    introduce(&sidecar).await;
    let rounds = if options.quick { 50 } else { 300 };
    let large = merging(&[&sidecar], rounds, CALLS, None).await;
    let small = merging(&[&sidecar], 10 * rounds, 1, None).await;
    let bytes = serde_json::to_vec(&entries(0, 1, 1)).map_or(0, |json| json.len());
    let mut rows = vec![
        row(
            "sidecar's CPU for each call or answer",
            format!("at {:.0} calls a second, {} entries in a report", large.rate, CALLS * 2),
            large.each[0],
            Goal::AtMost(10.0),
        ),
        row(
            "sidecar's CPU for a report of one call and its answer",
            format!("{bytes} bytes, of which {} are entries", (2 * ITEM_BYTES).div_ceil(3) * 4),
            2.0 * small.each[0],
            Goal::None,
        ),
        polls(&sidecar, 10 * rounds).await,
    ];
    rows.extend(observed(&sidecar, "SQLite", options).await);
    rows.push(stored(&sidecar, options).await);
    if let Some(postgres) = Postgres::start(None) {
        rows.extend(exchanged(&postgres, rounds, options).await);
    } else {
        eprintln!("PostgreSQL is not installed, so it is not measured");
    }
    rows
}

/// Measures the exchange of two replicas, of which one gets all reports.
async fn exchanged(postgres: &Postgres, rounds: usize, options: &Options) -> Vec<Row> {
    let url = postgres.database().await;
    let mut replicas = [rig::sidecar_over(&url), rig::sidecar_over(&url)];
    for replica in &mut replicas {
        replica.resume().await;
    }
    let [first, second] = &replicas;
    introduce(first).await;
    let merged = merging(&[first, second], rounds, CALLS, Some((postgres, &url))).await;
    let measured = format!(
        "the replica that gets the report {}; PostgreSQL {}; {:.1} rows a second",
        Value(merged.each[0], Unit::Microseconds),
        Value(merged.database, Unit::Microseconds),
        merged.rows
    );
    let other = "CPU of another replica for each call or answer";
    let mut rows = vec![row(other, measured, merged.each[1], Goal::AtMost(10.0))];
    rows.extend(observed(first, "PostgreSQL", options).await);
    rows
}

/// The cost of merging.
struct Merged {
    /// Microseconds of each sidecar for each call or answer.
    each: Vec<f64>,
    /// The same for the processes of PostgreSQL.
    database: f64,
    /// How many rows a second were written to the table of the exchange.
    rows: f64,
    /// How many calls a second were merged.
    rate: f64,
}

/// Sends reports to the first sidecar until all of them have merged this many rounds of them.
async fn merging(sidecars: &[&Sidecar], rounds: usize, calls: usize, postgres: Option<(&Postgres, &str)>) -> Merged {
    static FIRST: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let first = FIRST.fetch_add(100_000, std::sync::atomic::Ordering::Relaxed);
    let links: Vec<Link> = (0..SENDERS).map(|_| Link::new(sidecars[0])).collect();
    let send = async |round: usize| {
        for (sender, link) in links.iter().enumerate() {
            link.send("/v1/entries", &entries(sender, first + round, calls)).await;
        }
    };
    let merged = async || {
        let mut all = Vec::new();
        for sidecar in sidecars {
            all.push(rig::remote(sidecar).sidecar_metric("kill_switch_fleet_entries_total").await);
        }
        all
    };
    let used = || -> Vec<f64> { sidecars.iter().map(|sidecar| cpu_microseconds(process(sidecar))).collect() };
    let database = || postgres.and_then(|(postgres, _)| postgres.id()).map_or(0.0, cpu_of_children);
    // The first reports make the sidecar read the policies.
    send(0).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (before, database_before, rows_before) = (used(), database(), last_row(postgres));
    let (entries_before, began) = (merged().await, Instant::now());
    for round in 1..=rounds {
        send(round).await;
        // The sidecar drops entries if too many wait in memory until it passes them on, which it does every 100 ms.
        if (round * calls).is_multiple_of(10 * CALLS) {
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }
    let sent = (rounds * SENDERS * calls * 2) as f64;
    wait_until("everything is merged", DEADLINE, || async {
        merged().await.iter().zip(&entries_before).all(|(merged, before)| *merged >= before + sent)
    })
    .await;
    let took = began.elapsed().as_secs_f64();
    Merged {
        each: used().iter().zip(&before).map(|(after, before)| (after - before) / sent).collect(),
        database: (database() - database_before) / sent,
        rows: (last_row(postgres) - rows_before) / took,
        rate: sent / 2.0 / took,
    }
}

/// Returns the id of the latest row that replicas have exchanged.
fn last_row(postgres: Option<(&Postgres, &str)>) -> f64 {
    let Some((postgres, url)) = postgres else { return 0.0 };
    let sql = "SELECT last_value FROM fleet_messages_id_seq";
    let output = postgres.program("psql").args(["-At", url, "-c", sql]).output().expect("psql runs");
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0.0)
}

/// Measures polls of an Envoy that has all policies.
async fn polls(sidecar: &Sidecar, polls: usize) -> Row {
    let link = Link::new(sidecar);
    let (_, text) = link.poll("epoch=&since=0").await;
    let answer: serde_json::Value = serde_json::from_str(&text).expect("the answer is JSON");
    let position = format!("epoch={}&since={}", answer["epoch"].as_str().unwrap_or_default(), answer["rev"]);
    let before = cpu_microseconds(process(sidecar));
    for _ in 0..polls {
        let (status, text) = link.poll(&position).await;
        assert_eq!(status, 304, "there is no news: {text}");
    }
    let each = (cpu_microseconds(process(sidecar)) - before) / polls as f64;
    row("sidecar's CPU for a poll without news", format!("{polls} polls"), each, Goal::None)
}

/// Measures agents whose scores are written to the database: some that call every second, and many at once.
async fn observed(sidecar: &Sidecar, database: &str, options: &Options) -> Vec<Row> {
    let (link, remote) = (Link::new(sidecar), rig::remote(sidecar));
    let seconds = if options.quick { 3 } else { 10 };
    let many = if options.quick { 2 * OBSERVED } else { 9 * OBSERVED };
    let observe = async |agents: usize| {
        for first in (0..agents).step_by(AGENTS_PER_REPORT) {
            link.send("/v1/observations", &observations(first..first + AGENTS_PER_REPORT, now_ms())).await;
        }
    };
    // The first time creates the agents.
    observe(many).await;
    wait_until_written(&remote, many, 1).await;
    let began = Instant::now();
    observe(many).await;
    wait_until_written(&remote, many, 2).await;
    let rate = many as f64 / began.elapsed().as_secs_f64();

    let before = cpu_microseconds(process(sidecar));
    each_second(seconds, async |_| observe(OBSERVED).await).await;
    wait_until_written(&remote, OBSERVED, seconds + 2).await;
    let each = (cpu_microseconds(process(sidecar)) - before) / (seconds * OBSERVED) as f64;
    vec![
        row(
            format!("sidecar's CPU for an agent that is observed, {database}"),
            format!("{OBSERVED} agents for {seconds} s, one score each second"),
            each,
            Goal::None,
        ),
        Row::new(
            format!("agents whose scores are written in a second, {database}"),
            format!("{many} at once, with up to a second until writing begins"),
            Value(rate, Unit::Count),
            Goal::None,
        ),
    ]
}

/// Measures calls of agents that call once in a second, so that each of them is a row in the database.
async fn stored(sidecar: &Sidecar, options: &Options) -> Row {
    let link = Link::new(sidecar);
    let seconds = if options.quick { 3 } else { 10 };
    let before = cpu_microseconds(process(sidecar));
    let call = async |second| {
        for first in (0..OBSERVED).step_by(AGENTS_PER_REPORT) {
            link.send("/v1/entries", &single_calls(first..first + AGENTS_PER_REPORT, second)).await;
        }
    };
    each_second(seconds, call).await;
    // What the last second has brought is written within another one.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let each = (cpu_microseconds(process(sidecar)) - before) / (seconds * OBSERVED) as f64;
    let measured = format!("{OBSERVED} agents for {seconds} s, {AGENTS_PER_REPORT} of them in a report");
    row("sidecar's CPU for the only call of an agent in a second, SQLite", measured, each, Goal::None)
}

/// Does something at the beginning of each second, for so many seconds.
async fn each_second(seconds: usize, act: impl AsyncFn(usize)) {
    let began = Instant::now();
    for second in 1..=seconds {
        act(second).await;
        tokio::time::sleep(Duration::from_secs(second as u64).saturating_sub(began.elapsed())).await;
    }
}

/// Waits until the last of these agents, in the order in which they are written, has this many scores.
async fn wait_until_written(remote: &Remote, agents: usize, scores: usize) {
    let path = format!("/v1/agents/{}/scores?limit=100", reports::observed(agents - 1));
    wait_until("the scores are written", DEADLINE, || async {
        let (_, page) = remote.api("GET", &path, None).await;
        page["scores"].as_array().is_some_and(|written| written.len() >= scores)
    })
    .await;
}

/// Creates the agents whose calls are merged.
async fn introduce(sidecar: &Sidecar) {
    let remote = rig::remote(sidecar);
    for agent in 0..AGENTS {
        remote.switch_on(&format!("a{agent}"), &json!({})).await;
    }
}

fn process(sidecar: &Sidecar) -> u32 {
    sidecar.id().expect("the sidecar runs")
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64)
}

fn row(what: impl Into<String>, measured: String, microseconds: f64, goal: Goal) -> Row {
    Row::new(what, measured, Value(microseconds, Unit::Microseconds), goal)
}
