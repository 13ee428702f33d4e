//! Plays every run under every detector, and counts what each of them does to healthy runs and to loops.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use kill_switch::replay::detector::{Counting, Decoder, ReadOptions};
use kill_switch::replay::input::Input;
use kill_switch::replay::recording::Recording;
use kill_switch::replay::tally::Expect;
use kill_switch::replay::{Outcome, RunReader, Settings, play};
use serde::Deserialize;

use crate::rules::RIVALS;
use crate::steps::steps;

/// The names of all detectors: ours, the specification to the letter, and the others.
pub fn detectors() -> Vec<&'static str> {
    ["Agent Kill Switch", "literal counting"].into_iter().chain(RIVALS.iter().map(|rival| rival.name)).collect()
}

/// How many detectors stop a run for what happens in it. The last three only count its calls.
pub const JUDGING: usize = RIVALS.len() + 2 - 3;

/// What one detector did to the runs of one source.
#[derive(Clone, Debug, Default)]
pub struct Count {
    pub killed: usize,
    /// The calls at which loops were stopped.
    calls: Vec<usize>,
}

impl Count {
    /// Returns how many loops were stopped.
    pub fn caught(&self) -> usize {
        self.calls.len()
    }

    /// Returns the call by which half of the loops that were caught had been stopped.
    pub fn median_call(&self) -> Option<usize> {
        let mut calls = self.calls.clone();
        calls.sort_unstable();
        calls.get(calls.len().checked_sub(1)? / 2).copied()
    }

    fn add(&mut self, other: &Self) {
        self.killed += other.killed;
        self.calls.extend(&other.calls);
    }
}

/// The runs of one source, with a count for each detector.
#[derive(Clone, Debug)]
pub struct Source {
    pub healthy: usize,
    pub loops: usize,
    pub unknown: usize,
    pub calls: usize,
    pub counts: Vec<Count>,
}

impl Default for Source {
    fn default() -> Self {
        Self { healthy: 0, loops: 0, unknown: 0, calls: 0, counts: vec![Count::default(); detectors().len()] }
    }
}

impl Source {
    fn add(&mut self, other: &Self) {
        self.healthy += other.healthy;
        self.loops += other.loops;
        self.unknown += other.unknown;
        self.calls += other.calls;
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| count.add(other));
    }
}

/// A run on which our verdict differs from its label.
#[derive(Clone, Debug)]
pub struct Mistake {
    pub source: String,
    pub agent: String,
    pub expect: Expect,
    pub calls: usize,
    pub outcome: Outcome,
    /// Why the run has its label, in the words of the recording.
    pub label: String,
    /// The other detectors that stop the run, without those that only count calls.
    pub stopped_by: Vec<&'static str>,
}

/// All results.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    /// By source, in alphabetical order.
    pub sources: BTreeMap<String, Source>,
    /// Ours, in the order of the files.
    pub mistakes: Vec<Mistake>,
    /// Loops that no detector stops except those that only count calls.
    pub loops_nobody_stops: usize,
    /// Healthy runs that most detectors stop.
    pub healthy_most_stop: usize,
}

impl Scores {
    /// Returns all sources together.
    pub fn total(&self) -> Source {
        let mut total = Source::default();
        self.sources.values().for_each(|source| total.add(source));
        total
    }

    /// Plays the runs of all files.
    pub fn of_files(files: &[PathBuf]) -> io::Result<Self> {
        let mut scores = Self::default();
        for file in files {
            eprintln!("replaying {}", file.display());
            scores.play_file(file)?;
        }
        Ok(scores)
    }

    fn play_file(&mut self, file: &Path) -> io::Result<()> {
        let bad = |line: usize, error: String| io::Error::other(format!("{}, line {line}: {error}", file.display()));
        let mut input = Input::open(file, &ProgressBar::hidden())?;
        let mut buffer = Vec::new();
        while let Some(number) = input.next_line(&mut buffer)? {
            if !buffer.trim_ascii().is_empty() {
                self.play_line(&buffer).map_err(|error| bad(number, error))?;
            }
        }
        Ok(())
    }

    /// Plays a run. Lines that hold a single call are left out: detectors inside an agent need the whole run.
    fn play_line(&mut self, line: &[u8]) -> Result<(), String> {
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        let Recording::Run(label, calls) = Recording::read(line).map_err(|error| error.to_string())? else {
            return Ok(());
        };
        let options = ReadOptions::defaults().map_err(|error| error.to_string())?;
        let countings = [Counting::Progress, Counting::Literal];
        let mut reader = RunReader::new(Decoder::new(options, &countings));
        let Some(run) = reader.line(line).map_err(|error| error.to_string())? else { return Ok(()) };
        let steps = steps(&calls).map_err(|error| error.to_string())?;
        let mut outcomes =
            countings.map(|counting| play(&run.calls, &Settings { counting, ..Settings::default() })).into_iter();
        let (ours, literal) = (outcomes.next().unwrap_or_default(), outcomes.next().unwrap_or_default());
        let mut stops = vec![ours.killed_at, literal.killed_at];
        stops.extend(RIVALS.iter().map(|rival| (rival.stops_at)(&steps)));

        let expect = Expect::of(&label);
        let source_name = label.source.unwrap_or_else(|| "unnamed".to_owned());
        self.note_disputed(expect, &stops);
        if !expect.is_met_by(&ours) {
            let others = detectors().into_iter().zip(&stops).take(JUDGING).skip(1);
            self.mistakes.push(Mistake {
                source: source_name.clone(),
                agent: label.agent.unwrap_or_else(|| "unnamed".to_owned()),
                expect,
                calls: run.calls.len(),
                outcome: ours,
                label: why(line),
                stopped_by: others.filter(|(_, stop)| stop.is_some()).map(|(name, _)| name).collect(),
            });
        }
        let source = self.sources.entry(source_name).or_default();
        source.calls += run.calls.len();
        match expect {
            Expect::Healthy => source.healthy += 1,
            Expect::Loop => source.loops += 1,
            Expect::Unknown => source.unknown += 1,
        }
        for (count, stop) in source.counts.iter_mut().zip(stops) {
            match (expect, stop) {
                (Expect::Healthy, Some(_)) => count.killed += 1,
                (Expect::Loop, Some(call)) => count.calls.push(call),
                _ => {}
            }
        }
        Ok(())
    }

    fn note_disputed(&mut self, expect: Expect, stops: &[Option<usize>]) {
        let stopped = stops.iter().take(JUDGING).flatten().count();
        self.loops_nobody_stops += usize::from(expect == Expect::Loop && stopped == 0);
        self.healthy_most_stop += usize::from(expect == Expect::Healthy && stopped > JUDGING / 2);
    }
}

/// Returns what a recording says about the reason of its label.
fn why(line: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Why {
        why: Option<String>,
    }
    serde_json::from_slice::<Why>(line).ok().and_then(|why| why.why).unwrap_or_default()
}
