//! `kill-switch replay`: plays recorded runs through the detector, under one setting or many. Needs no server.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value};

use super::CliError;
use super::agents::tool_rule;
use super::replay_report::{Report, Shown, print_sweep, print_sweep_json};
use crate::replay::detector::{Counting, Decoder, ReadOptions, Rules, ToolRules};
use crate::replay::input::{Input, read_all};
use crate::replay::sweep::{COUNTINGS, Sweep, THRESHOLDS, WINDOW_SIZES};
use crate::replay::{Run, RunReader, Settings, play};
use crate::service::{check_tools, parse_tools};

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
    /// Count the calls of a tool never (NAME=ignore) or only from N times on (NAME=N); may be given several times
    #[arg(long = "tool", value_name = "NAME=RULE", value_parser = tool_rule)]
    tools: Vec<(String, Option<Value>)>,
    /// Try many windows, thresholds and ways of counting, and show what each would kill
    #[arg(long)]
    sweep: bool,
    /// List only runs that would have been killed, and loops that would not
    #[arg(long, conflicts_with_all = ["json", "sweep"])]
    killed: bool,
    /// Fail if a run that expects "healthy" would have been killed, or if one that expects "loop" would not
    #[arg(long, conflicts_with = "sweep")]
    expect: bool,
    /// The filter's configuration, for its patterns and limits
    #[arg(long, value_name = "FILE")]
    filter_config: Option<PathBuf>,
    /// Print one JSON object per run, then a summary
    #[arg(long)]
    json: bool,
}

impl ReplayOptions {
    pub(super) fn run(self) -> Result<(), CliError> {
        let bad_lines = if self.sweep { self.run_sweep()? } else { self.run_once()? };
        if bad_lines > 0 { Err(CliError::BadLines { lines: bad_lines }) } else { Ok(()) }
    }

    /// Plays the runs under one setting. Returns how many lines could not be read.
    fn run_once(&self) -> Result<usize, CliError> {
        let settings = self.settings()?;
        let shown = if self.json {
            Shown::Json
        } else if self.killed {
            Shown::Killed
        } else {
            Shown::All
        };
        let mut report = Report::new(shown);
        let bad_lines =
            self.each_run(&[settings.counting], |run| report.add(run.label, play(&run.calls, &settings)))?;
        let (healthy_killed, loops_missed) = report.tally.wrong();
        report.finish(&settings)?;
        if self.expect && healthy_killed + loops_missed > 0 {
            return Err(CliError::NotAsExpected { healthy_killed, loops_missed });
        }
        Ok(bad_lines)
    }

    /// Plays the runs under many settings. Returns how many lines could not be read.
    fn run_sweep(&self) -> Result<usize, CliError> {
        let countings = given_or(&self.counting, &COUNTINGS);
        let (window_sizes, thresholds) =
            (given_or(&self.window, &WINDOW_SIZES), given_or(&self.threshold, &THRESHOLDS));
        let settings = Settings { rules: self.rules(), tools: self.tools()?, ..Settings::default() };
        let mut sweep = Sweep::new(countings, window_sizes, thresholds, &settings);
        if sweep.rows().is_empty() {
            // No combination is allowed: this fails with the reason for the first of them.
            self.settings()?;
        }
        let bad_lines = self.each_run(countings, |run| {
            sweep.add(&run);
            Ok(())
        })?;
        if self.json {
            print_sweep_json(&sweep)?
        } else {
            print_sweep(&sweep)?
        }
        Ok(bad_lines)
    }

    fn rules(&self) -> Rules {
        self.without.iter().fold(Rules::default(), |rules, name| rules.without(name).unwrap_or(rules))
    }

    fn tools(&self) -> Result<ToolRules, CliError> {
        let given: Map<_, _> =
            self.tools.iter().filter_map(|(name, rule)| Some((name.clone(), rule.clone()?))).collect();
        parse_tools(&Value::from(given)).map_err(|error| CliError::Refused(error.to_string()))
    }

    fn settings(&self) -> Result<Settings, CliError> {
        if !self.sweep && (self.window.len() > 1 || self.threshold.len() > 1 || self.counting.len() > 1) {
            return Err(CliError::Refused("several settings at once need --sweep".to_owned()));
        }
        let counting = self.counting.first().copied().unwrap_or_default();
        let settings = Settings { counting, rules: self.rules(), tools: self.tools()?, ..Settings::default() };
        let window_size = self.window.first().copied().unwrap_or(f64::from(settings.window_size));
        let threshold = self.threshold.first().copied().unwrap_or(settings.threshold);
        let settings = settings.with(window_size, threshold).map_err(|error| CliError::Refused(error.to_string()))?;
        check_tools(&settings.tools, settings.window_size).map_err(|error| CliError::Refused(error.to_string()))?;
        Ok(settings)
    }

    fn read_options(&self) -> Result<ReadOptions, CliError> {
        let mut options = match &self.filter_config {
            Some(path) => load_filter_config(path)?,
            None => ReadOptions::defaults().map_err(|error| CliError::Refused(error.to_string()))?,
        };
        options.rules = self.rules();
        Ok(options)
    }

    /// Calls `each` with every run of every file. Lines that cannot be read are reported on standard error and skipped.
    /// Returns how many there were.
    fn each_run(
        &self,
        countings: &[Counting],
        mut each: impl FnMut(Run) -> Result<(), CliError>,
    ) -> Result<usize, CliError> {
        let mut runs = RunReader::new(Decoder::new(self.read_options()?, countings));
        let progress = self.progress_bar();
        let open = |path: &PathBuf| Input::open(path, &progress).map_err(|error| CliError::file(path, error));
        let inputs: Vec<Input> = self.files.iter().map(open).collect::<Result<_, _>>()?;
        if let Some(total) = inputs.iter().map(|input| input.length).sum() {
            progress.set_length(total);
            set_template(&progress, "[{bar:30}] {percent:>3} %  {msg}");
        }
        let (mut line, mut bad_lines) = (Vec::new(), 0);
        for mut input in inputs {
            let cannot_read = |name: &str, error| CliError::file(Path::new(name), error);
            while let Some(number) = input.next_line(&mut line).map_err(|error| cannot_read(&input.name, error))? {
                match runs.line(&line) {
                    Ok(run) => run.into_iter().try_for_each(&mut each)?,
                    Err(error) => {
                        bad_lines += 1;
                        progress.suspend(|| eprintln!("kill-switch: {}, line {number}: {error}", input.name));
                    }
                }
                progress.set_message(format!("{} calls", runs.calls_read()));
            }
            runs.end_of_file().into_iter().try_for_each(&mut each)?;
        }
        progress.finish_and_clear();
        Ok(bad_lines)
    }

    /// Creates a bar that is drawn on standard error if that is a terminal. If the input's length is not known, it shows
    /// only the number of calls.
    fn progress_bar(&self) -> ProgressBar {
        if self.json && std::io::stdout().is_terminal() {
            // Runs are printed as they are read, and would get mixed up with the bar on the same terminal.
            return ProgressBar::hidden();
        }
        let progress = ProgressBar::no_length();
        set_template(&progress, "{msg}");
        progress
    }
}

fn set_template(progress: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        progress.set_style(style.progress_chars("=  "));
    }
}

/// Reads a filter's configuration from a file.
pub(super) fn load_filter_config(path: &Path) -> Result<ReadOptions, CliError> {
    let bytes = read_all(path).map_err(|error| CliError::file(path, error))?;
    ReadOptions::parse(&bytes).map_err(|error| CliError::file(path, error))
}

fn given_or<'a, T>(given: &'a [T], default: &'a [T]) -> &'a [T] {
    if given.is_empty() { default } else { given }
}
