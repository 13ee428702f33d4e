//! Counts only repeats that got the agent nowhere.
//!
//! The formula is the one of the specification. What differs is what counts as a repeat. Each rule can be switched off, so
//! that its effect can be measured: docs/detection.md has the table.
//!
//! The unit is a *step*: what the model did (its answer, or the tools it called) together with what came back (the fresh
//! input of the next request). Healthy agents repeat halves of steps all the time: the same test command with a new
//! output, or different edits with the same empty output. A loop repeats whole steps, with nothing new in between.

use super::score::{Repeat, Strength};
use super::window::{Call, Past};
use crate::fingerprint::Fingerprint;
use crate::turn::{Answer, ToolTurn};

/// The rules of progress counting. Each is on by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A tool call repeats only with the same result, and a result only after the same call.
    pub results: bool,
    /// An answer repeats only if what came back after it was the same as well.
    pub followups: bool,
    /// A prompt that is similar but not the same repeats only if it got the same answer.
    pub sameness: bool,
    /// Two repeats with something new in between count as one.
    pub novelty: bool,
    /// A prompt that says too little to identify anything ("ok", an empty output) counts in full only as long as nothing
    /// else comes.
    pub information: bool,
    /// An answer that is similar to another but not the same counts half.
    pub wording: bool,
    /// An action in the text of an answer is a tool call, and the next input is its result.
    pub actions: bool,
    /// The id of a tool call that its own result quotes is not news. This rule is applied when a request is read.
    pub ids: bool,
    /// The same failing result many times in a row is a loop, whatever the calls were.
    pub failures: bool,
    /// A window of which more than half repeats earlier steps exactly is a loop.
    pub cycles: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            results: true,
            followups: true,
            sameness: true,
            novelty: true,
            information: true,
            wording: true,
            actions: true,
            ids: true,
            failures: true,
            cycles: true,
        }
    }
}

impl Rules {
    /// The names of the rules, for switching one off.
    pub const NAMES: [&'static str; 10] = [
        "results",
        "followups",
        "sameness",
        "novelty",
        "information",
        "wording",
        "actions",
        "ids",
        "failures",
        "cycles",
    ];

    /// Switches one rule off. Returns `None` if there is no rule of this name.
    pub fn without(self, name: &str) -> Option<Self> {
        Some(match name {
            "results" => Self { results: false, ..self },
            "followups" => Self { followups: false, ..self },
            "sameness" => Self { sameness: false, ..self },
            "novelty" => Self { novelty: false, ..self },
            "information" => Self { information: false, ..self },
            "wording" => Self { wording: false, ..self },
            "actions" => Self { actions: false, ..self },
            "ids" => Self { ids: false, ..self },
            "failures" => Self { failures: false, ..self },
            "cycles" => Self { cycles: false, ..self },
            _ => return None,
        })
    }
}

/// Finds out which tool calls the results in the current call belong to, from the calls before it.
///
/// Not every client sends its tool calls back in a form that tells, and some send results as user messages. In these cases
/// the results belong to the tool calls of the last answer.
pub fn attribute(past: Past<'_>, now: &mut Call) {
    if now.tools == ToolTurn::None {
        now.tools = past.latest_called_tools().map_or(ToolTurn::None, ToolTurn::Results);
    }
    if now.tools != ToolTurn::None {
        now.action = None;
    }
}

/// Whether no call before the current one brought the same.
pub fn is_novel(past: &[Call], now: &Call) -> bool {
    !past.iter().any(|call| is_same_step(call, now))
}

/// Decides again whether a call is novel, now that its answer is known.
///
/// A call is not novel if a similar request before it got the same informative answer. A call that is itself a tool call (MCP)
/// is novel only by its result: if that is new, it does not matter that the same call was made before.
pub fn revise(before: Past<'_>, call: &mut Call) {
    let mut similar = before.with_similar_input(call.input);
    match (call.tools, call.answer.text()) {
        (ToolTurn::Call(_), Some(result)) => {
            call.novel = !similar.any(|past| {
                let counts = |text: Fingerprint| text.is_same(result) && (past.tools == call.tools || text.informative);
                past.answer.text().is_some_and(counts)
            });
        }
        _ if call.novel && similar.any(|past| same_text(&past, call)) => call.novel = false,
        _ => {}
    }
}

/// Returns what the current call repeats of each past call, the latest first.
pub fn repeats<'a>(past: &'a [Call], now: &'a Call, rules: Rules) -> impl Iterator<Item = Repeat> + 'a {
    let mut walk = Walk::new(past, now, rules);
    past.iter().enumerate().rev().map(move |(index, call)| walk.next(index, call))
}

/// Compares the current call with one past call after the other, the latest first.
struct Walk<'a> {
    past: &'a [Call],
    now: &'a Call,
    rules: Rules,
    latest_answer: Option<LatestAnswer<'a>>,
    prompts: Chain,
    responses: Chain,
    actions: Chain,
}

impl<'a> Walk<'a> {
    #[inline(never)] // compiled once, though calls are compared for two reasons: to score and to explain
    fn new(past: &'a [Call], now: &'a Call, rules: Rules) -> Self {
        let says_little = rules.information && !now.input.informative && now.tools == ToolTurn::None;
        Self {
            past,
            now,
            rules,
            latest_answer: LatestAnswer::find(past, now),
            prompts: Chain { breaks_permanently: says_little, broken: false },
            responses: Chain::default(),
            actions: Chain::default(),
        }
    }

    #[inline(never)] // likewise
    fn next(&mut self, index: usize, call: &Call) -> Repeat {
        let Self { past, now, rules, .. } = *self;
        let novel = rules.novelty && call.novel;
        let prompt = self.prompts.next(repeats_prompt(call, now, past, rules), novel);
        let response = self.latest_answer.map_or(Strength::None, |latest| latest.repeats(index, call, rules));
        let tool = match now.tools {
            ToolTurn::None => self.actions.next(rules.actions && repeats_action(call, now), novel),
            ToolTurn::Results(_) | ToolTurn::Call(_) => prompt,
        };
        Repeat { index, prompt, response: self.responses.next(response != Strength::None, novel).min(response), tool }
    }
}

/// A chain of repeats, followed from the latest call back. A repeat is weak if something new happened after it.
#[derive(Default)]
struct Chain {
    /// Whether any call that is not a repeat breaks the chain permanently.
    breaks_permanently: bool,
    broken: bool,
}

impl Chain {
    fn next(&mut self, repeated: bool, novel: bool) -> Strength {
        if !repeated {
            self.broken |= novel || self.breaks_permanently;
            return Strength::None;
        }
        let strength = if self.broken { Strength::Weak } else { Strength::Full };
        self.broken &= self.breaks_permanently;
        strength
    }
}

/// Whether two calls bring the same input about the same tools.
pub fn is_same_step(call: &Call, now: &Call) -> bool {
    call.tools == now.tools && call.input.is_same(now.input)
}

/// Whether two calls bring the same result of the same action in the text of an answer.
fn repeats_action(call: &Call, now: &Call) -> bool {
    now.action.is_some() && call.action == now.action && call.input.is_same(now.input)
}

fn repeats_prompt(call: &Call, now: &Call, past: &[Call], rules: Rules) -> bool {
    if !call.input.is_similar(now.input) {
        return false;
    }
    match now.tools {
        _ if rules.results && call.tools != now.tools => false,
        ToolTurn::None => !rules.sameness || call.input.is_same(now.input) || got_latest_answer(call, past),
        ToolTurn::Results(_) => !rules.results || call.input.is_same(now.input),
        ToolTurn::Call(_) => !rules.results || got_latest_result(call, now, past),
    }
}

/// Whether a call got the same informative answer as the latest answered call.
fn got_latest_answer(call: &Call, past: &[Call]) -> bool {
    let latest = past.iter().rev().find(|call| matches!(call.answer, Answer::Text(_)));
    latest.is_some_and(|latest| same_text(call, latest))
}

fn same_text(call: &Call, other: &Call) -> bool {
    match (call.answer, other.answer) {
        (Answer::Text(a), Answer::Text(b)) => a.informative && a.is_same(b),
        _ => false,
    }
}

/// Whether a call that is itself a tool call (MCP) got the same result as the latest such call. A result that is not known
/// proves nothing.
fn got_latest_result(call: &Call, now: &Call, past: &[Call]) -> bool {
    let latest = past.iter().rev().find(|call| call.tools == now.tools && is_known(call.answer));
    latest.is_some_and(|latest| match (call.answer, latest.answer) {
        (Answer::Abandoned, Answer::Abandoned) => true,
        (Answer::Rejected(status), Answer::Rejected(latest)) => status == latest,
        (result, latest) => result.text().zip(latest.text()).is_some_and(|(result, latest)| result.is_same(latest)),
    })
}

fn is_known(answer: Answer) -> bool {
    !matches!(answer, Answer::Unknown | Answer::Failed)
}

/// The latest answer, unless it called tools, with the calls around it.
#[derive(Clone, Copy)]
struct LatestAnswer<'a> {
    index: usize,
    latest: &'a Call,
    past: &'a [Call],
    now: &'a Call,
}

impl<'a> LatestAnswer<'a> {
    fn find(past: &'a [Call], now: &'a Call) -> Option<Self> {
        let index = past.iter().rposition(|call| is_known(call.answer))?;
        let latest = past.get(index)?;
        let is_tool_result = matches!(latest.tools, ToolTurn::Call(_)) || latest.answer.tools().is_some();
        (!is_tool_result).then_some(Self { index, latest, past, now })
    }

    fn repeats(&self, index: usize, call: &Call, rules: Rules) -> Strength {
        if index >= self.index || !self.is_repeated(index, call, rules) {
            return Strength::None;
        }
        // A single word can turn an answer into its opposite.
        let texts = call.answer.text().zip(self.latest.answer.text());
        let is_reworded = texts.is_some_and(|(text, latest)| !text.is_same(latest));
        if rules.wording && is_reworded { Strength::Weak } else { Strength::Full }
    }

    fn is_repeated(&self, index: usize, call: &Call, rules: Rules) -> bool {
        let (Some(after), Some(after_latest)) = (self.after(index), self.after(self.index)) else { return false };
        // An answer that acts is known by its action.
        if rules.actions && after.action != after_latest.action {
            return false;
        }
        let same_followup = after.input.is_same(after_latest.input);
        match (call.answer, self.latest.answer) {
            (Answer::Text(text), Answer::Text(latest)) if text.is_similar(latest) => {
                !rules.followups
                    || (after.tools == after_latest.tools
                        && after.input.is_similar(after_latest.input)
                        && (same_followup || (latest.informative && text.is_same(latest))))
            }
            (Answer::Rejected(status), Answer::Rejected(latest)) if status == latest => {
                same_followup && is_same_step(call, self.latest)
            }
            (Answer::Abandoned, Answer::Abandoned) => same_followup && is_same_step(call, self.latest),
            _ => false,
        }
    }

    /// Returns the call after the one at `index`.
    fn after(&self, index: usize) -> Option<&'a Call> {
        if index + 1 == self.past.len() { Some(self.now) } else { self.past.get(index + 1) }
    }
}

#[cfg(test)]
mod tests;
