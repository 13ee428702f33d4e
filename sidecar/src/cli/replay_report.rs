//! What `replay` prints: a row or an object per run and a summary, or a row per setting.

use agent_kill_switch::wire::Signals;
use serde::Serialize;
use serde_json::{Value, json};

use super::CliError;
use super::output::{inert, print, table};
use crate::replay::sweep::Sweep;
use crate::replay::tally::{Expect, Tally};
use crate::replay::{Label, Outcome, Settings};

/// Which runs are printed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// All, as a table.
    All,
    /// Those that were killed and loops that were not, as a table.
    Killed,
    /// All, as JSON, each as soon as it is judged.
    Json,
}

/// What is printed of runs under one setting.
pub(super) struct Report {
    shown: Shown,
    /// What was counted so far.
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

    pub(super) fn finish(&self, settings: &Settings) -> Result<(), CliError> {
        if self.shown == Shown::Json {
            let mut summary = self.tally.json();
            if let Some(members) = summary.as_object_mut() {
                members.insert("settings".to_owned(), settings_json(settings));
            }
            return print(&format!("{}\n", json!({"summary": summary})));
        }
        let heading = ["AGENT", "EXPECT", "CALLS", "KILLED AT", "SCORE", "PROMPTS", "RESPONSES", "TOOLS", "WHY"];
        let mut text = table(heading, &self.rows);
        text.push('\n');
        text.push_str(&summary(&self.tally));
        print(&text)
    }
}

/// A run for programs, in the order in which a person reads it.
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
    // Numbers and strings only: nothing in it can fail.
    serde_json::to_string(&line).unwrap_or_default() + "\n"
}

fn settings_json(settings: &Settings) -> Value {
    json!({"window_size": settings.window_size, "threshold": settings.threshold, "counting": settings.counting})
}

fn row(label: &Label, expect: Expect, outcome: &Outcome) -> [String; 9] {
    let signals = outcome.score.signals;
    let mark = if expect.is_met_by(outcome) { "" } else { " !" };
    [
        // Recordings are other people's.
        inert(label.agent.as_deref().unwrap_or("-")),
        expect.word().to_owned() + mark,
        outcome.calls.to_string(),
        outcome.killed_at.map_or("-".to_owned(), |call| call.to_string()),
        outcome.score.value().to_string(),
        signals.similar_prompts.to_string(),
        signals.similar_responses.to_string(),
        signals.repeated_tool_calls.to_string(),
        inert(outcome.reason.as_deref().unwrap_or_default()),
    ]
}

fn summary(tally: &Tally) -> String {
    let rows: Vec<_> = Expect::ALL
        .map(|expect| {
            let count = tally.of(expect);
            let median = count.median_kill().map_or("-".to_owned(), |call| call.to_string());
            let highest = count.highest_score.to_string();
            let [runs, calls, killed] = [count.runs, count.calls, count.killed].map(|number| number.to_string());
            [expect.word().to_owned(), runs, calls, killed, median, highest]
        })
        .into();
    table(["EXPECT", "RUNS", "CALLS", "KILLED", "MEDIAN KILL AT", "HIGHEST SCORE OF THE REST"], &rows)
}

pub(super) fn print_sweep(sweep: &Sweep) -> Result<(), CliError> {
    let of = |tally: &Tally, expect| {
        let count = tally.of(expect);
        format!("{} of {}", count.killed, count.runs)
    };
    let rows: Vec<_> = sweep
        .rows()
        .iter()
        .map(|(settings, tally)| {
            [
                settings.counting.as_str().to_owned(),
                settings.window_size.to_string(),
                settings.threshold.to_string(),
                of(tally, Expect::Healthy),
                of(tally, Expect::Loop),
                tally.of(Expect::Loop).median_kill().map_or("-".to_owned(), |call| call.to_string()),
                of(tally, Expect::Unknown),
            ]
        })
        .collect();
    let heading =
        ["COUNTING", "WINDOW", "THRESHOLD", "HEALTHY KILLED", "LOOPS KILLED", "MEDIAN KILL AT", "UNKNOWN KILLED"];
    print(&table(heading, &rows))
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
