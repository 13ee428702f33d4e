//! An answer in which the model repeats itself: it is reported, or ended as the policy says.
//!
//! The policy is read again, because a long answer may have begun before it was changed. An answer is cut only if the agent
//! or the conversation is stopped with it. Otherwise the client would ask the same question again and get the same answer.

use super::{Flow, Phase, Stream, VERDICT_PROPERTY};
use crate::agent::{Agent, Scored, Trip};
use crate::detect::score::Score;
use crate::detect::tools::Treatment;
use crate::detect::verdict::Verdict;
use crate::host::StreamHost;
use crate::link::report;
use crate::metrics::Metric;
use crate::pause;
use crate::wire::{Action, AnswerLoop, Repetition};

impl Stream {
    /// Acts on a repetition in the answer. Returns `Flow::Hold` if the answer was cut.
    #[cold]
    pub(super) fn act_on_repetition(&mut self, host: &impl StreamHost, repetition: Repetition) -> Flow {
        let Phase::ReadAnswer(forwarded, _) = &self.phase else { return Flow::Continue };
        let round = self.worker.round.get().unwrap_or(0);
        let Some(now) = Agent::read(host, forwarded.agent.id(), round).filter(|now| now.record.enabled) else {
            return Flow::Continue;
        };
        let verdict = match (now.record.answer_loop, now.record.action) {
            (AnswerLoop::Off, _) => return Flow::Continue,
            (AnswerLoop::Observe, _) | (AnswerLoop::Cut, Action::Observe) => Verdict::WouldKill,
            (AnswerLoop::Cut, _) if pause::is_in_force(host) => Verdict::WouldKill,
            (AnswerLoop::Cut, Action::Block) => Verdict::Block,
            (AnswerLoop::Cut, Action::Deactivate) => Verdict::Kill,
        };
        host.count(Metric::AnswerLoops, 1);
        if verdict != Verdict::WouldKill && self.stop(host, verdict, repetition) {
            host.set_property(VERDICT_PROPERTY, "answer_loop");
            self.phase = Phase::Pass;
            // To hold an answer that is not reset would let its client wait for ever.
            return if host.reset_response() { Flow::Hold } else { Flow::Continue };
        }
        let at_ms = host.now_ms();
        self.worker.observations.borrow_mut().add_answer_loop(now.id(), repetition, at_ms);
        Flow::Continue
    }

    /// Stops the agent or the conversation. Returns whether it is stopped, by this worker or by another one.
    fn stop(&self, host: &impl StreamHost, verdict: Verdict, repetition: Repetition) -> bool {
        let Phase::ReadAnswer(forwarded, _) = &self.phase else { return false };
        // Unknown after an internal redirect. Stopping the whole agent instead would be too much.
        let Some(conversation) = &forwarded.conversation else { return false };
        let agent = &forwarded.agent;
        let (sequence, told) = (forwarded.sequence, forwarded.told);
        let scored =
            Scored { verdict, score: Score::default(), treatment: Treatment::Usual, sequence, told, window: None };
        let mut report = report::report(host, &self.worker, agent, &scored, conversation, repetition.to_string());
        report.repetition = Some(repetition);
        let evidence = report::Evidence::default();
        let trip = report::act(host, agent, &scored, conversation, report, evidence, &|| None);
        matches!(trip, Trip::Stopped { .. } | Trip::AlreadyStopped)
    }
}
