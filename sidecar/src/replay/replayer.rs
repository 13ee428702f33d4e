//! Lines in, runs out: gathers the calls that come one per line, agent by agent.
//!
//! A run that fills a line leaves at once; the runs of single calls leave at the end of their file, in the order in which
//! their agents appeared. Between the two nothing but fingerprints is kept, so a recording of any length fits.

use std::collections::HashMap;

use super::recording::{BadLine, Label, Recording};
use super::step::{Step, StepReader};

/// A run, decoded.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it is called.
    pub label: Label,
    /// Its calls.
    pub steps: Vec<Step>,
}

/// Reads recordings.
#[derive(Debug)]
pub struct Replayer {
    reader: StepReader,
    gathered: Vec<Run>,
    /// Where in `gathered` an agent's run is.
    places: HashMap<String, usize>,
}

impl Replayer {
    /// One that decodes with this reader.
    pub fn new(reader: StepReader) -> Self {
        Self { reader, gathered: Vec::new(), places: HashMap::new() }
    }

    /// Takes a line; a run that it completes goes to `finished`. Returns how many calls the line held.
    pub fn line(&mut self, line: &[u8], finished: &mut impl FnMut(Run)) -> Result<usize, BadLine> {
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return Ok(0);
        }
        match Recording::read(line)? {
            Recording::Run(label, calls) => {
                let mut steps = Vec::new();
                calls.each(|exchange| steps.push(self.reader.read(exchange)))?;
                let count = steps.len();
                finished(Run { label, steps });
                Ok(count)
            }
            Recording::Call(label, exchange) => {
                let step = self.reader.read(&exchange);
                self.gather(label, step);
                Ok(1)
            }
        }
    }

    /// Ends a file: the runs gathered from it go to `finished`.
    pub fn end(&mut self, finished: &mut impl FnMut(Run)) {
        self.places.clear();
        self.gathered.drain(..).for_each(finished);
    }

    fn gather(&mut self, label: Label, step: Step) {
        let agent = label.agent.clone().unwrap_or_default();
        let place = *self.places.entry(agent).or_insert(self.gathered.len());
        match self.gathered.get_mut(place) {
            Some(run) => {
                // Whichever line says it: recorders tend to note what they know on the first, or on all.
                run.label.source = run.label.source.take().or(label.source);
                run.label.expect = run.label.expect.take().or(label.expect);
                run.steps.push(step);
            }
            None => self.gathered.push(Run { label, steps: vec![step] }),
        }
    }
}
