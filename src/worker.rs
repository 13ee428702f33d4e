//! What the streams and the root of one worker share.

use std::cell::{Cell, RefCell};

use crate::config::Config;
use crate::fingerprint::Fingerprinter;
use crate::link::observations::Seen;
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
    /// Buffers for hashing that nobody needs just now. Many answers are read at once; the one given back last is taken
    /// first, while it is still in the cache.
    spare: RefCell<Vec<Fingerprinter>>,
}

/// Buffers that are kept: ten kilobytes each.
const SPARE_MAX: usize = 64;

impl Worker {
    /// A worker's filter.
    pub fn new(config: Config, envoy: String) -> Self {
        Self {
            config,
            envoy,
            round: Cell::new(None),
            ticked_ms: Cell::new(0),
            seen: RefCell::default(),
            overflow: RefCell::default(),
            spare: RefCell::default(),
        }
    }

    /// Takes buffers for hashing a text, as new.
    pub fn take_text(&self) -> Fingerprinter {
        let spare = self.spare.borrow_mut().pop();
        spare.unwrap_or_else(|| Fingerprinter::with_patterns(self.config.patterns.clone()))
    }

    /// Gives them back, finished.
    pub fn give_back(&self, text: Fingerprinter) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_MAX {
            spare.push(text);
        }
    }
}
