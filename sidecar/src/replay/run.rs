//! Puts the calls of an agent together to a run.
//!
//! A line that holds a whole run is returned at once. Calls that are recorded one per line are collected until the end of
//! their file, and their runs are then returned in the order in which the agents appeared. Only fingerprints are kept in
//! between, so recordings may be larger than memory.

use std::collections::HashMap;

use super::detector::{DecodedCall, Decoder};
use super::recording::{BadLine, Label, Recording};

/// The decoded calls of one agent.
#[derive(Clone, Debug)]
pub struct Run {
    /// What the recording says about the run.
    pub label: Label,
    /// The calls, in order.
    pub calls: Vec<DecodedCall>,
}

/// Reads runs from the lines of recordings.
#[derive(Debug)]
pub struct RunReader {
    decoder: Decoder,
    collected: Vec<Run>,
    /// The index in `collected` of each agent's run.
    indexes: HashMap<String, usize>,
    calls_read: usize,
}

impl RunReader {
    /// Creates a reader that decodes calls with `decoder`.
    pub fn new(decoder: Decoder) -> Self {
        Self { decoder, collected: Vec::new(), indexes: HashMap::new(), calls_read: 0 }
    }

    /// Reads a line. Returns the run if the line holds a whole one.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Run>, BadLine> {
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        match Recording::read(line)? {
            Recording::Run(label, recorded) => {
                let mut calls = Vec::new();
                recorded.each(|exchange| calls.push(self.decoder.decode(exchange)))?;
                self.calls_read += calls.len();
                Ok(Some(Run { label, calls }))
            }
            Recording::Call(label, exchange) => {
                let call = self.decoder.decode(&exchange);
                self.calls_read += 1;
                self.collect(label, call);
                Ok(None)
            }
        }
    }

    /// Ends a file. Returns the runs that were collected from it.
    pub fn end_of_file(&mut self) -> Vec<Run> {
        self.indexes.clear();
        std::mem::take(&mut self.collected)
    }

    /// Returns how many calls were read so far, in all files.
    pub fn calls_read(&self) -> usize {
        self.calls_read
    }

    fn collect(&mut self, label: Label, call: DecodedCall) {
        let agent = label.agent.clone().unwrap_or_default();
        let index = *self.indexes.entry(agent).or_insert(self.collected.len());
        match self.collected.get_mut(index) {
            Some(run) => {
                // Some recorders write these on an agent's first line, others on all of its lines.
                run.label.source = run.label.source.take().or(label.source);
                run.label.expect = run.label.expect.take().or(label.expect);
                run.calls.push(call);
            }
            None => self.collected.push(Run { label, calls: vec![call] }),
        }
    }
}
