//! What other settings would have done, over the scores that are kept.
//!
//! An estimate, and shown as one: a score was counted in the window of its day. A smaller window cannot count more than
//! it holds, so counts are capped at that, which is the most it could have counted; a larger one would have counted at
//! least as much. The threshold itself is exact.

use agent_kill_switch::policy::check_settings;
use agent_kill_switch::wire::ScoreSample;

use super::{Result, Service};
use crate::model::Millis;

/// Scores looked at.
const LOOKED_AT: u32 = 1_000;

/// What would have happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// Calls looked at.
    pub calls: usize,
    /// How many of them would have been over the threshold.
    pub over: usize,
    /// The first of them: which call, when, and its score.
    pub first: Option<(usize, Millis, f64)>,
    /// The highest score there was.
    pub highest: f64,
    /// Whether the window is another one than now: counts are bounds then.
    pub is_bounded: bool,
}

impl Service {
    /// What these settings would have done to an agent's latest calls.
    pub async fn preview(&self, agent_id: &str, window_size: f64, threshold: f64) -> Result<Preview> {
        let (window_size, threshold) = check_settings(window_size, threshold)?;
        let current = self.agent(agent_id).await?.policy.kill_switch_window_size;
        let scores = self.scores(agent_id, 0, LOOKED_AT).await?;
        Ok(judge(&scores, window_size, threshold, current))
    }
}

fn judge(scores: &[ScoreSample], window_size: u32, threshold: f64, current: u32) -> Preview {
    let capped: Vec<f64> = scores.iter().map(|sample| cap(sample, window_size)).collect();
    let first = capped.iter().position(|score| *score > threshold);
    let first = first.and_then(|at| Some((at + 1, scores.get(at)?.at_ms, *capped.get(at)?)));
    Preview {
        calls: scores.len(),
        over: capped.iter().filter(|score| **score > threshold).count(),
        first,
        highest: capped.iter().copied().fold(0.0, f64::max),
        is_bounded: window_size != current,
    }
}

fn cap(sample: &ScoreSample, window_size: u32) -> f64 {
    let (past, past_answers) = (window_size.saturating_sub(1), window_size.saturating_sub(2));
    let signals = &sample.signals;
    let most = f64::from(signals.similar_prompts.min(past))
        + f64::from(signals.similar_responses.min(past_answers)) * 2.0
        + f64::from(signals.repeated_tool_calls.min(past)) * 1.5;
    sample.score.min(most)
}

#[cfg(test)]
mod tests {
    use agent_kill_switch::wire::Signals;

    use super::*;

    fn sample(at_ms: u64, similar_prompts: u32, similar_responses: u32) -> ScoreSample {
        let score = f64::from(similar_prompts) + 2.0 * f64::from(similar_responses);
        ScoreSample { at_ms, score, signals: Signals { similar_prompts, similar_responses, repeated_tool_calls: 0 } }
    }

    #[test]
    fn the_first_call_over_the_threshold_is_named() {
        let scores = [sample(1, 1, 0), sample(2, 5, 4), sample(3, 6, 5)];
        let seen = judge(&scores, 20, 10.0, 20);
        assert_eq!(seen, Preview { calls: 3, over: 2, first: Some((2, 2, 13.0)), highest: 16.0, is_bounded: false });
        assert_eq!(judge(&scores, 20, 16.0, 20).first, None, "at the threshold is not over it");
    }

    #[test]
    fn a_smaller_window_cannot_count_more_than_it_holds() {
        let seen = judge(&[sample(1, 9, 8)], 4, 5.0, 20);
        assert_eq!((seen.highest, seen.over, seen.is_bounded), (3.0 + 2.0 * 2.0, 1, true));
    }
}
