//! The figures of the drills, as a table.

use std::fmt;
use std::time::Duration;

use super::traffic::Tally;

/// The markers between which a page has the table.
const MARKERS: [&str; 2] = ["<!-- faults:start -->", "<!-- faults:end -->"];

/// The result of one drill.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What happened.
    pub fault: String,
    /// How many agents looped. Each must be killed once.
    pub loops: usize,
    /// Loops that were not stopped, or whose kill was not recorded.
    pub lost: usize,
    /// Kills that were recorded in addition to the first one of their agent.
    pub doubled: usize,
    /// The calls of the other agents.
    pub healthy: Tally,
    /// Whether every call of the other agents must be answered. If Envoy itself crashes, some are not.
    pub all_answered: bool,
    /// How long after the end of the fault every kill was recorded.
    pub recorded_after: Option<Duration>,
    /// How long that may take, if there is a promise.
    pub limit: Option<Duration>,
    /// How long after the end of the fault an agent that a person stopped during the fault was refused.
    pub stop_after: Option<Duration>,
}

impl Outcome {
    /// Returns what went wrong, or `None` if everything was as promised.
    pub fn problem(&self) -> Option<String> {
        let numbers =
            [(self.lost, "kills lost"), (self.doubled, "kills doubled"), (self.healthy.stopped, "healthy stopped")];
        let mut problems: Vec<String> =
            numbers.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")).collect();
        if self.all_answered && self.healthy.failed > 0 {
            problems.push(format!("{} healthy calls failed: {}", self.healthy.failed, self.healthy.first_failure));
        }
        if self.healthy.calls == 0 {
            problems.push("no healthy agent made a call".to_owned());
        }
        if let Some(limit) = self.limit.filter(|limit| self.recorded_after.is_none_or(|after| after > *limit)) {
            let (after, limit) = (seconds(self.recorded_after), seconds(Some(limit)));
            problems.push(format!("healed after {after}, and {limit} are promised"));
        }
        (!problems.is_empty()).then(|| format!("{}: {}", self.fault, problems.join(", ")))
    }
}

const HEAD: &str = "| fault | loops | kills lost | kills doubled | healthy calls | healthy stopped | not answered | slowest call \
     | kills recorded after | manual stop after |\n|---|---|---|---|---|---|---|---|---|---|\n";

impl fmt::Display for Outcome {
    /// Writes the figures as a row of a table in Markdown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let healthy = &self.healthy;
        let cells = [
            self.fault.clone(),
            self.loops.to_string(),
            self.lost.to_string(),
            self.doubled.to_string(),
            healthy.calls.to_string(),
            healthy.stopped.to_string(),
            healthy.failed.to_string(),
            format!("{} ms", healthy.slowest.as_millis()),
            seconds(self.recorded_after),
            seconds(self.stop_after),
        ];
        writeln!(f, "| {} |", cells.join(" | "))
    }
}

/// Returns the figures as a table in Markdown.
pub fn table(outcomes: &[Outcome]) -> String {
    outcomes.iter().fold(HEAD.to_owned(), |table, outcome| table + &outcome.to_string())
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()))
}

/// Returns `page` with these figures in its table. Rows of other faults stay as they are. Returns `None` if the page has no
/// markers for a table.
pub fn written(page: &str, outcomes: &[Outcome]) -> Option<String> {
    let [start, end] = MARKERS;
    let (before, rest) = page.split_once(start)?;
    let (old, after) = rest.split_once(end)?;
    let mut table = HEAD.to_owned();
    let is_new = |outcome: &Outcome, row: &str| row.starts_with(&format!("| {} |", outcome.fault));
    let mut left: Vec<&Outcome> = outcomes.iter().collect();
    for row in old.trim().lines().skip(2) {
        match left.iter().position(|outcome| is_new(outcome, row)) {
            Some(index) => table += &left.remove(index).to_string(),
            None => table += &format!("{row}\n"),
        }
    }
    let table = left.into_iter().fold(table, |table, outcome| table + &outcome.to_string());
    Some(format!("{before}{start}\n{table}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_figures_replace_those_of_the_same_fault_and_leave_the_others() {
        let outcome = |fault: &str, loops| Outcome { fault: fault.to_owned(), loops, ..Outcome::default() };
        let page = |outcomes: &[Outcome]| {
            format!("before\n<!-- faults:start -->\n{}<!-- faults:end -->\nafter\n", table(outcomes))
        };
        let old = page(&[outcome("refuse", 1), outcome("hang", 1)]);
        let new = written(&old, &[outcome("drip", 2), outcome("refuse", 2)]);
        let expected = page(&[outcome("refuse", 2), outcome("hang", 1), outcome("drip", 2)]);
        assert_eq!(new, Some(expected));
        assert_eq!(written("no markers", &[]), None);
    }

    #[test]
    fn a_problem_names_every_number_that_is_not_as_promised() {
        let healthy = Tally { calls: 5, ..Tally::default() };
        let good = Outcome { fault: "refuse".to_owned(), loops: 3, healthy, ..Outcome::default() };
        assert_eq!(good.problem(), None);
        let bad = Outcome { lost: 1, doubled: 2, ..good.clone() };
        assert_eq!(bad.problem().as_deref(), Some("refuse: 1 kills lost, 2 kills doubled"));
        assert!(Outcome { healthy: Tally::default(), ..good.clone() }.problem().is_some(), "nothing was measured");
        let limit = Some(Duration::from_secs(10));
        for (after, problem) in [
            (Some(Duration::from_secs(9)), None),
            (Some(Duration::from_secs(11)), Some("refuse: healed after 11.0 s, and 10.0 s are promised")),
            (None, Some("refuse: healed after -, and 10.0 s are promised")),
        ] {
            assert_eq!(Outcome { limit, recorded_after: after, ..good.clone() }.problem().as_deref(), problem);
        }
    }
}
