//! What is kept in shared data, under which key: the one place where records meet compare-and-swap.
//!
//! Every key is prefixed, since Istio leaves vm_id empty and modules then share one map. Keys cannot be deleted, so none
//! is ever made of what a client sends: only agents that the sidecar knows have keys.
//!
//! An agent's policy and its window are one record, so that a request costs one read: the headers read it, and the body
//! is judged on what they read unless another worker has written since. Windows of sessions have records of their own.

use crate::codec::Reader;
use crate::host::{Host, Stored};
use crate::policy::Record;

/// How often a write is tried against other workers.
const TRIES: usize = 32;
/// The same where it must not be lost: no worker writes as often in the time that this takes.
const MANY_TRIES: usize = 10_000;

/// The key of an agent's record: its policy, and its window after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentKey(String);

impl AgentKey {
    const PREFIX: &str = "aks/p/";

    /// That of this agent.
    pub fn new(agent: &str) -> Self {
        Self([Self::PREFIX, agent].concat())
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The agent whose key it is.
    pub fn agent(&self) -> &str {
        self.0.strip_prefix(Self::PREFIX).unwrap_or_default()
    }

    /// The key of the window of one slot of the agent's sessions.
    pub fn of_slot(&self, slot: u32) -> String {
        format!("aks/w/{}/{slot}", self.agent())
    }
}

/// A report that the sidecar has not accepted yet.
pub fn outbox_key(slot: u32) -> String {
    format!("aks/out/{slot}")
}

/// How far the sync has come.
pub const SYNC_KEY: &str = "aks/rev";
/// Which root polls.
pub const LEASE_KEY: &str = "aks/lease";
/// Rises with every report put into the outbox, so that an idle tick reads one key.
pub const OUTBOX_COUNT_KEY: &str = "aks/out";

/// Reads, changes and writes a key until no other writer comes between. `change` gives the new bytes and what to return,
/// or what to return without writing. Nothing where others were faster every time.
pub fn update<T>(host: &impl Host, key: &str, change: impl FnMut(&Stored) -> (Option<Vec<u8>>, T)) -> Option<T> {
    update_from(host, key, host.get(key), change)
}

/// The same, beginning with what was read before: where nobody has written since, nothing is read again. `change` must
/// write.
pub fn update_from<T>(
    host: &impl Host,
    key: &str,
    stored: Stored,
    mut change: impl FnMut(&Stored) -> (Option<Vec<u8>>, T),
) -> Option<T> {
    let mut outcome = None;
    let written = attempt(host, key, stored, TRIES, &mut |stored| {
        let (bytes, now) = change(stored);
        outcome = Some(now);
        bytes
    });
    written.and(outcome)
}

/// The same for what must not be lost, however many write.
pub fn insist(host: &impl Host, key: &str, mut change: impl FnMut(&Stored) -> Option<Vec<u8>>) -> Option<()> {
    attempt(host, key, host.get(key), MANY_TRIES, &mut change)
}

/// Once in the module is enough.
#[inline(never)]
fn attempt(
    host: &impl Host,
    key: &str,
    mut stored: Stored,
    tries: usize,
    change: &mut dyn FnMut(&Stored) -> Option<Vec<u8>>,
) -> Option<()> {
    for _ in 0..tries {
        match change(&stored) {
            None => return Some(()),
            Some(bytes) if host.set(key, &bytes, stored.version).is_ok() => return Some(()),
            Some(_) => stored = host.get(key),
        }
    }
    None
}

/// A policy and the round of full syncs it was written in: what an older round left behind is gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept {
    /// The policy.
    pub record: Record,
    /// The round.
    pub round: u32,
}

impl Kept {
    /// Bytes before the window.
    pub const BYTES: usize = 4 + Record::BYTES;

    /// The bytes to keep, with the window of what stood there before.
    pub fn encode(&self, before: &[u8]) -> Vec<u8> {
        let window = before.get(Self::BYTES..).unwrap_or_default();
        [self.round.to_le_bytes().as_slice(), &self.record.encode(), window].concat()
    }

    /// What these bytes keep.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let round = reader.u32()?;
        Some(Self { round, record: Record::decode(reader.rest())? })
    }
}

/// How far the sync has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Counts full syncs.
    pub round: u32,
    /// The revision that is applied.
    pub rev: u64,
    /// When the sidecar was last heard of, in milliseconds since 1970.
    pub heard_ms: u64,
    /// Which life of the sidecar's database the revision belongs to.
    pub epoch: String,
}

impl Position {
    /// The bytes to keep.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.round.to_le_bytes().to_vec();
        bytes.extend(self.rev.to_le_bytes());
        bytes.extend(self.heard_ms.to_le_bytes());
        bytes.extend(self.epoch.as_bytes());
        bytes
    }

    /// What these bytes keep; nothing where there was no sync yet.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (round, rev, heard_ms) = (reader.u32()?, reader.u64()?, reader.u64()?);
        Some(Self { round, rev, heard_ms, epoch: String::from_utf8(reader.rest().to_vec()).ok()? })
    }
}
