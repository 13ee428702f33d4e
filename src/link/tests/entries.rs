//! What the sidecar is told of calls and answers.

use super::*;
use crate::detect::score::Score;
use crate::detect::window::Call;
use crate::entries::{ITEM_BYTES, Kind};
use crate::turn::Answer;
use crate::wire::{EntryReport, Usage};

/// Adds a call of an agent, and returns its number.
fn add(worker: &Worker, agent: &str) -> u32 {
    worker.entries.borrow_mut().add_call((agent, 3), Kind::Common, Call::default(), &Score::default())
}

/// The reports made so far.
fn reports(host: &Fake) -> Vec<EntryReport> {
    let calls = host.calls.borrow();
    let reports = calls.iter().filter(|call| call.path == "/v1/entries");
    reports.map(|call| serde_json::from_slice(&call.body).unwrap()).collect()
}

/// How many calls and answers reports have.
fn items(reports: &[EntryReport]) -> usize {
    let length = |entries: &str| entries.len() / 4 * 3 - entries.bytes().filter(|byte| *byte == b'=').count();
    reports.iter().flat_map(|report| &report.agents).map(|agent| length(&agent.entries) / ITEM_BYTES).sum()
}

#[test]
fn calls_and_answers_are_told_together_at_most_every_150_ms() {
    let (host, worker, mut link) = synced();
    for tick in 0..20 {
        let number = add(&worker, if tick % 2 == 0 { "a" } else { "b" });
        worker.entries.borrow_mut().add_answer(("a", 3), number, Answer::Failed, Usage::default(), host.now_ms());
        link.tick(&host);
        let made = host.calls.borrow().iter().rposition(|call| call.path == "/v1/entries");
        link.response(&host, CallId(made.unwrap() as u32 + 1), answer(200, "{}"));
        host.wait(TICK_MS);
    }
    link.tick(&host);
    let told = reports(&host);
    assert_eq!(told.len(), 7, "in a second");
    assert!(items(&told) > 30 && items(&told) <= 40, "{}", items(&told));
    assert_eq!((told[0].envoy.as_str(), told[0].agents[0].generation), ("envoy 1", 3));
    assert!(told.iter().all(|report| report.sender == told[0].sender && report.sender.len() == 16));
    let mut another = Link::new(Rc::clone(&worker), &host);
    add(&worker, "a");
    another.tick(&host);
    assert_ne!(reports(&host).last().unwrap().sender, told[0].sender, "the numbers of another start are other ones");
    assert_eq!(host.metric(Metric::EntriesDropped), 0);
}

#[test]
fn a_buffer_that_is_full_drops_and_counts_the_rest_and_its_report_is_accepted() {
    let (host, worker, mut link) = synced();
    let agents: Vec<String> = (0..500).map(|agent| format!("{agent:0128}")).collect();
    let numbers: Vec<u32> = (0..5000).map(|call| add(&worker, &agents[call % 500])).collect();
    link.tick(&host);
    let taken = numbers.iter().filter(|number| **number > 0).count();
    assert_eq!(items(&reports(&host)), taken);
    assert_eq!(host.metric(Metric::EntriesDropped), 5000 - taken as u64);
    let body = host.calls.borrow().last().unwrap().body.len();
    assert!(taken > 2000 && body < 1 << 20, "{taken} calls in {body} bytes");
    assert_eq!(numbers.last(), Some(&0), "its answer is not told");
}

#[test]
fn what_cannot_be_told_in_time_is_dropped_because_the_sidecar_goes_by_arrival() {
    let (host, worker, mut link) = synced();
    host.unreachable.set(true);
    add(&worker, "a");
    link.tick(&host);
    assert_eq!(host.metric(Metric::EntriesDropped), 1, "it could not be sent");
    add(&worker, "a");
    for _ in 0..50 {
        host.wait(TICK_MS);
        host.unreachable.set(false);
        // Another worker keeps the gate closed.
        host.overwrite(crate::shared::GATE_KEY, (host.steady_ms() + 1_000).to_le_bytes().to_vec());
        link.tick(&host);
    }
    assert_eq!(host.metric(Metric::EntriesDropped), 2, "after two seconds");
    assert_eq!(reports(&host), []);
}

#[test]
fn a_sidecar_that_does_not_know_the_reports_is_asked_once_a_minute() {
    let (host, worker, mut link) = synced();
    for _ in 0..120_000 / TICK_MS {
        add(&worker, "a");
        let before = reports(&host).len();
        link.tick(&host);
        if reports(&host).len() > before {
            link.response(&host, last_call(&host), answer(404, "{}"));
        }
        host.wait(TICK_MS);
    }
    assert_eq!(reports(&host).len(), 2);
}

#[test]
fn nothing_is_told_if_the_fleet_is_switched_off() {
    let config = Config::parse(br#"{"cluster": "kill-switch", "fleet": false}"#, &|_| None).unwrap();
    let (host, worker) = (Fake::new(), Rc::new(Worker::new(config, "e".into())));
    let mut link = Link::new(Rc::clone(&worker), &host);
    assert_eq!(add(&worker, "a"), 0);
    link.tick(&host);
    assert_eq!((reports(&host), host.metric(Metric::EntriesDropped)), (vec![], 0));
}
