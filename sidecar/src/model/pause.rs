//! The pause of the whole fleet: while it is in force, loops are recorded and nothing is stopped.

use super::Millis;
use super::actor::who;
use super::words::words;
use crate::clock::CLOCK_TOLERANCE_MS;

words! {
    /// Why the fleet was paused.
    pub enum PauseCause {
        /// A person asked for it.
        Manual = "manual",
        /// More was stopped within a minute than a fleet can have loops.
        Storm = "storm",
    }
}

/// The latest pause, in force or over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// When it began.
    pub since_ms: Millis,
    /// When its time is up.
    pub until_ms: Millis,
    /// Kills that were detected after this are given back. Earlier ones stay, however late they are reported.
    pub spares_after_ms: Millis,
    /// Why it began.
    pub cause: PauseCause,
    /// Who paused: `kill_switch`, or the name of the credential used.
    pub actor: String,
    /// The person who paused, if one was named.
    pub by: Option<String>,
    /// The reason in words. May be empty.
    pub reason: String,
    /// The event that records it.
    pub event_id: u64,
    /// When it was ended, by a person or because its time was up.
    pub ended_ms: Option<Millis>,
}

impl Pause {
    /// Returns how long the pause still lasts, or 0 if it is over.
    ///
    /// An end that is further ahead than the pause was long means that the clock was set back. The pause then counts as
    /// over, so that it never lasts for much longer than somebody asked for.
    pub fn left_ms(&self, now_ms: Millis) -> Millis {
        let length_ms = self.until_ms.saturating_sub(self.since_ms);
        let left_ms = self.until_ms.saturating_sub(now_ms);
        if self.ended_ms.is_some() || left_ms > length_ms.saturating_add(CLOCK_TOLERANCE_MS) { 0 } else { left_ms }
    }

    /// Whether nothing is stopped at this time.
    pub fn is_in_force(&self, now_ms: Millis) -> bool {
        self.left_ms(now_ms) > 0
    }

    /// Whether a kill that was detected at this time and reported now is given back.
    pub fn spares(&self, detected_ms: Millis, now_ms: Millis) -> bool {
        self.is_in_force(now_ms) && detected_ms > self.spares_after_ms
    }

    /// Returns who paused, for people.
    pub fn who(&self) -> String {
        who(self.by.as_deref(), &self.actor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_over_when_its_time_is_up_when_it_was_ended_and_when_the_clock_was_set_back() {
        let pause = Pause {
            since_ms: 10_000_000,
            until_ms: 13_600_000,
            spares_after_ms: 9_940_000,
            cause: PauseCause::Manual,
            actor: "token:operator".to_owned(),
            by: None,
            reason: String::new(),
            event_id: 1,
            ended_ms: None,
        };
        for (now_ms, left_ms) in [
            (10_000_000, 3_600_000),
            (9_999_000, 3_601_000),
            (13_599_999, 1),
            (13_600_000, 0),
            (20_000_000, 0),
            (9_000_000, 0),
        ] {
            assert_eq!(pause.left_ms(now_ms), left_ms, "at {now_ms}");
        }
        assert!(!Pause { ended_ms: Some(10_500_000), ..pause }.is_in_force(11_000_000));
    }
}
