//! docs/detection-benchmark.md: what each detector does to the recorded runs, and how to check it.

use kill_switch::replay::tally::Expect;

use crate::rules::RIVALS;
use crate::score::{Count, JUDGING, Mistake, Scores, Source, detectors};
use crate::sources::KNOWN;

pub fn markdown(scores: &Scores, picture: &str) -> String {
    let total = scores.total();
    let mut page = format!(
        "# Loop detectors compared\n\n\
         This page is written by `make detection`. It replays recorded runs of real agents, which other projects have\n\
         published, with our way of counting, with the specification to the letter, with the published rules of other loop\n\
         detectors, and with plain limits on the number of calls. Every detector has its default settings. The same\n\
         recordings give the same page, byte for byte.\n\n\
         {}\
         ![Healthy runs stopped and loops missed, by detector]({picture})\n\n\
         {}\n\
         *At call* is the median call at which a loop that was caught was stopped: the first call that would not have\n\
         been made.\n",
        wrapped(&format!(
            "{} runs with {} calls: {} healthy runs, which must not be stopped, {} loops, which must be stopped, and {} runs \
             without a label, which do not count.",
            number(total.healthy + total.loops + total.unknown),
            number(total.calls),
            number(total.healthy),
            number(total.loops),
            number(total.unknown)
        )),
        totals(scores)
    );
    page += "\n## By source\n\nEach cell shows the healthy runs killed and the loops caught.\n\n";
    page += &by_source(scores);
    page += "\n## The detectors\n\n";
    page += DETECTORS;
    page += "\n| detector | stops a run at | documented in |\n|---|---|---|\n";
    for rival in &RIVALS {
        page += &format!("| {} | {} | {} |\n", rival.name, rival.rule, rival.documented);
    }
    page += "\n## Where we are wrong\n\n";
    page += &mistakes(scores);
    page += "\n## The recordings\n\n";
    page += &recordings(scores);
    page += &format!("\n## The labels\n\n{LABELS}\n");
    page += &wrapped(&format!(
        "Two figures show how much the labels themselves can be trusted, because they do not depend on one detector: of the {} \
         loops, {} are stopped by none of the {JUDGING} detectors that look at what happens in a run, and of the {} healthy \
         runs, {} are stopped by more than half of them.",
        number(total.loops),
        number(scores.loops_nobody_stops),
        number(total.healthy),
        number(scores.healthy_most_stop)
    ));
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

const DETECTORS: &str = "\
*Agent Kill Switch* is this project with its defaults: `progress` counting, a window of 20 and a threshold of 10.
*literal counting* follows the text of the specification; see [detection.md](detection.md#two-ways-to-count). The other
rules were written anew from what their projects document, in `bench/src/bin/detection/rules.rs`. They are part of an
agent, so they see its steps rather than requests: its tool calls, or for an agent without tool calls the text of its
answers, and what came back. Their answers to a loop differ (to ask the user, to tell the model, to end the run); here each
of them stops the run. A rule that asks a model to judge the conversation is not replayed.
";

const LABELS: &str = "\
A label comes with its recording, in `expect`, and the detectors do not change it. *Healthy* means what the table above
says. A *loop* is a run without success in which one of these happened: the same action with the same result six times in
a row, a cycle of two to five such steps five times, a cycle of six to ten steps four times, or the same words without an
action six times. In MAST a loop is a chat with the same prompt twelve or more times in a row, and in TRAIL a run with the
same tool call seven times in a row. Everything else is *unknown*, also a run that recovered from such a repetition.

These labels can be disputed:

- A run that succeeds after it has repeated a failing step a few times is healthy by its outcome, although some operators
  would have wanted it stopped.
- A run that was submitted (mini-swe-agent), or whose agent says that it is done (AutoGPT), is healthy although nobody
  checked what it did.
- In some loops nobody judged the outcome: the repetition alone makes them loops (DataAgentBench, MAST, TRAIL).
- A run that fails for another reason, and in which a short step such as `ls` happens to be repeated six times, is a loop
  by the rule.
- The rule for loops compares whole results. A result that contains a counter or a time differs each time, so such loops
  are unknown.
- In recordings without the original requests (InterCode, ReAct), the requests are rebuilt from logs, and a detector that
  reads requests may see more, or less, than the real one would have.
- A rule for loops that counts exact repetitions favours detectors that count exact repetitions.
";

/// The main table.
pub fn totals(scores: &Scores) -> String {
    let total = scores.total();
    let mut table = "| detector | healthy killed | loops caught | at call |\n|---|---|---|---|\n".to_owned();
    for (index, (name, count)) in detectors().iter().zip(&total.counts).enumerate() {
        let bold = if index == 0 { "**" } else { "" };
        let call = count.median_call().map_or("-".to_owned(), number);
        table += &format!(
            "| {bold}{name}{bold} | {bold}{} of {}{bold} | {bold}{} of {}{bold} | {call} |\n",
            number(count.killed),
            number(total.healthy),
            number(count.caught()),
            number(total.loops)
        );
    }
    table
}

fn by_source(scores: &Scores) -> String {
    let mut table = format!("| source | healthy, loops | {} |\n", detectors().join(" | "));
    table += &format!("|---|---|{}\n", "---|".repeat(detectors().len()));
    for (name, source) in &scores.sources {
        let cell = |count: &Count| format!("{}, {}", number(count.killed), number(count.caught()));
        let cells: Vec<String> = source.counts.iter().map(cell).collect();
        table +=
            &format!("| {name} | {}, {} | {} |\n", number(source.healthy), number(source.loops), cells.join(" | "));
    }
    table
}

fn mistakes(scores: &Scores) -> String {
    if scores.mistakes.is_empty() {
        return "No verdict differs from its label.\n".to_owned();
    }
    let mut out = String::new();
    for (expect, title, about) in [
        (Expect::Healthy, "Healthy runs that we stop", "*Why* is the reason of the kill."),
        (Expect::Loop, "Loops that we miss", "*Why* says how far the score came."),
    ] {
        let rows: Vec<&Mistake> = scores.mistakes.iter().filter(|mistake| mistake.expect == expect).collect();
        out += &format!("### {title}\n\n");
        if rows.is_empty() {
            out += "None.\n\n";
            continue;
        }
        out += &wrapped(&format!(
            "{about} *Label* is why the recording has its label. *Others* are the other detectors that stop the run."
        ));
        out += "| source | agent | at call | why | label | others |\n|---|---|---|---|---|---|\n";
        for mistake in rows {
            out += &row(mistake);
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn row(mistake: &Mistake) -> String {
    let outcome = &mistake.outcome;
    let (call, why) = match outcome.killed_at {
        Some(call) => (format!("{call} of {}", mistake.calls), outcome.reason.clone().unwrap_or_default()),
        None => (format!("- of {}", mistake.calls), format!("the highest score is {}", outcome.score.value())),
    };
    let others = if mistake.stopped_by.is_empty() { "none".to_owned() } else { mistake.stopped_by.join(", ") };
    let [source, agent, why, label] = [&mistake.source, &mistake.agent, &why, &mistake.label]
        .map(|text| text.replace('|', "\\|").replace(['\n', '\r'], " "));
    format!("| {source} | {agent} | {call} | {why} | {label} | {others} |\n")
}

fn recordings(scores: &Scores) -> String {
    let mut out = "\
        None of the recordings is part of this repository. To fetch them, search for the project and the data set by name, and\n\
        convert each run to a line of the format in [cli.md](cli.md#replay), with `source` and `expect`. Then run `make\n\
        detection TRACES=FOLDER`. Recordings of your own agents work in the same way; those without a label only do not count.\n\n\
        | source | runs: healthy, loops, unknown | project and data set | healthy means |\n|---|---|---|---|\n"
        .to_owned();
    for (name, Source { healthy, loops, unknown, .. }) in &scores.sources {
        let known = KNOWN.iter().find(|known| known.name == name);
        let (from, means) =
            known.map_or(("not a public source that this page knows", "-"), |known| (known.from, known.healthy));
        out += &format!(
            "| {name} | {}, {}, {} | {from} | {means} |\n",
            number(*healthy),
            number(*loops),
            number(*unknown)
        );
    }
    out
}

/// Returns a paragraph with lines of at most 120 characters, and an empty line after it.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if column > 0 {
            let fits = column + 1 + len <= 120;
            out.push(if fits { ' ' } else { '\n' });
            column = if fits { column + 1 } else { 0 };
        }
        out.push_str(word);
        column += len;
    }
    out + "\n\n"
}

/// Writes a number with a comma after each group of three digits.
fn number(value: usize) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_has_short_lines() {
        let text = "word ".repeat(100);
        assert!(wrapped(&text).lines().all(|line| line.len() <= 120) && wrapped(&text).lines().count() == 6);
        assert_eq!(wrapped("a\n  b"), "a b\n\n");
    }

    #[test]
    fn a_number_is_written_in_groups_of_three() {
        for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(number(value), text);
        }
    }
}
