//! A sidecar that fails is called seldom, however many workers there are.

use super::*;
use crate::detect::score::Score;
use crate::detect::window::{Call, Sequence};
use crate::entries::Kind;
use crate::link::outbox::put;

/// A simulated Envoy with workers and a main thread, whose agents call all the time.
pub(super) struct Fleet {
    pub(super) host: Fake,
    links: Vec<(Rc<Worker>, Link)>,
    answered: usize,
}

impl Fleet {
    /// Creates an Envoy with eight workers.
    pub(super) fn new() -> Self {
        Self::with_roots(9)
    }

    /// Creates an Envoy with this many roots. The first one holds the lease.
    fn with_roots(roots: usize) -> Self {
        let host = Fake::new();
        let link = |_| {
            let worker = worker();
            (Rc::clone(&worker), Link::new(worker, &host))
        };
        let mut links: Vec<_> = (0..roots).map(link).collect();
        links[0].1.tick(&host);
        Self { links, host, answered: 0 }
    }

    /// Lets every root tick. The one that holds the lease comes last, so that it finds what the others have left to it.
    pub(super) fn tick(&mut self) {
        for (worker, link) in self.links.iter_mut().rev() {
            worker.observations.borrow_mut().count_request("a", 1);
            worker.entries.borrow_mut().add_call(("a", 3), Kind::Common, Call::default(), &Score::default());
            link.tick(&self.host);
        }
        self.host.wait(TICK_MS);
    }

    /// Gives the answer to a call to every root. Only the one that made it takes notice.
    pub(super) fn respond(&mut self, call: CallId, answer: &Option<Incoming>) {
        self.links.iter_mut().for_each(|(_, link)| link.response(&self.host, call, answer.clone()));
    }

    /// Lets the open poll fail.
    fn break_poll(&mut self) {
        let poll = self.host.calls.borrow().iter().rposition(|call| call.path.starts_with("/v1/sync")).unwrap();
        self.respond(CallId(poll as u32 + 1), &None);
    }

    /// Lets time pass. Every call is answered after a tick by `answer`, which is given its path.
    fn run(&mut self, seconds: u64, answer: &dyn Fn(&str) -> Option<Incoming>) {
        self.run_ticks(seconds * 1000 / TICK_MS, answer);
    }

    fn run_ticks(&mut self, ticks: u64, answer: &dyn Fn(&str) -> Option<Incoming>) {
        for _ in 0..ticks {
            self.tick();
            let made = self.host.calls.borrow().len();
            for call in self.answered..made {
                let path = self.host.calls.borrow()[call].path.clone();
                // A long poll without news stays open.
                let Some(answer) = answer(&path).or_else(|| (!path.contains("wait=4")).then_some(NOTHING)) else {
                    continue;
                };
                let answer = Some(answer).filter(|answer| *answer != NOTHING);
                self.respond(CallId(call as u32 + 1), &answer);
            }
            self.answered = made;
        }
    }

    fn calls_of(&self, path: &str) -> usize {
        self.host.calls.borrow().iter().filter(|call| call.path.starts_with(path)).count()
    }
}

/// Stands for a call that fails without an answer.
const NOTHING: Incoming = Incoming { status: 0, from_sidecar: false, body: Vec::new() };

pub(super) fn healthy(path: &str) -> Option<Incoming> {
    match path {
        "/v1/kills" => answer(200, r#"{"kill_id": "k1"}"#),
        "/v1/observations" | "/v1/entries" => answer(200, "{}"),
        _ if path.contains("since=0") => answer(200, PAGE),
        _ if path.contains("wait=0") => answer(304, ""),
        _ => None,
    }
}

#[test]
fn a_sidecar_that_fails_is_called_at_most_once_a_second() {
    type Failure = fn(&str) -> Option<Incoming>;
    let failures: [(&str, Failure); 2] = [("no answer", |_| Some(NOTHING)), ("an error", |_| answer(500, ""))];
    for (name, failure) in failures {
        let mut fleet = Fleet::new();
        fleet.run(5, &healthy);
        let healthy_calls = fleet.host.calls.borrow().len();
        assert!(healthy_calls > 20, "every worker reports its observations: {healthy_calls}");
        let report = br#"{"kill_id":"k1","agent_id":"a"}"#;
        put(&fleet.host, report, report);
        fleet.break_poll();
        fleet.run(2, &failure);
        for _ in 0..5 {
            let before = fleet.host.calls.borrow().len();
            fleet.run(10, &failure);
            let made = fleet.host.calls.borrow().len() - before;
            println!("{name}: {made} calls in 10 seconds");
            assert!((1..=10).contains(&made), "{name}: {made} calls in 10 seconds");
        }
        let (polls, kills) = (fleet.calls_of("/v1/sync"), fleet.calls_of("/v1/kills"));
        fleet.run(10, &healthy);
        assert!(fleet.calls_of("/v1/sync") > polls && fleet.calls_of("/v1/kills") > kills, "{name}: within 10 seconds");
        assert_eq!(fleet.host.metric(Metric::OutboxDepth), 0, "{name}: the report was kept");
        let (observed, told) = (fleet.calls_of("/v1/observations"), fleet.calls_of("/v1/entries"));
        fleet.run(60, &healthy);
        assert!(fleet.calls_of("/v1/observations") > observed + 8 * 10, "{name}: observations go on");
        assert!(fleet.calls_of("/v1/entries") > told + 8 * 60, "{name}: calls are told again");
    }
}

#[test]
fn observations_that_the_sidecar_does_not_take_do_not_hold_up_polls() {
    // So many workers want to send observations every second, however long each of them waits.
    let mut fleet = Fleet::with_roots(65);
    let failure = |path: &str| if path == "/v1/observations" { answer(500, "") } else { healthy(path) };
    fleet.run(60, &failure);
    let before = fleet.calls_of("/v1/observations");
    fleet.run(60, &failure);
    let made = fleet.calls_of("/v1/observations") - before;
    assert!((30..=60).contains(&made), "{made} reports in a minute");
    for number in 0..20 {
        let polls = fleet.calls_of("/v1/sync");
        fleet.break_poll();
        // A second, a quarter of it at random, and the tick after that.
        fleet.run_ticks(1_300 / TICK_MS, &failure);
        assert!(fleet.calls_of("/v1/sync") > polls, "poll {number} comes in time");
        fleet.run_ticks(number, &failure);
    }
}

#[test]
fn observations_that_the_sidecar_does_not_take_do_not_hold_up_kills() {
    let mut fleet = Fleet::with_roots(65);
    let failure = |path: &str| if path == "/v1/observations" { answer(500, "") } else { healthy(path) };
    fleet.run(60, &failure);
    for number in 0..20 {
        let report = br#"{"kill_id":"k1","agent_id":"a"}"#;
        put(&fleet.host, report, report);
        fleet.run_ticks(1, &failure);
        assert_eq!(fleet.calls_of("/v1/kills"), number + 1, "at once");
        fleet.run_ticks(number as u64 % 7, &failure);
    }
}

#[test]
fn kills_and_polls_come_before_observations_while_everything_fails() {
    let mut fleet = Fleet::with_roots(65);
    fleet.run(5, &healthy);
    let report = br#"{"kill_id":"k1","agent_id":"a"}"#;
    put(&fleet.host, report, report);
    fleet.break_poll();
    let failure = |_: &str| Some(NOTHING);
    fleet.run(60, &failure);
    let count = |fleet: &Fleet| ["/v1/kills", "/v1/sync", "/v1/observations"].map(|path| fleet.calls_of(path));
    let before = count(&fleet);
    fleet.run(120, &failure);
    let [kills, polls, observations] = std::array::from_fn(|kind| count(&fleet)[kind] - before[kind]);
    // The longest pauses with their random part are below 5 and 4 seconds. Each call may find the gate closed for one more.
    println!("with 64 workers, in two minutes: {kills} kills, {polls} polls, {observations} observations");
    assert!(kills >= 120 / 6, "{kills} kills");
    assert!(polls >= 120 / 6, "{polls} polls");
    assert!(observations >= 30, "{observations} observations");
    assert!(kills + polls + observations <= 120, "{kills} + {polls} + {observations} calls in two minutes");
}

#[test]
fn a_full_buffer_is_reported_in_parts_that_the_sidecar_accepts() {
    let (host, worker, mut link) = linked();
    for agent in 0..500 {
        let agent = format!("{agent:0128}");
        worker.observations.borrow_mut().count_request(&agent, host.now_ms());
        for _ in 0..40 {
            worker.observations.borrow_mut().add_score(&agent, (&Score::default(), Sequence(0)), host.now_ms());
        }
    }
    link.tick(&host);
    let mut agents = Vec::new();
    for _ in 0..10 {
        let report = host.calls.borrow().iter().rposition(|call| call.path == "/v1/observations").unwrap();
        let body = host.calls.borrow()[report].body.clone();
        println!("a report of {} bytes", body.len());
        assert!(body.len() < 1 << 20, "{} bytes", body.len());
        let report: crate::wire::Observations = serde_json::from_slice(&body).unwrap();
        agents.extend(report.agents.into_iter().map(|agent| (agent.agent_id, agent.scores.len())));
        if agents.len() >= 500 {
            break;
        }
        link.response(&host, last_call(&host), answer(200, "{}"));
    }
    agents.dedup();
    assert_eq!(agents.len(), 500, "within one tick");
    assert!(agents.iter().all(|(_, scores)| *scores == 40));
}
