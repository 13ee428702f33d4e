//! Pools of different bodies, and slices of load made of them.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bench::body::Body;
use bench::stats::{median, percentile};
use tokio::task::{JoinHandle, LocalSet};

use super::client::{Connection, Target};

/// Bodies in a pool: more than a window and all connections hold together, so that no agent appears to repeat itself.
const BODIES: u64 = 96;
/// Bodies in a pool of bodies of more than 1 MB, to save memory. They are more than a window holds, and enough for one
/// connection.
const LARGE_BODIES: u64 = 24;

/// Bodies of one shape and size.
#[derive(Clone)]
pub struct Pool {
    bodies: Rc<Vec<Vec<u8>>>,
    next: Rc<std::cell::Cell<usize>>,
}

impl Pool {
    /// Creates the bodies, which are the same in every run.
    pub fn new(body: Body) -> Self {
        let count = if body.kilobytes > 1024 { LARGE_BODIES } else { BODIES };
        let bodies = (0..count).map(|seed| body.text(1000 + seed).into_bytes()).collect();
        Self { bodies: Rc::new(bodies), next: Rc::default() }
    }

    pub fn next(&self) -> &[u8] {
        let next = self.next.get();
        self.next.set(next + 1);
        &self.bodies[next % self.bodies.len()]
    }
}

/// The results of one or several slices of load.
#[derive(Clone, Debug, Default)]
pub struct Load {
    all: Vec<f64>,
    first_byte: Vec<f64>,
    rates: Vec<f64>,
    closed: u64,
    warming: u64,
}

impl Load {
    /// Adds another slice.
    pub fn add(&mut self, other: Self) {
        self.all.extend(other.all);
        self.first_byte.extend(other.first_byte);
        self.rates.extend(other.rates);
        self.closed += other.closed;
        self.warming += other.warming;
    }

    /// Returns a percentile of the times of answers, in microseconds.
    pub fn percentile(&self, percent: f64) -> f64 {
        percentile(&self.all, percent)
    }

    /// Returns the median time to the first byte of a body, in microseconds.
    pub fn first_byte(&self) -> f64 {
        median(&self.first_byte)
    }

    /// Returns the answers per second, the median over the slices.
    pub fn rate(&self) -> f64 {
        median(&self.rates)
    }

    /// Returns the number of answers, including those that warmed the connections up.
    pub fn calls(&self) -> u64 {
        self.all.len() as u64 + self.warming
    }

    /// Returns the percentage of answers after which the connection was closed.
    pub fn closed(&self) -> f64 {
        100.0 * self.closed as f64 / self.all.len().max(1) as f64
    }
}

/// Sends requests on several connections for some time. Every answer must have this status.
pub async fn load(target: &Target, pool: &Pool, connections: usize, time: Duration, status: u16) -> Load {
    let local = LocalSet::new();
    let call = |_| local.spawn_local(calls(target.clone(), pool.clone(), time, status));
    let tasks: Vec<_> = (0..connections).map(call).collect();
    let mut load = all_of(local, tasks).await;
    // The rate of the slice is that of all connections together.
    load.rates = vec![load.rates.iter().sum()];
    load
}

/// Waits for the calls of all connections.
async fn all_of(local: LocalSet, tasks: Vec<JoinHandle<Load>>) -> Load {
    let mut load = Load::default();
    local
        .run_until(async {
            for task in tasks {
                load.add(task.await.expect("calls do not panic"));
            }
        })
        .await;
    load
}

/// Makes this many calls a second for some time, on connections to all of these Envoys in turn. Each Envoy has a list of
/// targets, one for each agent, and the agents call in turn. A call whose connection is still in use is made late.
pub async fn paced(envoys: &[Vec<Target>], pool: &Pool, connections: usize, rate: f64, time: Duration) -> Load {
    let local = LocalSet::new();
    let started = Instant::now();
    let caller = |connection: usize| {
        let (targets, pool) = (envoys[connection % envoys.len()].clone(), pool.clone());
        local.spawn_local(async move {
            let mut load = Load::default();
            let mut open = Connection::new(targets[0].address);
            for number in (connection..).step_by(connections) {
                let due = Duration::from_secs_f64(number as f64 / rate);
                if due >= time {
                    break;
                }
                tokio::time::sleep(due.saturating_sub(started.elapsed())).await;
                let target = &targets[number % targets.len()];
                let reply = open.call(target, pool.next()).await;
                assert_eq!(reply.status, 200, "an answer to {target:?}");
                load.all.push(reply.all.as_secs_f64() * 1e6);
            }
            load
        })
    };
    let tasks: Vec<_> = (0..connections).map(caller).collect();
    let mut load = all_of(local, tasks).await;
    load.rates = vec![load.all.len() as f64 / started.elapsed().max(time).as_secs_f64()];
    load
}

async fn calls(target: Target, pool: Pool, time: Duration, status: u16) -> Load {
    let mut connection = Connection::new(target.address);
    let mut load = Load { warming: 1, ..Load::default() };
    connection.call(&target, pool.next()).await;
    let started = Instant::now();
    while started.elapsed() < time {
        let reply = connection.call(&target, pool.next()).await;
        assert_eq!(reply.status, status, "an answer to {target:?}");
        load.all.push(reply.all.as_secs_f64() * 1e6);
        load.first_byte.push(reply.first_byte.as_secs_f64() * 1e6);
        load.closed += u64::from(!connection.is_open());
    }
    load.rates.push(load.all.len() as f64 / started.elapsed().as_secs_f64());
    load
}
