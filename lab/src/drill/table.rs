//! The figures of the drills, as a table.

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
        (!problems.is_empty()).then(|| format!("{}: {}", self.fault, problems.join(", ")))
    }
}

/// Returns the figures as a table in Markdown.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text =
        "| fault | loops | kills lost | kills doubled | healthy calls | healthy stopped | not answered | slowest call \
                    | kills recorded after | manual stop after |\n|---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for outcome in outcomes {
        let healthy = &outcome.healthy;
        let cells = [
            outcome.fault.clone(),
            outcome.loops.to_string(),
            outcome.lost.to_string(),
            outcome.doubled.to_string(),
            healthy.calls.to_string(),
            healthy.stopped.to_string(),
            healthy.failed.to_string(),
            format!("{} ms", healthy.slowest.as_millis()),
            seconds(outcome.recorded_after),
            seconds(outcome.stop_after),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()))
}

/// Returns `page` with `table` between its markers, or `None` if it has none.
pub fn between_markers(page: &str, table: &str) -> Option<String> {
    let [start, end] = MARKERS;
    let (before, rest) = page.split_once(start)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{start}\n{table}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_replaces_what_is_between_the_markers() {
        let page = "before\n<!-- faults:start -->\nold\n<!-- faults:end -->\nafter\n";
        let new = "before\n<!-- faults:start -->\nnew\n<!-- faults:end -->\nafter\n";
        assert_eq!(between_markers(page, "new\n").as_deref(), Some(new));
        assert_eq!(between_markers(new, "new\n").as_deref(), Some(new));
        assert_eq!(between_markers("no markers", "new\n"), None);
    }

    #[test]
    fn a_problem_names_every_number_that_is_not_as_promised() {
        let healthy = Tally { calls: 5, ..Tally::default() };
        let good = Outcome { fault: "refuse".to_owned(), loops: 3, healthy, ..Outcome::default() };
        assert_eq!(good.problem(), None);
        let bad = Outcome { lost: 1, doubled: 2, ..good.clone() };
        assert_eq!(bad.problem().as_deref(), Some("refuse: 1 kills lost, 2 kills doubled"));
        assert!(Outcome { healthy: Tally::default(), ..good }.problem().is_some(), "nothing was measured");
    }
}
