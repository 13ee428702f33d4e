//! `kill-switch replay`: recorded runs through the detector, under one setting or many. Asks no server.

use std::path::{Path, PathBuf};

use agent_kill_switch::config::Config;
use agent_kill_switch::detect::progress::Rules;
use agent_kill_switch::policy::{DEFAULT_THRESHOLD, DEFAULT_WINDOW_SIZE, check_settings};
use agent_kill_switch::wire::Counting;
use clap::Args;

use super::CliError;
use super::replay_bar::Bar;
use super::replay_report::{Report, Shown, print_sweep, print_sweep_json};
use crate::replay::input::{Input, open_all, read_all};
use crate::replay::step::{PLAIN_CONFIG, StepReader, filter_config};
use crate::replay::sweep::{COUNTINGS, Sweep, THRESHOLDS, WINDOWS};
use crate::replay::{Replayer, Run, Settings, play};

#[derive(Args, Debug)]
pub(super) struct ReplayOptions {
    /// Recordings, one JSON object per line, plain or gzip; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many calls to look at, 2 to 100; several with --sweep [default: 20]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    window: Vec<f64>,
    /// The score that must be exceeded; several with --sweep [default: 10]
    #[arg(long, value_name = "SCORE", value_delimiter = ',', allow_negative_numbers = true)]
    threshold: Vec<f64>,
    /// progress or literal; both with --sweep [default: progress]
    #[arg(long, value_delimiter = ',')]
    counting: Vec<Counting>,
    /// Switch a rule of progress counting off, to see what it does; may be given several times
    #[arg(long, value_name = "RULE", value_parser = Rules::NAMES)]
    without: Vec<String>,
    /// Try many windows, thresholds and ways of counting, and show what each would kill
    #[arg(long)]
    sweep: bool,
    /// Only list runs that would have been killed, and loops that would not
    #[arg(long, conflicts_with_all = ["json", "sweep"])]
    killed: bool,
    /// Fail if a run that expects "healthy" would have been killed, or one that expects "loop" not
    #[arg(long, conflicts_with = "sweep")]
    expect: bool,
    /// The filter's configuration, for its patterns and limits
    #[arg(long, value_name = "FILE")]
    filter_config: Option<PathBuf>,
    /// One JSON object per run, then a summary
    #[arg(long)]
    json: bool,
}

impl ReplayOptions {
    pub(super) fn run(self) -> Result<(), CliError> {
        let unreadable = if self.sweep { self.run_sweep()? } else { self.run_once()? };
        if unreadable > 0 { Err(CliError::BadLines { lines: unreadable }) } else { Ok(()) }
    }

    /// Under one setting. Returns how many lines could not be read.
    fn run_once(&self) -> Result<usize, CliError> {
        let settings = self.settings()?;
        let shown = match () {
            () if self.json => Shown::Json,
            () if self.killed => Shown::Killed,
            () => Shown::All,
        };
        let mut report = Report::new(shown);
        let unreadable =
            self.each_run(&[settings.counting], |run| report.add(run.label, play(&run.steps, &settings)))?;
        report.finish(&settings)?;
        let (healthy_killed, loops_missed) = report.tally.wrong();
        if self.expect && healthy_killed + loops_missed > 0 {
            return Err(CliError::NotAsExpected { healthy_killed, loops_missed });
        }
        Ok(unreadable)
    }

    /// Under many. Returns how many lines could not be read.
    fn run_sweep(&self) -> Result<usize, CliError> {
        let countings = given(&self.counting, &COUNTINGS);
        let (windows, thresholds) = (given(&self.window, &WINDOWS), given(&self.threshold, &THRESHOLDS));
        let mut sweep = Sweep::new(&countings, &windows, &thresholds, self.rules());
        if sweep.rows().is_empty() {
            // Nothing is left of what was asked for: say why of the first.
            self.settings()?;
        }
        let unreadable = self.each_run(&countings, |run| {
            sweep.add(&run);
            Ok(())
        })?;
        if self.json {
            print_sweep_json(&sweep)?
        } else {
            print_sweep(&sweep)?
        }
        Ok(unreadable)
    }

    fn rules(&self) -> Rules {
        self.without.iter().fold(Rules::default(), |rules, name| rules.without(name).unwrap_or(rules))
    }

    fn settings(&self) -> Result<Settings, CliError> {
        let refused = |detail: String| CliError::Refused { detail };
        if !self.sweep && (self.window.len() > 1 || self.threshold.len() > 1 || self.counting.len() > 1) {
            return Err(refused("several settings at once need --sweep".to_owned()));
        }
        let window = self.window.first().copied().unwrap_or(f64::from(DEFAULT_WINDOW_SIZE));
        let threshold = self.threshold.first().copied().unwrap_or(DEFAULT_THRESHOLD);
        let counting = self.counting.first().copied().unwrap_or_default();
        let (window_size, threshold) = check_settings(window, threshold).map_err(|error| refused(error.to_string()))?;
        Ok(Settings { window_size, threshold, counting, rules: self.rules() })
    }

    fn config(&self) -> Result<Config, CliError> {
        let Some(path) = &self.filter_config else {
            return filter_config(PLAIN_CONFIG).map_err(|error| CliError::Refused { detail: error.to_string() });
        };
        load_config(path)
    }

    /// Reads every run of every file. A line that cannot be read is named, and the others go on.
    fn each_run(
        &self,
        countings: &[Counting],
        mut each: impl FnMut(Run) -> Result<(), CliError>,
    ) -> Result<usize, CliError> {
        let mut replayer = Replayer::new(StepReader::new(&self.config()?, countings));
        let inputs =
            open_all(&self.files).map_err(|(path, error)| CliError::File { path, reason: error.to_string() })?;
        let total = inputs.iter().map(|input| input.length).sum::<Option<u64>>();
        let mut reading = Reading {
            bar: if self.json { Bar::beside_output(total) } else { Bar::new(total) },
            bytes_before: 0,
            calls: 0,
            unreadable: 0,
        };
        let mut failed = Ok(());
        for input in inputs {
            let mut finished = |run| {
                if failed.is_ok() {
                    failed = each(run);
                }
            };
            reading.file(input, &mut replayer, &mut finished)?;
            std::mem::replace(&mut failed, Ok(()))?;
        }
        reading.bar.clear();
        Ok(reading.unreadable)
    }
}

pub(super) fn load_config(path: &Path) -> Result<Config, CliError> {
    let cannot = |reason: String| CliError::File { path: path.to_owned(), reason };
    let bytes = read_all(path).map_err(|error| cannot(error.to_string()))?;
    filter_config(&bytes).map_err(|error| cannot(error.to_string()))
}

fn given<T: Clone>(given: &[T], default: &[T]) -> Vec<T> {
    if given.is_empty() { default.to_vec() } else { given.to_vec() }
}

/// How far reading is.
struct Reading {
    bar: Bar,
    bytes_before: u64,
    calls: usize,
    unreadable: usize,
}

impl Reading {
    fn file(
        &mut self,
        mut input: Input,
        replayer: &mut Replayer,
        finished: &mut impl FnMut(Run),
    ) -> Result<(), CliError> {
        let mut line = Vec::new();
        let cannot =
            |name: &str, error: std::io::Error| CliError::File { path: name.into(), reason: error.to_string() };
        while let Some(number) = input.next_line(&mut line).map_err(|error| cannot(&input.name, error))? {
            match replayer.line(&line, finished) {
                Ok(calls) => self.calls += calls,
                Err(error) => {
                    self.unreadable += 1;
                    self.bar.clear();
                    eprintln!("kill-switch: {}, line {number}: {error}", input.name);
                }
            }
            self.bar.show(self.bytes_before + input.read.get(), self.calls);
        }
        replayer.end(finished);
        self.bytes_before += input.read.get();
        Ok(())
    }
}
