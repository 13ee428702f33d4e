//! The keys of Envoy's shared data, and the compare-and-swap loop that every write to it goes through.
//!
//! Every key has a prefix, because Istio leaves the `vm_id` empty and all modules then share one map. Keys cannot be
//! deleted, so no key is ever derived from what a client sends: only agents that the sidecar knows have keys.

use crate::host::{Host, SharedValue};

/// How far the policy sync has come.
pub const SYNC_KEY: &str = "aks/rev";
/// Which root talks to the sidecar.
pub const LEASE_KEY: &str = "aks/lease";
/// A number that rises with every report put into the outbox, so that an idle tick reads only one key.
pub const OUTBOX_COUNT_KEY: &str = "aks/out";

/// The key prefix of an agent's record.
const AGENT_PREFIX: &str = "aks/p/";

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

/// The key of the window that one slot of an agent's sessions shares.
pub fn session_key(agent_id: &str, slot: u32) -> String {
    format!("aks/w/{agent_id}/{slot}")
}

/// The key of one slot of the outbox.
pub fn outbox_key(slot: u32) -> String {
    format!("aks/out/{slot}")
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
