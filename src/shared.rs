//! The keys of Envoy's shared data, and the compare-and-swap loop for changing their values.
//!
//! Every key has a prefix, because Istio leaves the `vm_id` empty and all modules then share one map. Keys cannot be
//! deleted, so no client can make as many as it likes: only agents that the sidecar knows have keys, and their conversations
//! share a bounded number of them. Keys contain the version of their layout. A module with another layout finds nothing under
//! its own keys, and begins with a full sync.

use crate::host::{Host, SharedValue, Version};

/// How far the policy sync has come.
pub const SYNC_KEY: &str = "aks/4/rev";
/// Until when the fleet is paused.
pub const PAUSE_KEY: &str = "aks/4/pause";
/// Which root talks to the sidecar.
pub const LEASE_KEY: &str = "aks/4/lease";
/// The number of the latest full sync that was started, whether or not it was completed.
pub const ROUND_KEY: &str = "aks/4/round";
/// When the next call to the sidecar may be made while calls fail.
pub const GATE_KEY: &str = "aks/4/gate";
/// When the next observations may be sent while the sidecar does not take them.
pub const OBSERVATIONS_GATE_KEY: &str = "aks/4/gate/o";
/// When the next calls and answers may be sent while the sidecar does not take them.
pub const ENTRIES_GATE_KEY: &str = "aks/4/gate/e";
/// One byte for each bucket of the outbox, which changes with every report put there, so that an idle tick reads only one
/// key.
pub const OUTBOX_COUNT_KEY: &str = "aks/4/out";

/// How many bytes the windows of all conversations take.
const SLOT_BYTES_KEY: &str = "aks/4/slots";

/// The key prefix of an agent's record.
const AGENT_PREFIX: &str = "aks/4/p/";

/// How often [`update`] tries to write before it gives up.
const MAX_ATTEMPTS: usize = 32;
/// How often [`update_persistently`] tries. No worker writes this often in the time that so many attempts take.
const MAX_PERSISTENT_ATTEMPTS: usize = 10_000;

/// The key of an agent's record.
pub fn agent_key(agent_id: &str) -> String {
    [AGENT_PREFIX, agent_id].concat()
}

/// The agent whose record has this key.
pub fn agent_of(key: &str) -> &str {
    key.strip_prefix(AGENT_PREFIX).unwrap_or_default()
}

/// The key of the window that the conversations in one slot of an agent share.
fn slot_key(agent_id: &str, slot: u64) -> String {
    format!("aks/4/w/{agent_id}/{slot}")
}

/// How many slots every agent may use, whatever the limit of all agents together is.
const SLOTS_WITHOUT_LIMIT: u64 = 8;

/// How much room the windows of conversations have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLimits {
    /// How many slots an agent has.
    pub slots: u32,
    /// How many bytes the slots of all agents may take, beyond those that every agent may use.
    pub max_bytes: u32,
}

/// Finds the slot of a conversation, which takes `slot_bytes` when it is full. Returns its key and value.
///
/// Slots are made when they are needed. When all of them together would take more than the limit, the conversations of an
/// agent that have no slot yet share its first ones.
pub fn find_slot(
    host: &impl Host,
    agent_id: &str,
    conversation: u64,
    limits: SlotLimits,
    slot_bytes: usize,
) -> (String, SharedValue) {
    let read = |slot| {
        let key = slot_key(agent_id, slot);
        let value = host.get(&key);
        (key, value)
    };
    let slot = (conversation >> 32) % u64::from(limits.slots.max(1));
    let (key, value) = read(slot);
    let is_free = || slot < SLOTS_WITHOUT_LIMIT || reserve(host, key.len() + slot_bytes, limits.max_bytes);
    if value.version != Version::Absent || is_free() { (key, value) } else { read(slot % SLOTS_WITHOUT_LIMIT) }
}

/// Counts bytes that will be used. Returns false if that would exceed the limit.
fn reserve(host: &impl Host, bytes: usize, max_bytes: u32) -> bool {
    let reserved = update(host, SLOT_BYTES_KEY, |value| {
        let used = number(&value.bytes) + bytes as u64;
        let fits = used <= u64::from(max_bytes);
        (fits.then(|| used.to_le_bytes().to_vec()), fits)
    });
    reserved.unwrap_or(false)
}

/// The key of one bucket of the outbox.
pub fn outbox_key(bucket: usize) -> String {
    format!("aks/4/out/{bucket}")
}

/// Decodes a value that is one number. An absent value is 0.
pub fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Reads a key, applies `change`, and writes the result back.
///
/// `change` returns the new bytes, or `None` to write nothing, and the value that `update` returns. If another worker
/// wrote the key in the meantime, `change` is called again with the new value. Returns `None` if that happened
/// [`MAX_ATTEMPTS`] times in a row.
pub fn update<T>(host: &impl Host, key: &str, change: impl FnMut(&SharedValue) -> (Option<Vec<u8>>, T)) -> Option<T> {
    update_from(host, key, host.get(key), change)
}

/// Like [`update`], but starts with a value that was read earlier. The key is read again only if another worker has
/// written it since, which is noticed when `change` returns bytes to write.
pub fn update_from<T>(
    host: &impl Host,
    key: &str,
    value: SharedValue,
    mut change: impl FnMut(&SharedValue) -> (Option<Vec<u8>>, T),
) -> Option<T> {
    let mut outcome = None;
    let written = compare_and_swap(host, key, value, MAX_ATTEMPTS, &mut |value| {
        let (bytes, result) = change(value);
        outcome = Some(result);
        bytes
    });
    written.and(outcome)
}

/// Like [`update`], for changes that must not be lost: tries [`MAX_PERSISTENT_ATTEMPTS`] times.
pub fn update_persistently(
    host: &impl Host,
    key: &str,
    mut change: impl FnMut(&SharedValue) -> Option<Vec<u8>>,
) -> Option<()> {
    compare_and_swap(host, key, host.get(key), MAX_PERSISTENT_ATTEMPTS, &mut change)
}

/// Takes `dyn FnMut` and is never inlined, so that the loop is compiled once.
#[inline(never)]
fn compare_and_swap(
    host: &impl Host,
    key: &str,
    mut value: SharedValue,
    attempts: usize,
    change: &mut dyn FnMut(&SharedValue) -> Option<Vec<u8>>,
) -> Option<()> {
    for _ in 0..attempts {
        match change(&value) {
            None => return Some(()),
            Some(bytes) if host.set(key, &bytes, value.version).is_ok() => return Some(()),
            Some(_) => value = host.get(key),
        }
    }
    None
}
