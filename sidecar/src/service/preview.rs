//! What other settings would have done, judging by the stored scores.
//!
//! This is an estimate, and the dashboard says so: each score was counted in the window that was configured at the
//! time. A smaller window cannot count more calls than it holds, so counts are capped at the most it could have
//! counted. A larger window would have counted at least as much. The threshold is exact.

use agent_kill_switch::policy::check_settings;
use agent_kill_switch::wire::ScoreSample;

use super::{Result, Service};
use crate::model::Millis;

/// The number of scores that a preview is made from.
const MAX_SCORES: u32 = 1_000;

/// What would have happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// The number of calls that were considered.
    pub calls: usize,
    /// How many of them would have exceeded the threshold.
    pub over: usize,
    /// The number of the first call that would have, its time, and its score.
    pub first: Option<(usize, Millis, f64)>,
    /// The highest score.
    pub highest: f64,
    /// Whether the scores are bounds rather than exact, because the window size is not the current one.
    pub is_bounded: bool,
}

impl Service {
    /// Returns what these settings would have done to the latest calls of an agent.
    pub async fn preview(&self, agent_id: &str, window_size: f64, threshold: f64) -> Result<Preview> {
        let (window_size, threshold) = check_settings(window_size, threshold)?;
        let current = self.agent(agent_id).await?.policy.kill_switch_window_size;
        let scores = self.scores(agent_id, 0, MAX_SCORES).await?;
        Ok(preview(&scores, window_size, threshold, current))
    }
}

fn preview(scores: &[ScoreSample], window_size: u32, threshold: f64, current: u32) -> Preview {
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
        let signals = Signals { similar_prompts, similar_responses, ..Signals::default() };
        ScoreSample { at_ms, sequence: 0, score, signals }
    }

    #[test]
    fn the_first_call_above_the_threshold_is_named() {
        let scores = [sample(1, 1, 0), sample(2, 5, 4), sample(3, 6, 5)];
        let at_ten = preview(&scores, 20, 10.0, 20);
        assert_eq!(at_ten, Preview { calls: 3, over: 2, first: Some((2, 2, 13.0)), highest: 16.0, is_bounded: false });
        assert_eq!(preview(&scores, 20, 16.0, 20).first, None, "a score must exceed the threshold");
    }

    #[test]
    fn a_smaller_window_cannot_count_more_than_it_holds() {
        let preview = preview(&[sample(1, 9, 8)], 4, 5.0, 20);
        assert_eq!((preview.highest, preview.over, preview.is_bounded), (3.0 + 2.0 * 2.0, 1, true));
    }
}
