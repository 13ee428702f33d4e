//! Which Envoys are connected, and which revision each has applied.
//!
//! The list is kept in memory, so that a poll that finds nothing new touches no table. After a restart it fills again
//! within seconds, because every Envoy that is alive polls. Replicas that share a database exchange their lists every
//! few seconds, so that each of them shows all Envoys.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::{Result, Service};
use crate::clock::serialize_rfc3339;
use crate::model::{Millis, SeenEnvoy};

/// The largest number of Envoys in the list. A new one replaces the one that has been silent for longest.
const MAX_ENVOYS: usize = 1_000;
/// The longest name of an Envoy, in characters. Longer names are cut.
const MAX_NAME: usize = 128;
/// How long an Envoy may be silent between two polls and still be connected. Its longest backoff is shorter.
const SILENCE_MS: Millis = 15_000;
/// How often replicas exchange their lists.
pub(crate) const SHARE: Duration = Duration::from_secs(5);
/// The same limit for an Envoy that polls at another replica, whose list is some seconds old.
const SHARED_SILENCE_MS: Millis = SILENCE_MS + 10_000;
/// How long other replicas list an Envoy that is gone.
const REMEMBERED_MS: Millis = 24 * 3_600_000;

/// An Envoy in the list. It is serialised as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EnvoyView {
    /// The name that it gives itself.
    pub envoy: String,
    /// Whether it is polling, or was a moment ago.
    pub connected: bool,
    /// The revision that it has applied. `None` if it has not applied an answer from this database yet.
    pub applied_rev: Option<u64>,
    /// When it was last heard from.
    #[serde(rename = "last_seen", serialize_with = "serialize_rfc3339")]
    pub last_seen_ms: Millis,
}

#[derive(Default)]
struct Entry {
    applied_rev: Option<u64>,
    polls: usize,
    last_seen_ms: Millis,
    /// The revision from which the next page of a full answer continues.
    full_page_at: Option<u64>,
}

/// All known Envoys.
#[derive(Default)]
pub(super) struct Registry {
    /// The Envoys that have polled here.
    own: Mutex<HashMap<String, Entry>>,
    /// The latest list from all replicas, including this one.
    shared: Mutex<Vec<SeenEnvoy>>,
}

impl Service {
    /// Exchanges the lists of Envoys with the other replicas.
    pub async fn share_envoys(&self) -> Result<()> {
        let now_ms = self.now();
        let own = self.envoys.own(now_ms).into_iter();
        let seen = |EnvoyView { envoy, applied_rev, last_seen_ms, .. }| SeenEnvoy { envoy, applied_rev, last_seen_ms };
        let seen: Vec<_> = own.map(seen).collect();
        let shared = self.store.share_envoys(&seen, now_ms.saturating_sub(REMEMBERED_MS)).await?;
        *self.envoys.shared.lock().unwrap_or_else(PoisonError::into_inner) = shared;
        Ok(())
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        // The map is consistent between any two statements, so a panic elsewhere does not invalidate it.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a poll, which lasts until the returned guard is dropped.
    pub(super) fn poll(&self, envoy: &str, applied_rev: Option<u64>, now_ms: Millis) -> Poll<'_> {
        let name = presentable(envoy);
        let mut entries = self.lock();
        if entries.len() >= MAX_ENVOYS && !entries.contains_key(&name) {
            let idle = entries.iter().filter(|(_, entry)| entry.polls == 0);
            let oldest = idle.min_by_key(|(_, entry)| entry.last_seen_ms).map(|(name, _)| name.clone());
            match oldest {
                Some(oldest) => drop(entries.remove(&oldest)),
                None => return Poll { registry: self, name: None },
            }
        }
        let entry = entries.entry(name.clone()).or_default();
        entry.applied_rev = applied_rev;
        entry.polls += 1;
        entry.last_seen_ms = now_ms;
        Poll { registry: self, name: Some(name) }
    }

    /// Returns every Envoy, ordered by name. If two replicas know an Envoy, the latest information is returned.
    pub(super) fn list(&self, now_ms: Millis) -> Vec<EnvoyView> {
        let own = self.own(now_ms).into_iter().map(|view| (view.envoy.clone(), view));
        let mut views: BTreeMap<_, _> = own.collect();
        for seen in self.shared.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if views.get(&seen.envoy).is_some_and(|own| own.connected || own.last_seen_ms >= seen.last_seen_ms) {
                continue;
            }
            let view = EnvoyView {
                envoy: seen.envoy.clone(),
                applied_rev: seen.applied_rev,
                connected: now_ms.abs_diff(seen.last_seen_ms) < SHARED_SILENCE_MS,
                last_seen_ms: seen.last_seen_ms,
            };
            views.insert(seen.envoy.clone(), view);
        }
        views.into_values().collect()
    }

    /// Returns the Envoys that have polled here.
    fn own(&self, now_ms: Millis) -> Vec<EnvoyView> {
        let entries = self.lock();
        entries
            .iter()
            .map(|(name, entry)| EnvoyView {
                envoy: name.clone(),
                applied_rev: entry.applied_rev,
                connected: entry.polls > 0 || now_ms.abs_diff(entry.last_seen_ms) < SILENCE_MS,
                last_seen_ms: if entry.polls > 0 { now_ms } else { entry.last_seen_ms },
            })
            .collect()
    }
}

pub(super) fn presentable(envoy: &str) -> String {
    let name: String = envoy.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// A poll that is under way.
pub(super) struct Poll<'a> {
    registry: &'a Registry,
    /// `None` if the list is full of polling Envoys, so that this one is not in it.
    name: Option<String>,
}

impl Poll<'_> {
    /// Whether `since` continues a full answer.
    pub(super) fn continues_full(&self, since: u64) -> bool {
        self.with_entry(|entry| entry.full_page_at == Some(since)).unwrap_or_default()
    }

    /// Records where the next page of a full answer begins, or that there is none.
    pub(super) fn expect_full_page(&self, at: Option<u64>) {
        self.with_entry(|entry| entry.full_page_at = at);
    }

    /// Records that the Envoy is still connected at the end of its poll.
    pub(super) fn seen(&self, now_ms: Millis) {
        self.with_entry(|entry| entry.last_seen_ms = now_ms);
    }

    fn with_entry<T>(&self, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let name = self.name.as_ref()?;
        self.registry.lock().get_mut(name).map(act)
    }
}

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        self.with_entry(|entry| entry.polls = entry.polls.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envoy_is_connected_while_it_polls_and_for_a_moment_afterwards() {
        let registry = Registry::default();
        let poll = registry.poll("edge", Some(7), 1_000);
        let polling = registry.list(60_000);
        assert!(polling[0].connected);
        assert_eq!((polling[0].applied_rev, polling[0].last_seen_ms), (Some(7), 60_000));
        poll.seen(60_000);
        drop(poll);
        assert!(registry.list(60_001).iter().all(|envoy| envoy.connected));
        let later = registry.list(60_000 + SILENCE_MS);
        assert!(!later[0].connected);
        assert_eq!(later[0].last_seen_ms, 60_000);
    }

    #[test]
    fn the_latest_information_about_an_envoy_that_two_replicas_know_is_listed() {
        let registry = Registry::default();
        let _poll = registry.poll("here", Some(3), 1_000);
        drop(registry.poll("moved", Some(3), 1_000));
        let seen =
            |envoy: &str, last_seen_ms| SeenEnvoy { envoy: envoy.to_owned(), applied_rev: Some(9), last_seen_ms };
        *registry.shared.lock().unwrap() = vec![seen("here", 90_000), seen("moved", 90_000), seen("gone", 5_000)];
        let listed = registry.list(100_000);
        let summary: Vec<_> =
            listed.iter().map(|view| (view.envoy.as_str(), view.connected, view.applied_rev)).collect();
        assert_eq!(summary, [("gone", false, Some(9)), ("here", true, Some(3)), ("moved", true, Some(9))]);
    }

    #[test]
    fn a_new_envoy_replaces_the_one_that_has_been_silent_for_longest() {
        let registry = Registry::default();
        for at in 0..=MAX_ENVOYS as u64 {
            drop(registry.poll(&format!("envoy-{at}"), None, at));
        }
        let names: Vec<_> = registry.list(0).into_iter().map(|envoy| envoy.envoy).collect();
        assert_eq!(names.len(), MAX_ENVOYS);
        assert!(!names.contains(&"envoy-0".to_owned()));
    }

    #[test]
    fn control_characters_are_removed_from_names_and_empty_names_are_replaced() {
        let registry = Registry::default();
        drop(registry.poll("", None, 0));
        drop(registry.poll("a\nb", None, 0));
        let names: Vec<_> = registry.list(0).into_iter().map(|envoy| envoy.envoy).collect();
        assert_eq!(names, ["ab", "unnamed"]);
    }
}
