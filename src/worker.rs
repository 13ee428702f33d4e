//! What the streams and the root of one worker share. Workers share nothing with each other but shared data.

use std::cell::{Cell, RefCell};

use crate::config::Config;
use crate::fingerprint::Fingerprinter;
use crate::host::Host;
use crate::link::entries::EntryBuffer;
use crate::link::observations::ObservationBuffer;

/// The state of the filter in one worker.
pub struct Worker {
    /// The configuration.
    pub config: Config,
    /// The name of this Envoy.
    pub envoy: String,
    /// The round of full syncs that is in force, or `None` before the first policy has arrived. The root's tick refreshes it.
    pub round: Cell<Option<u32>>,
    /// The time of the root's last tick, in milliseconds since 1970. It is exact enough to tell when an agent was last
    /// seen, and costs no host call.
    pub ticked_ms: Cell<u64>,
    /// How much larger the time since 1970 was than the steady time at the root's last tick, in nanoseconds. It costs no
    /// host call to compute one from the other. Milliseconds would not do: they are rounded, so the workers of an Envoy
    /// would differ by one, and their calls could not be put in order.
    pub clock_ahead_ns: Cell<u64>,
    /// What is reported to the sidecar every now and then.
    pub observations: RefCell<ObservationBuffer>,
    /// The calls and answers that the sidecar is told of several times a second.
    pub entries: RefCell<EntryBuffer>,
    /// Fingerprinters that are not in use, since their buffers are worth keeping. The one returned last is taken first,
    /// while it is still in the cache.
    spare: RefCell<Vec<Fingerprinter>>,
}

/// How many spare fingerprinters are kept. Each has ten kilobytes of buffers.
const MAX_SPARE: usize = 64;

impl Worker {
    /// Creates the state of a worker.
    pub fn new(config: Config, envoy: String) -> Self {
        let entries = RefCell::new(EntryBuffer::new(config.fleet));
        Self {
            config,
            envoy,
            round: Cell::new(None),
            ticked_ms: Cell::new(0),
            clock_ahead_ns: Cell::new(0),
            observations: RefCell::default(),
            entries,
            spare: RefCell::default(),
        }
    }

    /// Reads the clock. Called with every tick of the root.
    pub fn read_clock(&self, host: &impl Host) {
        let now_ns = host.now_ns();
        self.ticked_ms.set(now_ns / 1_000_000);
        self.clock_ahead_ns.set(now_ns.wrapping_sub(host.steady_ns()));
    }

    /// Takes a fingerprinter that holds no text.
    pub fn take_fingerprinter(&self) -> Fingerprinter {
        let spare = self.spare.borrow_mut().pop();
        spare.unwrap_or_else(|| Fingerprinter::with_patterns(self.config.patterns.clone()))
    }

    /// Returns a fingerprinter that is finished.
    pub fn return_fingerprinter(&self, text: Fingerprinter) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < MAX_SPARE {
            spare.push(text);
        }
    }
}
