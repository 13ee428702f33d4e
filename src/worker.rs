//! What the streams and the root of one worker share.

use std::cell::{Cell, RefCell};

use crate::config::Config;
use crate::detect::fingerprint::Fingerprinter;
use crate::observe::Seen;
use crate::wire::KillReport;

/// The filter within one worker. Workers share nothing but shared data.
pub struct Worker {
    /// The configuration.
    pub config: Config,
    /// How this Envoy is called.
    pub envoy: String,
    /// Whether any policy has arrived, and in which round of full syncs; refreshed by the root's tick.
    pub round: Cell<Option<u32>>,
    /// The time of the root's last tick, in milliseconds since 1970: near enough to say when an agent was last seen.
    pub ticked_ms: Cell<u64>,
    /// What is told to the sidecar now and then.
    pub seen: RefCell<Seen>,
    /// Reports for which the outbox had no room.
    pub overflow: RefCell<Vec<KillReport>>,
    /// Buffers for hashing requests, one at a time.
    pub text: RefCell<Fingerprinter>,
    /// Buffers for hashing answers, of which many are read at once: those that no answer needs just now.
    pub spare: RefCell<Vec<Fingerprinter>>,
}

impl Worker {
    /// A worker's filter.
    pub fn new(config: Config, envoy: String) -> Self {
        let text = RefCell::new(Fingerprinter::with_patterns(config.patterns.clone()));
        Self {
            config,
            envoy,
            round: Cell::new(None),
            ticked_ms: Cell::new(0),
            seen: RefCell::default(),
            overflow: RefCell::default(),
            text,
            spare: RefCell::default(),
        }
    }
}
