//! What `replay` prints: a row or a JSON object for each run and a summary, or with `--sweep` a row for each setting.

use agent_kill_switch::printable::printable;
use serde::Serialize;
use serde_json::{Value, json};

use super::CliError;
use super::output::{cell, print, table};
use crate::replay::detector::Signals;
use crate::replay::sweep::Sweep;
use crate::replay::tally::{Expect, Tally};
use crate::replay::{Label, Outcome, Settings};

/// Which runs are printed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// All runs, as a table.
    All,
    /// Runs that were killed and loops that were not, as a table.
    Killed,
    /// All runs, as JSON, each as soon as it has been played.
    Json,
}

/// The report on runs under one setting.
pub(super) struct Report {
    shown: Shown,
    /// The counts of the runs so far.
    pub(super) tally: Tally,
    rows: Vec<[String; 9]>,
}

impl Report {
    pub(super) fn new(shown: Shown) -> Self {
        Self { shown, tally: Tally::default(), rows: Vec::new() }
    }

    pub(super) fn add(&mut self, label: Label, outcome: Outcome) -> Result<(), CliError> {
        let expect = Expect::of(&label);
        self.tally.add(expect, &outcome);
        match self.shown {
            Shown::Json => return print(&run_line(&label, &outcome)),
            Shown::Killed if outcome.killed_at.is_none() && expect.is_met_by(&outcome) => {}
            Shown::Killed | Shown::All => self.rows.push(row(&label, expect, &outcome)),
        }
        Ok(())
    }

    pub(super) fn finish(self, settings: &Settings) -> Result<(), CliError> {
        if self.shown == Shown::Json {
            let mut summary = self.tally.json();
            if let Some(members) = summary.as_object_mut() {
                members.insert("settings".to_owned(), settings_json(settings));
            }
            return print(&format!("{}\n", json!({"summary": summary})));
        }
        let heading = ["AGENT", "EXPECT", "CALLS", "KILLED AT", "SCORE", "PROMPTS", "RESPONSES", "TOOLS", "WHY"];
        let mut text = table(heading, self.rows);
        text.push('\n');
        text.push_str(&summary(&self.tally));
        print(&text)
    }
}

/// The JSON of a run. A struct, since its members are printed in this order.
#[derive(Serialize)]
struct RunLine<'a> {
    agent: Option<&'a str>,
    source: Option<&'a str>,
    expect: Option<&'a str>,
    calls: usize,
    killed_at: Option<usize>,
    score: f64,
    #[serde(flatten)]
    signals: Signals,
}

fn run_line(label: &Label, outcome: &Outcome) -> String {
    let line = RunLine {
        agent: label.agent.as_deref(),
        source: label.source.as_deref(),
        expect: label.expect.as_deref(),
        calls: outcome.calls,
        killed_at: outcome.killed_at,
        score: outcome.score.value(),
        signals: outcome.score.signals,
    };
    // Numbers and strings can always be written.
    serde_json::to_string(&line).unwrap_or_default() + "\n"
}

fn settings_json(settings: &Settings) -> Value {
    json!({"window_size": settings.window_size, "threshold": settings.threshold, "counting": settings.counting})
}

fn row(label: &Label, expect: Expect, outcome: &Outcome) -> [String; 9] {
    let signals = outcome.score.signals;
    let mark = if expect.is_met_by(outcome) { "" } else { " !" };
    [
        printable(label.agent.as_deref().unwrap_or("-")),
        expect.word().to_owned() + mark,
        outcome.calls.to_string(),
        call(outcome.killed_at),
        outcome.score.value().to_string(),
        signals.similar_prompts.to_string(),
        signals.similar_responses.to_string(),
        signals.repeated_tool_calls.to_string(),
        printable(outcome.reason.as_deref().unwrap_or_default()),
    ]
}

fn summary(tally: &Tally) -> String {
    let rows = Expect::ALL.map(|expect| {
        let count = tally.of(expect);
        let [runs, calls, killed] = [count.runs, count.calls, count.killed].map(|number| number.to_string());
        [expect.word().to_owned(), runs, calls, killed, call(count.median_kill()), count.highest_score.to_string()]
    });
    table(["EXPECT", "RUNS", "CALLS", "KILLED", "MEDIAN KILL AT", "HIGHEST SCORE OF THE REST"], rows)
}

pub(super) fn print_sweep(sweep: &Sweep) -> Result<(), CliError> {
    let killed = |tally: &Tally, expect| {
        let count = tally.of(expect);
        format!("{} of {}", count.killed, count.runs)
    };
    let rows = sweep.rows().iter().map(|(settings, tally)| {
        [
            cell(&settings_json(settings), "counting"),
            settings.window_size.to_string(),
            settings.threshold.to_string(),
            killed(tally, Expect::Healthy),
            killed(tally, Expect::Loop),
            call(tally.of(Expect::Loop).median_kill()),
            killed(tally, Expect::Unknown),
        ]
    });
    let heading =
        ["COUNTING", "WINDOW", "THRESHOLD", "HEALTHY KILLED", "LOOPS KILLED", "MEDIAN KILL AT", "UNKNOWN KILLED"];
    print(&table(heading, rows))
}

pub(super) fn print_sweep_json(sweep: &Sweep) -> Result<(), CliError> {
    sweep.rows().iter().try_for_each(|(settings, tally)| {
        let mut row = settings_json(settings);
        if let (Some(row), Value::Object(tally)) = (row.as_object_mut(), tally.json()) {
            row.extend(tally);
        }
        print(&format!("{row}\n"))
    })
}

/// Returns the number of a call as a cell of a table.
fn call(number: Option<usize>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}
