//! The pause of the whole fleet: one switch that turns every `deactivate` and `block` into `observe`.
//!
//! The pause is a row of the database, so it survives a restart and every replica has it. Beginning and ending it takes a new
//! revision, which wakes the waiting polls, and every answer of the sync says how long it still lasts. Agents and
//! conversations that are stopped already stay stopped: a pause is about new verdicts.
//!
//! A report of a loop that an Envoy stopped before it heard of the pause is recorded as `would_kill`, and what was stopped is
//! given back: see [`super::kills`]. A loop that was detected before the pause began is not given back, even if its report
//! arrives during the pause. A storm of kills pauses by itself: see [`super::storm`].

use agent_kill_switch::policy::{DEFAULT_PAUSE_SECONDS, check_pause};
use serde_json::{Map, Value, json};

use super::agents::Note;
use super::settings::must_be;
use super::{Identity, Result, Service};
use crate::clock::{CLOCK_TOLERANCE_MS, rfc3339};
use crate::model::{EventType, Millis, NewEvent, Pause, PauseCause};
use crate::store::Tx;

/// Who or what ends a pause whose time is up.
pub(super) const KILL_SWITCH: &str = "kill_switch";

/// What a person asks for when they pause the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseRequest {
    seconds: u32,
    note: Note,
}

impl PauseRequest {
    /// Parses `{"for_seconds": ..., "reason": ..., "by": ...}`. All members are optional.
    pub fn parse(body: &Map<String, Value>) -> Result<Self> {
        let mut others = body.clone();
        let seconds = match others.remove("for_seconds") {
            None => DEFAULT_PAUSE_SECONDS,
            Some(given) => {
                let number = given.as_f64().ok_or_else(|| must_be("for_seconds", &given, "a whole number"))?;
                check_pause(number)?
            }
        };
        Ok(Self { seconds, note: Note::parse_beside(&others, "for_seconds, reason and by")? })
    }
}

impl Service {
    /// Returns the pause that is in force, if there is one.
    pub async fn pause(&self) -> Result<Option<Pause>> {
        let now_ms = self.now();
        Ok(self.store.pause().await?.filter(|pause| pause.is_in_force(now_ms)))
    }

    /// Pauses the fleet, or replaces the pause that is in force.
    pub async fn start_pause(&self, request: &PauseRequest, who: &Identity) -> Result<Pause> {
        let now_ms = self.now();
        let mut tx = self.store.begin().await?;
        // An Envoy may not have heard of the pause that this one replaces.
        let replaced = tx.pause().await?.filter(|pause| pause.is_in_force(now_ms));
        let spares_after_ms = now_ms.saturating_sub(CLOCK_TOLERANCE_MS);
        let mut pause = Pause {
            since_ms: now_ms,
            until_ms: now_ms.saturating_add(Millis::from(request.seconds) * 1_000),
            spares_after_ms: replaced.map_or(spares_after_ms, |pause| pause.spares_after_ms.min(spares_after_ms)),
            cause: PauseCause::Manual,
            actor: who.actor.clone(),
            by: request.note.by.clone(),
            reason: request.note.reason.clone(),
            event_id: 0,
            ended_ms: None,
        };
        let rev = self.begin_pause(&mut tx, &mut pause, Map::new()).await?;
        self.commit(tx, rev).await?;
        tracing::warn!(
            actor = pause.actor,
            until = rfc3339(pause.until_ms),
            reason = pause.reason,
            "the fleet is paused"
        );
        Ok(pause)
    }

    /// Records a pause and its event, to which `detail` is added. Returns the revision.
    pub(super) async fn begin_pause(
        &self,
        tx: &mut Tx,
        pause: &mut Pause,
        mut detail: Map<String, Value>,
    ) -> Result<u64> {
        detail.insert("cause".to_owned(), json!(pause.cause));
        detail.insert("until".to_owned(), json!(rfc3339(pause.until_ms)));
        let note = (pause.reason.as_str(), pause.by.as_deref());
        let event = fleet_event(EventType::Paused, pause.since_ms, &pause.actor, note, detail);
        pause.event_id = self.record(tx, &event).await?;
        metrics::counter!("kill_switch_pauses_total", "cause" => pause.cause.as_str()).increment(1);
        Ok(tx.save_pause(pause).await?)
    }

    /// Ends the pause. Does nothing if there is none.
    pub async fn end_pause(&self, note: &Note, who: &Identity) -> Result<()> {
        // Also one that counts as over here because the clock of this replica is behind: it is in force at the others.
        let is_open = |pause: &Pause, now_ms: Millis| pause.ended_ms.is_none() && now_ms < pause.until_ms;
        self.end_pause_if(is_open, &who.actor, (&note.reason, note.by.as_deref())).await
    }

    /// Ends the pause if its time is up, so that this is recorded, and so that Envoys whose clocks are wrong are told.
    ///
    /// A pause that counts as over because the clock was set back is not ended: the clock of this replica may be the only
    /// one that is wrong.
    pub async fn end_expired_pause(&self) -> Result<()> {
        let is_expired = |pause: &Pause, now_ms: Millis| pause.ended_ms.is_none() && now_ms >= pause.until_ms;
        let now_ms = self.now();
        if !self.store.pause().await?.is_some_and(|pause| is_expired(&pause, now_ms)) {
            return Ok(());
        }
        self.end_pause_if(is_expired, KILL_SWITCH, ("its time was up", None)).await
    }

    /// Ends the pause if the condition holds, which is checked in the transaction: another replica may be faster.
    async fn end_pause_if(
        &self,
        condition: impl Fn(&Pause, Millis) -> bool,
        actor: &str,
        note: (&str, Option<&str>),
    ) -> Result<()> {
        let now_ms = self.now();
        let mut tx = self.store.begin().await?;
        let Some(mut pause) = tx.pause().await?.filter(|pause| condition(pause, now_ms)) else { return Ok(()) };
        pause.ended_ms = Some(now_ms);
        let detail = Map::from_iter([
            ("cause".to_owned(), json!(pause.cause)),
            ("paused_since".to_owned(), json!(rfc3339(pause.since_ms))),
        ]);
        self.record(&mut tx, &fleet_event(EventType::Resumed, now_ms, actor, note, detail)).await?;
        let rev = tx.save_pause(&pause).await?;
        self.commit(tx, rev).await?;
        tracing::warn!(actor, reason = note.0, "the fleet is no longer paused");
        Ok(())
    }
}

/// Returns an event that is about all agents, which have neither an id nor a generation together.
fn fleet_event(
    event_type: EventType,
    at_ms: Millis,
    actor: &str,
    (reason, by): (&str, Option<&str>),
    mut detail: Map<String, Value>,
) -> NewEvent {
    if let Some(by) = by {
        detail.insert("by".to_owned(), json!(by));
    }
    NewEvent {
        at_ms,
        event_type,
        agent_id: String::new(),
        generation: 0,
        actor: actor.to_owned(),
        reason: reason.to_owned(),
        detail,
    }
}
