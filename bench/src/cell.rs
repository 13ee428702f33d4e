//! The cells of the pipeline's table: each measures one way to process one body.

use agent_kill_switch::wire::Counting;

use crate::body::{ALL, Body};
use crate::floor::copy_and_touch;
use crate::pipeline::Pipeline;

/// The seed of the bodies that are measured.
pub const SEED: u64 = 1;

/// A way to process a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// The filter's own pipeline.
    Fast,
    /// The naive pipeline.
    Naive,
    /// Only copies the body and touches the copy.
    Floor,
}

/// All ways, by number.
pub const WAYS: [Way; 3] = [Way::Fast, Way::Naive, Way::Floor];

/// The bodies and pipelines of all cells.
pub struct Table {
    bodies: Vec<(Body, String)>,
    progress: Pipeline,
    literal: Pipeline,
    copy: Vec<u8>,
}

impl Default for Table {
    /// Creates the table with every body.
    fn default() -> Self {
        Self::of(&ALL)
    }
}

impl Table {
    /// Creates a table with these bodies.
    pub fn of(bodies: &[Body]) -> Self {
        Self {
            bodies: bodies.iter().map(|body| (*body, body.text(SEED))).collect(),
            progress: Pipeline::new(Counting::Progress),
            literal: Pipeline::new(Counting::Literal),
            copy: Vec::new(),
        }
    }

    /// Processes a body in one way, both given by number, this many times.
    pub fn run(&mut self, way: usize, body: usize, times: u32) -> u64 {
        let (Some(way), Some((body, text))) = (WAYS.get(way), self.bodies.get(body)) else { return 0 };
        let pipeline = match body.counting() {
            Counting::Progress => &mut self.progress,
            Counting::Literal => &mut self.literal,
        };
        let mut all = 0;
        for _ in 0..times {
            let text = std::hint::black_box(text.as_bytes());
            all ^= match way {
                Way::Fast => pipeline.fast(text),
                Way::Naive => pipeline.naive(text),
                Way::Floor => copy_and_touch(text, &mut self.copy),
            };
        }
        all
    }
}
