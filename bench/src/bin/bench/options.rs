//! The command line.

use clap::{Parser, ValueEnum};

/// Measures everything on docs/benchmarks.md.
#[derive(Debug, Parser)]
pub struct Options {
    /// Measures fewer rounds and sizes, in less than two minutes. The documentation is not written.
    #[arg(long)]
    pub quick: bool,
    /// Measures one part only. The documentation is not written.
    #[arg(long)]
    pub only: Option<Part>,
}

impl Options {
    /// Returns whether a part is to be measured.
    pub fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }

    /// Returns whether everything is measured in full, so that the results may be written to the documentation.
    pub fn is_all(&self) -> bool {
        !self.quick && self.only.is_none()
    }

    /// Returns the number of rounds of which medians are taken.
    pub fn rounds(&self) -> usize {
        if self.quick { 3 } else { 5 }
    }
}

/// The parts, in the order of docs/benchmarks.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Decode, normalise, SimHash, window and score, natively and as wasm in V8.
    Pipeline,
    /// The filter in a real Envoy.
    Envoy,
    /// Streamed answers.
    Streaming,
    /// A hundred thousand agents.
    Scale,
    /// The module itself.
    Module,
    /// The number of instructions.
    Instructions,
    /// The accuracy of the fingerprint.
    Accuracy,
    /// Loops that are spread over several Envoys.
    Fleet,
    /// Envoy's CPU time per request.
    Cpu,
    /// The dashboard's pages with many agents.
    Dashboard,
}

impl Part {
    /// Returns its heading, with the number of the goal.
    pub fn title(self) -> &'static str {
        match self {
            Self::Pipeline => "1. Pipeline",
            Self::Envoy => "2. In a real Envoy",
            Self::Streaming => "3. Streaming",
            Self::Scale => "4. Scale",
            Self::Module => "5. Module",
            Self::Instructions => "6. Instructions",
            Self::Accuracy => "7. Accuracy beside speed",
            Self::Fleet => "8. Fleet",
            Self::Cpu => "9. Envoy's CPU per request",
            Self::Dashboard => "10. The dashboard",
        }
    }
}
