//! The Kill Switch card: the toggle, the settings with their bounds, and what they would have done.

use agent_kill_switch::policy::{MAX_RETRY_AFTER_SECONDS, MAX_WINDOW_SIZE, MIN_WINDOW_SIZE, highest_score};
use maud::{Markup, html};

use super::form::Fields;
use super::layout::key;
use super::query::{agent_path, query};
use super::show::{clock, number};
use super::visitor::Visitor;
use crate::model::Agent;
use crate::service::Preview;

/// What the form shows: what is saved, or what was typed.
pub(super) struct Draft {
    pub window_size: String,
    pub threshold: String,
    pub action: String,
    pub counting: String,
    pub retry_after_seconds: String,
}

impl Draft {
    pub(super) fn saved(agent: &Agent) -> Self {
        let policy = &agent.policy;
        Self {
            window_size: policy.kill_switch_window_size.to_string(),
            threshold: policy.kill_switch_threshold.to_string(),
            action: policy.action.as_str().to_owned(),
            counting: policy.counting.as_str().to_owned(),
            retry_after_seconds: policy.retry_after_seconds.to_string(),
        }
    }

    pub(super) fn typed(fields: &Fields) -> Self {
        let text = |name: &str| fields.text(name).to_owned();
        Self {
            window_size: text("window_size"),
            threshold: text("threshold"),
            action: text("action"),
            counting: text("counting"),
            retry_after_seconds: text("retry_after_seconds"),
        }
    }
}

/// What is to be said beside the form.
#[derive(Default)]
pub(super) struct Said {
    /// Why the settings were refused: the field and the reason.
    pub refused: Option<(String, String)>,
    /// What they would have done.
    pub preview: Option<Preview>,
    /// Whether enabling waits for an answer to the question about alerts.
    pub asks_for_alert: bool,
}

impl Said {
    fn is_bad(&self, field: &str) -> Option<&'static str> {
        self.refused.as_ref().is_some_and(|(own, _)| own.ends_with(field)).then_some("true")
    }
}

pub(super) fn card(agent: &Agent, draft: &Draft, said: &Said, visitor: &Visitor) -> Markup {
    let enabled = agent.policy.kill_switch_enabled;
    let path = agent_path(agent.id());
    let may = visitor.who.may_change();
    html! {
        section.card #kill-switch aria-labelledby="ks" {
            div #toggle .cardhead data-live {
                h2 #ks { "Kill Switch" }
                form method="post" action={ (path) "/kill-switch" } {
                    (key(visitor))
                    input type="hidden" name="enabled" value=(if enabled { "false" } else { "true" });
                    button.toggle type="submit" role="switch" aria-checked=(enabled) aria-label="Kill Switch"
                        disabled[!may] {
                        span.knob aria-hidden="true" {}
                        span.word { (if enabled { "On" } else { "Off" }) }
                    }
                }
            }
            @if said.asks_for_alert { (question(agent, visitor)) }
            @else if !enabled {
                p.hint { "Off: calls pass unseen. Settings can be prepared and take effect when it is switched on." }
            }
            form.stack method="post" action={ (path) "/settings" } data-preview={ (path) "/preview" } {
                (key(visitor))
                @if let Some((_, detail)) = &said.refused { p.notice.bad role="alert" { (detail) } }
                (settings(draft, said, may))
                @if may {
                    div.buttons {
                        button.primary type="submit" { "Save settings" }
                        button type="submit" formaction={ (path) "/preview" } { "What would these have done?" }
                    }
                }
                div #preview aria-live="polite" { @if let Some(preview) = &said.preview { (told(preview)) } }
            }
        }
    }
}

fn settings(draft: &Draft, said: &Said, may: bool) -> Markup {
    let size = draft.window_size.parse().ok().filter(|size| (MIN_WINDOW_SIZE..=MAX_WINDOW_SIZE).contains(size));
    html! {
        div.field {
            label for="window_size" { "Window size" }
            input #window_size type="number" name="window_size" min=(MIN_WINDOW_SIZE) max=(MAX_WINDOW_SIZE) step="1"
                required value=(draft.window_size) aria-describedby="window_hint"
                aria-invalid=[said.is_bad("window_size")] disabled[!may];
            p.hint #window_hint {
                "The last calls that are compared, the current one included: "
                (MIN_WINDOW_SIZE) " to " (MAX_WINDOW_SIZE) "."
            }
        }
        div.field {
            label for="threshold" { "Threshold" }
            input #threshold type="number" name="threshold" min="0" step="any"
                required value=(draft.threshold) aria-describedby="threshold_hint"
                aria-invalid=[said.is_bad("threshold")] disabled[!may];
            p.hint #threshold_hint {
                "The score that must be exceeded: above 0"
                @if let Some(highest) = size.map(highest_score) {
                    " and below " strong #highest { (number(highest)) } ", the highest score this window can reach"
                }
                ". Similar prompts × 1, similar responses × 2, repeated tool calls × 1.5."
            }
        }
        div.field {
            label for="action" { "Action" }
            (choice("action", &draft.action, may, &ACTIONS))
            p.hint #action_hint {
                "Off until a person activates it; refused for a while, then afresh; or nothing but a record."
            }
        }
        div.field {
            label for="counting" { "Counting" }
            (choice("counting", &draft.counting, may, &COUNTINGS))
            p.hint #counting_hint { "Progress counts a repeat only if it got the agent nowhere." }
        }
        div.field {
            label for="retry_after_seconds" { "Block for (seconds)" }
            input #retry_after_seconds type="number" name="retry_after_seconds"
                min="1" max=(MAX_RETRY_AFTER_SECONDS) step="1"
                required value=(draft.retry_after_seconds) aria-describedby="retry_hint"
                aria-invalid=[said.is_bad("retry_after_seconds")] disabled[!may];
            p.hint #retry_hint { "With action block only: 1 to " (MAX_RETRY_AFTER_SECONDS) "." }
        }
    }
}

const ACTIONS: [(&str, &str); 3] = [
    ("deactivate", "deactivate (until activated)"),
    ("block", "block (refuse for a while)"),
    ("observe", "observe (only record)"),
];
const COUNTINGS: [(&str, &str); 2] =
    [("progress", "progress (repeats without news)"), ("literal", "literal (every repeat)")];

fn choice(name: &str, chosen: &str, may: bool, options: &[(&str, &str)]) -> Markup {
    html! {
        select id=(name) name=(name) aria-describedby={ (name) "_hint" } disabled[!may] {
            @for (word, text) in options {
                option value=(word) selected[*word == chosen] { (text) }
            }
        }
    }
}

/// Asked before a kill switch is switched on that nobody would hear of.
fn question(agent: &Agent, visitor: &Visitor) -> Markup {
    let alerts = format!("/alerts{}#new", query(&[("agent_id", agent.id())]));
    html! {
        div.prompt role="alertdialog" aria-labelledby="ask" aria-describedby="ask-text" {
            h3 #ask { "Nobody would be told" }
            p #ask-text {
                "No alert notification is configured for this agent. If the kill switch stops it, only this page will "
                "show it."
            }
            form.buttons method="post" action={ (agent_path(agent.id())) "/kill-switch" } {
                (key(visitor))
                input type="hidden" name="enabled" value="true";
                a.button.primary href=(alerts) autofocus { "Configure" }
                button type="submit" name="confirm" value="true" { "Enable anyway" }
            }
        }
    }
}

/// What settings would have done, in a sentence.
pub(super) fn told(preview: &Preview) -> Markup {
    let (calls, highest) = (preview.calls, number(preview.highest));
    html! {
        div.told {
            @match preview.first {
                _ if calls == 0 => {
                    p { "No scores are stored for this agent yet: nothing to compare with." }
                }
                None => {
                    p {
                        strong { "Would not have tripped. " }
                        "None of the last " (calls) " stored calls is over the threshold; the highest score is "
                        (highest) "."
                    }
                }
                Some((call, at_ms, score)) => {
                    p {
                        strong { "Would have tripped at call " (call) " of " (calls) "," }
                        " at " (clock(at_ms)) " with a score of " (number(score)) ". "
                        (preview.over) " stored " (if preview.over == 1 { "call is" } else { "calls are" })
                        " over the threshold; the highest score is " (highest) "."
                    }
                }
            }
            @if preview.is_bounded {
                p.hint {
                    "An estimate: scores were counted in the window of their day, and what a window of this size "
                    "cannot hold is left out."
                }
            }
        }
    }
}
