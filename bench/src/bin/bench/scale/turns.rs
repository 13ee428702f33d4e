//! Agents or conversations that call in turn, and cases that take turns in short slices of time.

use std::time::{Duration, Instant};

use bench::stats::median;

use crate::options::Options;
use crate::rig::client::{Connection, Target};
use crate::rig::pool::Pool;

/// How long a case calls before it is the turn of the next one.
const SLICE: Duration = Duration::from_millis(150);

/// The callers of one case, which call one after the other. A slice continues where the one before has ended, so that all
/// of them get their turn.
pub struct Callers {
    targets: Vec<Target>,
    calls: usize,
}

impl Callers {
    /// Creates callers that make these calls.
    pub fn new(targets: impl IntoIterator<Item = Target>) -> Self {
        Self { targets: targets.into_iter().collect(), calls: 0 }
    }

    /// Returns how many calls they have made.
    pub fn calls(&self) -> u64 {
        self.calls as u64
    }

    /// Lets each of them call once, with the same body. If the filter took them for one caller, that would be a loop, and
    /// the calls would be refused.
    async fn call_once_each(&mut self, pool: &Pool) {
        let body = pool.next();
        let mut connection = self.connection();
        for _ in 0..self.targets.len() {
            self.call(&mut connection, body).await;
        }
    }

    /// Makes calls during one slice, and returns their times in microseconds.
    async fn slice(&mut self, pool: &Pool) -> Vec<f64> {
        let mut connection = self.connection();
        // The first call on a connection takes longer.
        self.call(&mut connection, pool.next()).await;
        let mut times = Vec::new();
        let started = Instant::now();
        while started.elapsed() < SLICE {
            times.push(self.call(&mut connection, pool.next()).await);
        }
        times
    }

    fn connection(&self) -> Connection {
        Connection::new(self.targets[0].address)
    }

    /// Makes the next call, and returns its time in microseconds.
    async fn call(&mut self, connection: &mut Connection, body: &[u8]) -> f64 {
        let target = &self.targets[self.calls % self.targets.len()];
        self.calls += 1;
        let reply = connection.call(target, body).await;
        assert_eq!(reply.status, 200, "an answer to {target:?}");
        reply.all.as_secs_f64() * 1e6
    }
}

/// Measures cases in turns. Returns the median time of each round for each case, in microseconds.
pub async fn measure<const N: usize>(options: &Options, cases: &mut [Callers; N], pool: &Pool) -> [Vec<f64>; N] {
    for callers in cases.iter_mut() {
        callers.call_once_each(pool).await;
    }
    let slices = if options.quick { 4 } else { 8 };
    let mut all = [const { Vec::new() }; N];
    for round in 0..options.rounds() {
        let mut times = [const { Vec::new() }; N];
        for turn in 0..slices * N {
            let case = (round + turn) % N;
            times[case].extend(cases[case].slice(pool).await);
        }
        for (all, times) in all.iter_mut().zip(times) {
            all.push(median(&times));
        }
    }
    all
}
