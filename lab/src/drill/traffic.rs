//! Agents that call all the time while a fault is in force.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::agent::{Agent, Kind};
use crate::chat::Caller;
use crate::format::Format;
use crate::mesh::SOON;
use crate::proc::wait_until;

/// What the calls of healthy agents got.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    pub calls: usize,
    /// Calls that were refused because their agent was stopped.
    pub stopped: usize,
    /// Calls that failed in any other way.
    pub failed: usize,
    pub first_failure: String,
    pub slowest: Duration,
}

impl Tally {
    /// Adds a call that has just ended.
    pub fn count(&mut self, began: Instant, status: Result<u16, String>) {
        self.calls += 1;
        self.slowest = self.slowest.max(began.elapsed());
        match status {
            Ok(403) => self.stopped += 1,
            Ok(status) if status < 400 => {}
            failure => {
                if self.failed == 0 {
                    self.first_failure = format!("{failure:?}");
                }
                self.failed += 1;
            }
        }
    }

    /// Adds the calls of another tally.
    pub fn add(&mut self, other: Tally) {
        if self.failed == 0 {
            self.first_failure = other.first_failure;
        }
        self.calls += other.calls;
        self.stopped += other.stopped;
        self.failed += other.failed;
        self.slowest = self.slowest.max(other.slowest);
    }
}

/// Healthy agents that call until they are told to stop.
pub struct Traffic {
    is_over: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    agents: Vec<JoinHandle<Tally>>,
}

impl Traffic {
    /// Lets agents call, with this pause after each call. Each agent has a client for each Envoy, and uses them in turn.
    pub fn start(agents: Vec<Vec<Caller>>, pause: Duration) -> Traffic {
        let (is_over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let start =
            |(number, callers)| tokio::spawn(chat(number, callers, pause, Arc::clone(&is_over), Arc::clone(&calls)));
        let agents = agents.into_iter().enumerate().map(start).collect();
        Traffic { is_over, calls, agents }
    }

    /// Waits until the agents have made this many further calls.
    pub async fn goes_on(&self, further: usize) {
        let enough = self.calls.load(Ordering::SeqCst) + further;
        wait_until("healthy agents call", SOON, || async { self.calls.load(Ordering::SeqCst) >= enough }).await;
    }

    /// Stops the agents, and returns what their calls got.
    pub async fn end(self) -> Tally {
        self.is_over.store(true, Ordering::SeqCst);
        let mut all = Tally::default();
        for agent in self.agents {
            all.add(agent.await.expect("an agent does not panic"));
        }
        all
    }
}

async fn chat(
    number: usize,
    callers: Vec<Caller>,
    pause: Duration,
    is_over: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
) -> Tally {
    let kind = if number.is_multiple_of(2) { Kind::Chatty } else { Kind::Healthy };
    let format = Format::CHATS[number % Format::CHATS.len()];
    let mut agent = Agent::new(kind, callers[0].clone(), format, number.is_multiple_of(3));
    let mut tally = Tally::default();
    while !is_over.load(Ordering::SeqCst) {
        agent.call_through(callers[(number + tally.calls) % callers.len()].clone());
        let began = Instant::now();
        let call = agent.call().await;
        tally.count(began, call.reply.map(|reply| reply.status));
        calls.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(pause).await;
    }
    tally
}
