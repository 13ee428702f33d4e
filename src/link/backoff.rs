//! Exponential backoff with jitter, for calls to the sidecar.

/// Waits longer after each failure. The random part keeps many Envoys from calling at the same moment.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
    until_ms: u64,
}

impl Backoff {
    const FIRST_MS: u64 = 200;
    const LONGEST_MS: u64 = 10_000;

    /// Whether the next attempt may start.
    pub fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.until_ms
    }

    /// Records a failure. Returns whether it is the first in a row.
    pub fn fail(&mut self, now_ms: u64, random: u64) -> bool {
        let delay = (Self::FIRST_MS << self.failures.min(10)).min(Self::LONGEST_MS);
        self.until_ms = now_ms + delay / 2 + random % (delay / 2 + 1);
        self.failures += 1;
        self.failures == 1
    }

    /// Records a success. Returns whether there were failures before it.
    pub fn recover(&mut self) -> bool {
        std::mem::take(self).failures > 0
    }
}
