//! What other settings would have done to the latest calls of an agent.
//!
//! Where the calls themselves are stored, they run through the filter's own detector again, so every setting can be tried,
//! and the findings beside the score are seen as well. Where only scores are stored, the result is an estimate: each score
//! was counted in the window that was configured at the time. A smaller window cannot count more calls than it holds, so
//! counts are capped at the most it could have counted. A larger window would have counted at least as much.

use agent_kill_switch::agent::record::session_key;
use agent_kill_switch::detect::score::Score;
use agent_kill_switch::wire::{Action, AgentPolicy, Scope, ScoreSample, Signals};
use serde::Serialize;

use super::rerun::{Judged, Rerun};
use super::settings::Change;
use super::story::History;
use super::{Result, Service};
use crate::clock::serialize_rfc3339;
use crate::model::Millis;

/// The number of scores that a preview is made from.
const MAX_SCORES: u32 = 1_000;
/// How many loops are listed.
const LISTED: usize = 10;

/// What would have happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Preview {
    /// The number of calls that were considered.
    pub calls: usize,
    /// How many of them would have been stopped.
    pub stopped: usize,
    /// The first of these.
    pub stops: Vec<Stop>,
    /// The highest score.
    pub highest: f64,
    /// What would have followed.
    pub action: Action,
    /// What it is based on.
    pub basis: Basis,
}

impl Preview {
    /// Whether this is what the filter would have done, rather than an estimate.
    pub fn is_exact(&self) -> bool {
        matches!(&self.basis, Basis::Calls { reservations } if reservations.is_empty())
    }
}

/// A call that would have been stopped.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stop {
    /// The number of the call among those that were considered, from 1.
    pub call: usize,
    /// When it came.
    #[serde(rename = "at", serialize_with = "serialize_rfc3339")]
    pub at_ms: Millis,
    /// The key of its conversation, if only that would have been stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Its score.
    pub score: f64,
    /// What was counted.
    #[serde(flatten)]
    pub signals: Signals,
}

/// What a preview is based on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum Basis {
    /// The calls ran through the detector again.
    Calls {
        /// Why the result is an estimate nevertheless.
        reservations: Vec<String>,
    },
    /// Only the scores of the calls are stored.
    Scores {
        /// Whether a setting other than the threshold was changed, of which scores tell little or nothing.
        is_bounded: bool,
    },
}

impl Service {
    /// Returns what these settings would have done to the latest calls of an agent.
    pub async fn preview(&self, agent_id: &str, change: &Change) -> Result<Preview> {
        let agent = self.agent(agent_id).await?;
        let mut changed = agent.clone();
        change.apply(&mut changed)?;
        let history = self.history(agent_id).await?;
        if !history.ordered.calls.is_empty() {
            return Ok(history.preview(&agent.policy, &changed.policy));
        }
        self.preview_of_scores(&agent.policy, &changed.policy).await
    }

    /// Like [`Self::preview`], judging by scores.
    pub(super) async fn preview_of_scores(&self, current: &AgentPolicy, changed: &AgentPolicy) -> Result<Preview> {
        let scores = self.store.scores(&current.agent_id, 0, MAX_SCORES).await?;
        Ok(preview_of_scores(&scores, current, changed))
    }
}

impl History {
    /// Runs the calls through the detector, with settings that a person tries.
    pub(super) fn preview(&self, current: &AgentPolicy, changed: &AgentPolicy) -> Preview {
        let (mut highest, mut stopped, mut stops) = (0.0, 0, Vec::new());
        self.judge_all(changed, |index, judged| {
            let score = judged.score();
            highest = f64::max(highest, score.value());
            if judged.seen_by.is_none() {
                return;
            }
            stopped += 1;
            if let Some(call) = self.ordered.calls.get(index).filter(|_| stops.len() < LISTED) {
                let key = call.conversation().key().filter(|_| changed.scope == Scope::Session);
                stops.push(Stop {
                    call: index + 1,
                    at_ms: call.at_ms,
                    session: key.map(session_key),
                    score: score.value(),
                    signals: score.signals,
                });
            }
        });
        let basis = Basis::Calls { reservations: self.reservations(current, changed) };
        Preview { calls: self.ordered.calls.len(), stopped, stops, highest, action: changed.action, basis }
    }

    fn judge_all(&self, policy: &AgentPolicy, mut each: impl FnMut(usize, Judged)) {
        let mut rerun = Rerun::new(&self.ordered, policy, &self.names);
        for index in 0..self.ordered.calls.len() {
            let judged = rerun.judge(index);
            if let Some(seen_by) = judged.seen_by {
                rerun.act(index, seen_by);
            }
            each(index, judged);
        }
    }

    /// Returns why a preview is not exact.
    fn reservations(&self, current: &AgentPolicy, changed: &AgentPolicy) -> Vec<String> {
        let mut reservations = Vec::new();
        if self.ordered.calls.iter().any(|call| call.counting != changed.counting) {
            reservations.push(
                "some calls were recorded while repeats were counted in the other way, for which requests are read \
                 differently"
                    .to_owned(),
            );
        }
        if current.tools != changed.tools {
            reservations.push(
                "rules of tools can be tried only on calls whose tool was named by a kill, and calls of tools that have \
                 a rule now may not be stored"
                    .to_owned(),
            );
        }
        match *self.different.get_or_init(|| self.count_different(current)) {
            0 => {}
            1 => reservations.push("one call got another score in Envoy, so reports were lost".to_owned()),
            different => {
                reservations.push(format!("{different} calls got another score in Envoy, so reports were lost"));
            }
        }
        reservations
    }

    /// Counts the calls since the latest change of settings that get another score than they got in their Envoy.
    fn count_different(&self, current: &AgentPolicy) -> usize {
        // The first calls may have repeated others that are not stored any more.
        let skipped = if self.is_full { current.kill_switch_window_size as usize } else { 0 };
        let mut different = 0;
        self.judge_all(current, |index, judged| {
            let Some(call) = self.ordered.calls.get(index) else { return };
            let is_same = u32::from(call.item.half_points) == judged.own.half_points.min(u32::from(u16::MAX));
            let is_checked = index >= skipped && call.at_ms > self.changed_ms && call.counting == current.counting;
            different += usize::from(is_checked && !is_same);
        });
        different
    }
}

fn preview_of_scores(scores: &[ScoreSample], current: &AgentPolicy, changed: &AgentPolicy) -> Preview {
    let window_size = changed.kill_switch_window_size;
    let capped = scores.iter().map(|sample| cap(sample, window_size));
    let stop = |(index, score): (usize, f64)| {
        let sample = scores.get(index)?;
        Some(Stop { call: index + 1, at_ms: sample.at_ms, session: None, score, signals: sample.signals })
    };
    let is_over = |(index, capped): &(usize, f64)| {
        // The findings beside the score are compared with the threshold as they were counted.
        let signals = scores.get(*index).map(|sample| sample.signals).unwrap_or_default();
        Score { half_points: (capped * 2.0) as u32, signals }.exceeds(changed.kill_switch_threshold)
    };
    let over: Vec<_> = capped.clone().enumerate().filter(is_over).collect();
    let is_bounded = window_size != current.kill_switch_window_size
        || changed.counting != current.counting
        || changed.idle_reset_seconds != current.idle_reset_seconds
        || changed.tools != current.tools;
    Preview {
        calls: scores.len(),
        stopped: over.len(),
        stops: over.into_iter().take(LISTED).filter_map(stop).collect(),
        highest: capped.fold(0.0, f64::max),
        action: changed.action,
        basis: Basis::Scores { is_bounded },
    }
}

fn cap(sample: &ScoreSample, window_size: u32) -> f64 {
    let (past, past_answers) = (window_size.saturating_sub(1), window_size.saturating_sub(2));
    let signals = &sample.signals;
    let most = Score::of(Signals {
        similar_prompts: signals.similar_prompts.min(past),
        similar_responses: signals.similar_responses.min(past_answers),
        repeated_tool_calls: signals.repeated_tool_calls.min(past),
        ..Signals::default()
    });
    sample.score.min(most.value())
}

#[cfg(test)]
mod tests {
    use super::super::rerun::tests::{looping, policy, stored, text};
    use super::super::rerun::{Ordered, ToolNames};
    use super::*;
    use std::sync::OnceLock;

    use agent_kill_switch::fingerprint::Fingerprint;
    use agent_kill_switch::turn::{Answer, ToolSignature, ToolTurn};
    use agent_kill_switch::wire::Counting;

    fn sample(at_ms: u64, similar_prompts: u32, similar_responses: u32) -> ScoreSample {
        let score = f64::from(similar_prompts) + 2.0 * f64::from(similar_responses);
        let signals = Signals { similar_prompts, similar_responses, ..Signals::default() };
        ScoreSample { at_ms, sequence: 0, score, signals }
    }

    fn with(threshold: f64, window_size: u32) -> AgentPolicy {
        AgentPolicy { kill_switch_threshold: threshold, kill_switch_window_size: window_size, ..policy() }
    }

    /// The loop of the specification, with the scores that its Envoy gave it.
    fn history(calls: u32) -> History {
        let mut calls = looping(calls);
        for (call, score) in calls.iter_mut().zip([0, 1, 4, 7, 10, 13]) {
            call.item.half_points = score * 2;
        }
        History {
            ordered: Ordered::new(calls),
            names: ToolNames::new(),
            is_full: false,
            changed_ms: 0,
            different: OnceLock::new(),
        }
    }

    #[test]
    fn scores_name_the_first_call_above_the_threshold() {
        let scores = [sample(1, 1, 0), sample(2, 5, 4), sample(3, 6, 5)];
        let at_ten = preview_of_scores(&scores, &policy(), &with(10.0, 20));
        assert_eq!((at_ten.calls, at_ten.stopped, at_ten.highest), (3, 2, 16.0));
        assert_eq!((at_ten.stops[0].call, at_ten.stops[0].at_ms, at_ten.stops[0].score), (2, 2, 13.0));
        assert_eq!(at_ten.basis, Basis::Scores { is_bounded: false });
        assert_eq!(preview_of_scores(&scores, &policy(), &with(16.0, 20)).stopped, 0, "a score must exceed it");
    }

    #[test]
    fn a_smaller_window_cannot_count_more_than_it_holds() {
        let preview = preview_of_scores(&[sample(1, 9, 8)], &policy(), &with(5.0, 4));
        assert_eq!((preview.highest, preview.stopped), (3.0 + 2.0 * 2.0, 1));
        assert_eq!(preview.basis, Basis::Scores { is_bounded: true });
    }

    #[test]
    fn stored_calls_tell_exactly_what_threshold_and_window_would_have_done() {
        let history = history(6);
        for (threshold, window_size, stopped_at) in
            [(10.0, 20, Some(6)), (6.5, 20, Some(4)), (13.0, 20, None), (9.0, 5, Some(5)), (9.0, 4, None)]
        {
            let preview = history.preview(&policy(), &with(threshold, window_size));
            assert_eq!(preview.stops.first().map(|stop| stop.call), stopped_at, "{threshold} in {window_size}");
            assert!(preview.is_exact(), "{preview:?}");
        }
    }

    #[test]
    fn a_longer_silence_than_the_setting_allows_begins_a_new_run() {
        let mut calls = looping(6);
        calls[3..].iter_mut().for_each(|call| {
            call.item.call.at_ms += 60_000;
            call.at_ms += 60_000;
            call.end = call.end.map(|(answer, end_ms)| (answer, end_ms + 60_000));
        });
        let history = History { ordered: Ordered::new(calls), ..history(0) };
        let after = |idle_reset_seconds| AgentPolicy { idle_reset_seconds, ..policy() };
        assert_eq!(history.preview(&policy(), &after(0)).stopped, 1);
        assert_eq!(history.preview(&policy(), &after(30)).stopped, 0);
    }

    #[test]
    fn the_same_failure_in_a_row_is_seen_although_the_score_is_low() {
        let failing = |number: u32| {
            let mut call = stored(number, 1, 2);
            let signature = ToolSignature::new(u64::from(number));
            call.item.call.tools = ToolTurn::Results(signature);
            call.item.call.input = Fingerprint { failing: true, ..text(1) };
            call.end = call.end.map(|(_, end_ms)| (Answer::Tools { text: None, signature }, end_ms));
            call
        };
        let history = History { ordered: Ordered::new((1..=10).map(failing).collect()), ..history(0) };
        let preview = history.preview(&policy(), &policy());
        assert_eq!(preview.stops.iter().map(|stop| stop.call).collect::<Vec<_>>(), [10]);
        assert_eq!((preview.stops[0].signals.failures_in_a_row, preview.highest), (10, 0.0));
    }

    #[test]
    fn only_the_conversation_that_loops_is_stopped_if_the_scope_says_so() {
        let mut calls = looping(12);
        for (index, call) in calls.iter_mut().enumerate() {
            call.item.kind = agent_kill_switch::entries::Kind::Conversation;
            call.item.call.conversation = 1 + index as u64 % 2;
        }
        let history = History { ordered: Ordered::new(calls), ..history(0) };
        let with = |scope| {
            let stops = history.preview(&policy(), &AgentPolicy { scope, ..policy() }).stops;
            stops.into_iter().map(|stop| (stop.call, stop.session)).collect::<Vec<_>>()
        };
        let key = |key: u64| Some(format!("{key:016x}"));
        assert_eq!(with(Scope::Session), [(11, key(1)), (12, key(2))]);
        assert_eq!(with(Scope::Agent), [(11, None)], "the other conversation starts afresh as well");
    }

    #[test]
    fn what_is_not_exact_says_why() {
        let said = |history: &History, changed: &AgentPolicy| match history.preview(&policy(), changed).basis {
            Basis::Calls { reservations } => reservations.join("; "),
            Basis::Scores { .. } => String::new(),
        };
        assert_eq!(said(&history(6), &policy()), "");
        let literal = AgentPolicy { counting: Counting::Literal, ..policy() };
        assert!(said(&history(6), &literal).contains("counted in the other way"));
        let mut ignoring = policy();
        ignoring.tools.set("wait", Some(agent_kill_switch::wire::ToolRule::Ignore));
        assert!(said(&history(6), &ignoring).contains("rules of tools"));
        let mut lost = history(6);
        lost.ordered.calls.remove(0);
        assert!(said(&lost, &policy()).contains("5 calls got another score in Envoy"));
    }
}
