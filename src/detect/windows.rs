//! All windows of one agent, in memory: for recorded calls and for tests.
//!
//! The filter keeps the same windows in shared data (see `crate::agent`), where conversations share a bounded number of
//! slots. Here every conversation has its own.

use std::collections::HashMap;

use super::score::{Score, Scorer};
use super::window::{Call, Sequence, Window};
use crate::turn::{Answer, Conversation};

/// The windows of one agent.
#[derive(Clone, Debug)]
pub struct Windows {
    scorer: Scorer,
    generation: u64,
    common: Window,
    slots: HashMap<u64, Window>,
}

/// Where a call is, so that its answer finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    conversation: Option<u64>,
    sequence: Sequence,
}

impl Windows {
    /// Creates empty windows.
    pub fn new(scorer: Scorer) -> Self {
        Self { scorer, generation: 0, common: Window::empty(0, scorer.counting), slots: HashMap::new() }
    }

    /// Forgets everything, as an activation of the agent does.
    pub fn activate(&mut self) {
        self.generation += 1;
        self.slots.clear();
    }

    /// Forgets the calls that are compared with those of a conversation, as the stop of it does.
    pub fn forget(&mut self, conversation: &Conversation) {
        let tag = conversation.tag();
        match conversation.key() {
            None => self.common.forget(tag),
            Some(key) => self.slots.get_mut(&key).into_iter().for_each(|slot| slot.forget(tag)),
        }
    }

    /// Scores a call of a conversation and adds it to its window.
    pub fn score(&mut self, conversation: &Conversation, call: Call) -> (Score, Place) {
        let call = Call { conversation: conversation.tag(), in_flight: 1, ..call };
        let key = conversation.key();
        let (score, sequence) = match key {
            None => {
                // The window is decoded from its bytes for each call, as it is in shared data.
                self.common = self.decoded(&self.common);
                self.scorer.score(&mut self.common, call)
            }
            Some(key) => {
                let empty = || Window::decode_slot(&[], self.generation, self.scorer.counting);
                let slot = self.slots.entry(key).or_insert_with(empty);
                let common = || Window::decode(self.common.bytes(), self.generation, self.scorer.counting);
                self.scorer.score_in_slot(slot, common, call)
            }
        };
        (score, Place { conversation: key, sequence })
    }

    /// Attaches an answer to its call.
    pub fn attach_answer(&mut self, place: Place, answer: Answer, now_ms: u64) {
        let window = match place.conversation {
            None => Some(&mut self.common),
            Some(key) => self.slots.get_mut(&key),
        };
        if let Some(window) = window {
            self.scorer.attach_answer(window, place.sequence, answer, now_ms);
        }
    }

    /// Returns the window of a conversation. Before its first call it is the common window.
    pub fn window(&self, conversation: &Conversation) -> &Window {
        conversation.key().and_then(|key| self.slots.get(&key)).unwrap_or(&self.common)
    }

    /// Returns the common window.
    pub fn common(&self) -> &Window {
        &self.common
    }

    fn decoded(&self, window: &Window) -> Window {
        Window::decode(window.bytes(), self.generation, self.scorer.counting)
    }
}
