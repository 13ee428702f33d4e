//! What is asked for.

use clap::{Parser, ValueEnum};

/// Measures what docs/benchmarks.md says.
#[derive(Debug, Parser)]
pub struct Options {
    /// Fewer rounds and sizes, below two minutes; nothing is written.
    #[arg(long)]
    pub quick: bool,
    /// One part only; nothing is written.
    #[arg(long)]
    pub only: Option<Part>,
}

impl Options {
    /// Whether a part is asked for.
    pub fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }

    /// Whether everything is measured in full, so that it may be written down.
    pub fn is_all(&self) -> bool {
        !self.quick && self.only.is_none()
    }

    /// How many rounds medians are taken of.
    pub fn rounds(&self) -> u32 {
        if self.quick { 3 } else { 5 }
    }
}

/// The parts, as docs/benchmarks.md orders them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Decode, normalise, SimHash, window and score, natively and as wasm in V8.
    Pipeline,
    /// The filter in a real Envoy.
    Envoy,
    /// Answers that stream.
    Streaming,
    /// A hundred thousand agents.
    Scale,
    /// The module itself.
    Module,
    /// Instructions, counted.
    Instructions,
    /// What speed must not cost.
    Accuracy,
}

impl Part {
    /// All of them, in order.
    pub const ALL: [Self; 7] =
        [Self::Pipeline, Self::Envoy, Self::Streaming, Self::Scale, Self::Module, Self::Instructions, Self::Accuracy];

    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Pipeline => "1. Pipeline",
            Self::Envoy => "2. In a real Envoy",
            Self::Streaming => "3. Streaming",
            Self::Scale => "4. Scale",
            Self::Module => "5. Module",
            Self::Instructions => "6. Instructions",
            Self::Accuracy => "7. Accuracy beside speed",
        }
    }
}
