//! Which Envoys are connected, and how far each has come.
//!
//! Kept in memory: an Envoy that is alive polls again within seconds of a restart, and one that is not should not be
//! listed. A poll that finds nothing new must touch no table, and this is how. Replicas over one database tell each
//! other every few seconds, so that each lists them all.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Result, Service};
use crate::model::{Millis, SeenEnvoy};

/// More names than this are not kept; the one unheard of for longest makes room.
const MAX_ENVOYS: usize = 1_000;
/// The longest name kept, in bytes.
const MAX_NAME: usize = 128;
/// Between two polls an Envoy is silent for at most its longest backoff.
const SILENCE_MS: Millis = 15_000;
/// How often replicas tell each other.
pub(crate) const SHARE: Duration = Duration::from_secs(5);
/// What another replica says of an Envoy that polls there is so much older, and a little.
const SHARED_SILENCE_MS: Millis = SILENCE_MS + 10_000;
/// How long one that is gone is listed by the replicas that never heard of it.
const REMEMBERED_MS: Millis = 24 * 3_600_000;

/// One Envoy, as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvoyView {
    /// What it calls itself.
    pub envoy: String,
    /// The revision that it has applied; none while it has not got this database's first answer.
    pub applied_rev: Option<u64>,
    /// Whether it polls now, or did a moment ago.
    pub connected: bool,
    /// When it was last heard of.
    pub last_seen_ms: Millis,
}

#[derive(Default)]
struct Entry {
    applied_rev: Option<u64>,
    polls: usize,
    last_seen_ms: Millis,
    /// The cursor at which the next page of a full answer is expected.
    full_page_at: Option<u64>,
}

/// Everyone who polled.
#[derive(Default)]
pub(super) struct Registry {
    own: Mutex<HashMap<String, Entry>>,
    /// What the replicas, this one included, last said of whom.
    shared: Mutex<Vec<SeenEnvoy>>,
}

impl Service {
    /// Tells the other replicas who polls here, and hears who polls there.
    pub async fn share_envoys(&self) -> Result<()> {
        let now_ms = self.now();
        let seen: Vec<_> = self.envoys.own(now_ms).into_iter().map(EnvoyView::seen).collect();
        let shared = self.store.share_envoys(&seen, now_ms.saturating_sub(REMEMBERED_MS)).await?;
        *self.envoys.shared.lock().unwrap_or_else(PoisonError::into_inner) = shared;
        Ok(())
    }
}

impl EnvoyView {
    fn seen(self) -> SeenEnvoy {
        SeenEnvoy { envoy: self.envoy, applied_rev: self.applied_rev, last_seen_ms: self.last_seen_ms }
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        // Nothing is left half-done in here: a poisoned lock is as good as any.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the beginning of a poll, until the returned guard is dropped.
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

    /// Everyone, in the order of their names. Of one that two replicas know, what was heard last.
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
                connected: now_ms.saturating_sub(seen.last_seen_ms) < SHARED_SILENCE_MS,
                last_seen_ms: seen.last_seen_ms,
            };
            views.insert(seen.envoy.clone(), view);
        }
        views.into_values().collect()
    }

    /// Everyone who polled here.
    fn own(&self, now_ms: Millis) -> Vec<EnvoyView> {
        let entries = self.lock();
        entries
            .iter()
            .map(|(name, entry)| EnvoyView {
                envoy: name.clone(),
                applied_rev: entry.applied_rev,
                connected: entry.polls > 0 || now_ms.saturating_sub(entry.last_seen_ms) < SILENCE_MS,
                last_seen_ms: if entry.polls > 0 { now_ms } else { entry.last_seen_ms },
            })
            .collect()
    }
}

fn presentable(envoy: &str) -> String {
    let name: String = envoy.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// One poll under way.
pub(super) struct Poll<'a> {
    registry: &'a Registry,
    /// None where the registry is full of polling Envoys.
    name: Option<String>,
}

impl Poll<'_> {
    /// Whether `since` asks for the next page of a full answer.
    pub(super) fn continues_full(&self, since: u64) -> bool {
        self.with_entry(|entry| entry.full_page_at == Some(since)).unwrap_or_default()
    }

    /// Notes where the next page of a full answer begins, or that there is none.
    pub(super) fn expect_full_page(&self, at: Option<u64>) {
        self.with_entry(|entry| entry.full_page_at = at);
    }

    /// Notes that the Envoy is still there at the end of its poll.
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
    fn an_envoy_is_connected_while_it_polls_and_a_moment_after() {
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
    fn of_an_envoy_that_two_replicas_know_the_latest_is_listed() {
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
    fn the_one_unheard_of_for_longest_makes_room() {
        let registry = Registry::default();
        for at in 0..=MAX_ENVOYS as u64 {
            drop(registry.poll(&format!("envoy-{at}"), None, at));
        }
        let names: Vec<_> = registry.list(0).into_iter().map(|envoy| envoy.envoy).collect();
        assert_eq!(names.len(), MAX_ENVOYS);
        assert!(!names.contains(&"envoy-0".to_owned()));
    }

    #[test]
    fn names_are_made_fit_to_be_shown() {
        let registry = Registry::default();
        drop(registry.poll("", None, 0));
        drop(registry.poll("a\nb", None, 0));
        let names: Vec<_> = registry.list(0).into_iter().map(|envoy| envoy.envoy).collect();
        assert_eq!(names, ["ab", "unnamed"]);
    }
}
