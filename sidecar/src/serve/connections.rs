//! How many connections are open, and which one is closed when there are too many.
//!
//! Every connection takes a file of the process, and a process that has none left can neither accept connections nor open
//! its database. There is therefore a limit. When it is reached, the connection that has been without an identified request
//! for the longest time is closed in favour of a new one. An identified request is one with a valid token or session, such
//! as a long poll. Connections that have never had one are closed before all others, however busy they are, so strangers
//! can only push out each other.
//!
//! If all connections have identified requests, a few more are taken for health checks: an orchestrator must not restart
//! a sidecar because it is busy. Any other request on them is answered with 503.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How many connections are kept for health checks.
const RESERVED: usize = 32;
/// How many files are kept for everything else: the database, its connections, webhooks, the log.
const OTHER_FILES: u64 = 128;
/// The fewest connections that are allowed if nothing else is configured, whatever the limit of files.
const MIN_CONNECTIONS: u64 = 16;
/// The most connections that are allowed if nothing else is configured.
const MAX_CONNECTIONS: u64 = 10_000;
/// How often a limit that is reached is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Returns how many connections to allow. Without a configured number, it depends on how many files the process may open.
pub(super) fn limit(configured: Option<u32>) -> usize {
    let Some(files) = file_limit() else {
        return configured.map_or(MAX_CONNECTIONS as usize, |configured| configured as usize);
    };
    let affordable = files.saturating_sub(OTHER_FILES + RESERVED as u64);
    let limit = match configured {
        None => affordable.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS),
        Some(configured) => configured.into(),
    };
    if limit > affordable {
        tracing::warn!(limit, files, "the process may open too few files for this many connections: raise ulimit -n");
    }
    limit as usize
}

#[cfg(unix)]
fn file_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
fn file_limit() -> Option<u64> {
    None
}

/// All open connections.
pub(super) struct Connections(Mutex<Table>);

/// The place of a connection in the order of eviction: whether it has ever had an identified request, and when its latest
/// one ended or, if it had none, when it was opened.
type Turn = (bool, u64);

struct Table {
    general: Pool,
    reserve: Pool,
    /// The number that the next connection, or the next turn, gets.
    next: u64,
    warned: Option<Instant>,
}

/// Connections with a common limit.
struct Pool {
    max: usize,
    /// Every connection by its number, with its turn if it can be evicted.
    open: HashMap<u64, Option<Turn>>,
    /// The connections that can be evicted, in the order in which that happens.
    evictable: BTreeMap<Turn, (u64, Arc<Notify>)>,
}

/// What a connection may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Anything.
    Anything,
    /// Health checks.
    HealthChecks,
}

/// An open connection. It gives its place back when it is dropped.
pub(super) struct Connection {
    all: Arc<Connections>,
    number: u64,
    usable_for: Use,
    evicted: Arc<Notify>,
}

impl Connections {
    pub(super) fn new(max: usize) -> Arc<Self> {
        let pool = |max| Pool { max, open: HashMap::new(), evictable: BTreeMap::new() };
        Arc::new(Self(Mutex::new(Table { general: pool(max), reserve: pool(RESERVED), next: 0, warned: None })))
    }

    /// Adds a connection. Returns `None` if there is no room for it.
    pub(super) fn open(self: &Arc<Self>) -> Option<Connection> {
        let evicted = Arc::new(Notify::new());
        let mut table = self.table();
        let number = table.next();
        let added = table.general.add(number, &evicted).map(|pushed_out| (Use::Anything, pushed_out));
        let added = added.or_else(|| Some((Use::HealthChecks, table.reserve.add(number, &evicted)?)));
        if let Some((_, Some(pushed_out))) = &added {
            pushed_out.notify_one();
        }
        match &added {
            Some((Use::Anything, None)) => {}
            Some((Use::Anything, Some(_))) => {
                table.warn();
                metrics::counter!("kill_switch_connections_evicted_total").increment(1);
            }
            Some((Use::HealthChecks, _)) | None => {
                table.warn();
                metrics::counter!("kill_switch_connections_refused_total").increment(1);
            }
        }
        table.publish();
        drop(table);
        added.map(|(usable_for, _)| Connection { all: Arc::clone(self), number, usable_for, evicted })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn pool(&mut self, usable_for: Use) -> &mut Pool {
        match usable_for {
            Use::Anything => &mut self.general,
            Use::HealthChecks => &mut self.reserve,
        }
    }

    fn publish(&self) {
        metrics::gauge!("kill_switch_connections").set((self.general.open.len() + self.reserve.open.len()) as f64);
    }

    fn warn(&mut self) {
        let now = Instant::now();
        if self.warned.is_none_or(|last| now.saturating_duration_since(last) >= LOG_INTERVAL) {
            self.warned = Some(now);
            let identified = self.general.open.len() - self.general.evictable.len();
            tracing::warn!(limit = self.general.max, identified, "the limit of connections is reached");
        }
    }
}

impl Pool {
    /// Adds a connection. Returns the one that was evicted for it, if any, or `None` if there is no room.
    fn add(&mut self, number: u64, evicted: &Arc<Notify>) -> Option<Option<Arc<Notify>>> {
        let mut pushed_out = None;
        if self.open.len() >= self.max {
            let (_, (other, notify)) = self.evictable.pop_first()?;
            self.open.remove(&other);
            pushed_out = Some(notify);
        }
        let turn = (false, number);
        self.open.insert(number, Some(turn));
        self.evictable.insert(turn, (number, Arc::clone(evicted)));
        Some(pushed_out)
    }

    fn remove(&mut self, number: u64) {
        if let Some(Some(turn)) = self.open.remove(&number) {
            self.evictable.remove(&turn);
        }
    }
}

impl Connection {
    pub(super) fn usable_for(&self) -> Use {
        self.usable_for
    }

    /// Returns what is notified when the connection must be closed.
    pub(super) fn evicted(&self) -> Arc<Notify> {
        Arc::clone(&self.evicted)
    }

    /// Keeps the connection from being evicted until its request has ended.
    pub(super) fn identified(&self) {
        let mut table = self.all.table();
        let pool = table.pool(self.usable_for);
        if let Some(turn) = pool.open.get_mut(&self.number).and_then(Option::take) {
            pool.evictable.remove(&turn);
        }
    }

    /// Ends a request. If it was identified, the connection goes to the end of the order of eviction.
    pub(super) fn request_ended(&self) {
        let mut table = self.all.table();
        let turn = (true, table.next());
        let pool = table.pool(self.usable_for);
        if let Some(current @ None) = pool.open.get_mut(&self.number) {
            *current = Some(turn);
            pool.evictable.insert(turn, (self.number, Arc::clone(&self.evicted)));
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut table = self.all.table();
        table.pool(self.usable_for).remove(self.number);
        table.publish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_evicted(connection: &Connection) -> bool {
        let table = connection.all.table();
        let pool = if connection.usable_for == Use::Anything { &table.general } else { &table.reserve };
        !pool.open.contains_key(&connection.number)
    }

    #[test]
    fn the_connection_that_has_been_idle_for_the_longest_time_makes_room() {
        let all = Connections::new(3);
        let [first, second, third] = [0; 3].map(|_| all.open().unwrap());
        first.identified();
        first.request_ended();
        let fourth = all.open().unwrap();
        assert_eq!([&first, &second, &third, &fourth].map(is_evicted), [false, true, false, false]);
        drop(second);
        let fifth = all.open().unwrap();
        assert_eq!([&first, &third, &fourth, &fifth].map(is_evicted), [false, true, false, false]);
        drop((third, fourth));
        assert!(!is_evicted(&all.open().map(|_| fifth).unwrap()), "a place that was given back is free");
    }

    #[test]
    fn strangers_push_out_only_each_other_however_many_requests_they_send() {
        let all = Connections::new(3);
        let operator = all.open().unwrap();
        operator.identified();
        operator.request_ended();
        // A request without a token does not make it a stranger's connection again.
        operator.request_ended();
        let mut strangers: Vec<_> = (0..20).map(|_| all.open().unwrap()).inspect(Connection::request_ended).collect();
        let newest = strangers.split_off(18);
        assert!(strangers.iter().all(is_evicted));
        assert!(!newest.iter().chain([&operator]).any(is_evicted));

        let all = Connections::new(2);
        let [operator, envoy] = [0; 2].map(|_| all.open().unwrap());
        for known in [&operator, &envoy] {
            known.identified();
            known.request_ended();
        }
        let _stranger = all.open().unwrap();
        assert_eq!(
            [&operator, &envoy].map(is_evicted),
            [true, false],
            "without a stranger, the one that was idle longest"
        );
    }

    #[test]
    fn identified_requests_are_never_evicted_and_leave_room_for_health_checks_only() {
        let all = Connections::new(2);
        let busy = [0; 2].map(|_| all.open().unwrap());
        busy.iter().for_each(Connection::identified);
        let checks: Vec<_> = (0..RESERVED + 1).map(|_| all.open().unwrap()).collect();
        assert!(checks.iter().all(|check| check.usable_for() == Use::HealthChecks));
        assert!(is_evicted(&checks[0]), "the reserve is not used up by connections that send nothing");
        assert!(!busy.iter().any(is_evicted));
        busy[0].request_ended();
        let general = all.open().unwrap();
        assert_eq!((general.usable_for(), busy.each_ref().map(is_evicted)), (Use::Anything, [true, false]));
        busy[0].request_ended();
        assert!(is_evicted(&busy[0]), "a connection that was evicted stays so");
    }

    #[test]
    fn the_limit_leaves_files_for_everything_else() {
        assert_eq!(limit(Some(7)), 7);
        let files = file_limit().unwrap_or(u64::MAX);
        assert!(limit(None) as u64 + OTHER_FILES + RESERVED as u64 <= files.max(1024), "{files}");
    }
}
