//! The Kill Switch card: the toggle, the settings with their bounds, and a preview of what other settings would have
//! done.

use agent_kill_switch::policy::{
    MAX_IDLE_RESET_SECONDS, MAX_RETRY_AFTER_SECONDS, MAX_SESSION_STOP_SECONDS, MAX_STOPPED_SESSIONS, MAX_WINDOW_SIZE,
    MIN_WINDOW_SIZE, highest_score,
};
use agent_kill_switch::wire::AgentPolicy;
use maud::{Markup, html};

use super::layout::form_key;
use super::query::{Fields, agent_path, query};
use super::show::{clock, number, policy_file};
use super::tools;
use super::visitor::Visitor;
use crate::model::Agent;
use crate::service::Preview;

/// Returns the saved settings as the form shows them.
fn saved(policy: &AgentPolicy) -> Fields {
    Fields::filled([
        ("window_size", policy.kill_switch_window_size.to_string()),
        ("threshold", policy.kill_switch_threshold.to_string()),
        ("action", policy.action.as_str().to_owned()),
        ("counting", policy.counting.as_str().to_owned()),
        ("retry_after_seconds", policy.retry_after_seconds.to_string()),
        ("scope", policy.scope.as_str().to_owned()),
        ("session_stop_seconds", policy.session_stop_seconds.to_string()),
        ("escalate_after", policy.escalate_after.to_string()),
        ("idle_reset_seconds", policy.idle_reset_seconds.to_string()),
        ("answer_loop", policy.answer_loop.as_str().to_owned()),
    ])
}

/// What the page says in answer to a form.
#[derive(Default)]
pub(super) struct AgentFeedback {
    /// What was just done, as the keyword in the address from which the message is chosen.
    pub did: String,
    /// What was typed, if the settings were not saved.
    pub typed: Option<Fields>,
    /// Why the settings were refused: the field and the reason.
    pub refused: Option<(String, String)>,
    /// What the settings would have done.
    pub preview: Option<Preview>,
    /// Whether to ask if the kill switch should be enabled although no alert is configured.
    pub asks_for_alert: bool,
}

impl AgentFeedback {
    /// Returns the value of the attribute `aria-invalid` of a field.
    fn invalid(&self, field: &str) -> Option<&'static str> {
        self.refused.as_ref().is_some_and(|(refused, _)| refused.ends_with(field)).then_some("true")
    }
}

pub(super) fn card(agent: &Agent, feedback: &AgentFeedback, visitor: &Visitor) -> Markup {
    let enabled = agent.policy.kill_switch_enabled;
    let path = agent_path(agent.id());
    let may_change = visitor.who.may_change();
    html! {
        section.card #kill-switch aria-labelledby="ks" {
            div #toggle .cardhead data-live {
                h2 #ks { "Kill Switch" }
                form method="post" action={ (path) "/kill-switch" } {
                    (form_key(visitor))
                    input type="hidden" name="enabled" value=(if enabled { "false" } else { "true" });
                    button.toggle type="submit" role="switch" aria-checked=(enabled) aria-label="Kill Switch"
                        disabled[!may_change] {
                        span.knob aria-hidden="true" {}
                        span.word { (if enabled { "On" } else { "Off" }) }
                    }
                }
            }
            @if feedback.asks_for_alert { (question(agent, visitor)) }
            @else if !enabled {
                p.hint {
                    "This agent's calls are not checked. You can change the settings now; they take effect when you "
                    "switch the kill switch on."
                }
            }
            @if let Some(source) = policy_file(agent) {
                p.notice #managed {
                    "These settings come from the " (source) ". You can change them here, but the next "
                    code { "kill-switch apply" } " of that file overwrites it. For a lasting change, edit the file."
                }
            }
            form.stack method="post" action={ (path) "/settings" } data-preview={ (path) "/preview" } {
                (form_key(visitor))
                @if let Some((_, detail)) = &feedback.refused { p.notice.bad role="alert" { (detail) } }
                (settings(agent, feedback, may_change))
                @if may_change {
                    div.buttons {
                        button.primary type="submit" { "Save settings" }
                        button type="submit" formaction={ (path) "/preview" } { "What would these have done?" }
                    }
                }
                div #preview aria-live="polite" { @if let Some(preview) = &feedback.preview { (previewed(preview)) } }
            }
        }
    }
}

fn settings(agent: &Agent, feedback: &AgentFeedback, may_change: bool) -> Markup {
    let saved = saved(&agent.policy);
    let text = |name: &str| feedback.typed.as_ref().unwrap_or(&saved).text(name);
    let whole = |name: &str, label: &str, (min, max): (u32, u32), hint: Markup| {
        html! {
            div.field {
                label for=(name) { (label) }
                input id=(name) type="number" name=(name) min=(min) max=(max) step="1"
                    required value=(text(name)) aria-describedby={ (name) "_hint" }
                    aria-invalid=[feedback.invalid(name)] disabled[!may_change];
                p.hint id={ (name) "_hint" } { (hint) }
            }
        }
    };
    let size = text("window_size").parse().ok().filter(|size| (MIN_WINDOW_SIZE..=MAX_WINDOW_SIZE).contains(size));
    html! {
        (whole("window_size", "Window size", (MIN_WINDOW_SIZE, MAX_WINDOW_SIZE), html! {
            "How many calls are compared, including the current one: " (MIN_WINDOW_SIZE) " to " (MAX_WINDOW_SIZE) "."
        }))
        div.field {
            label for="threshold" { "Threshold" }
            input #threshold type="number" name="threshold" min="0" step="any"
                required value=(text("threshold")) aria-describedby="threshold_hint"
                aria-invalid=[feedback.invalid("threshold")] disabled[!may_change];
            p.hint #threshold_hint {
                "A score above this is a loop. Must be above 0"
                @if let Some(highest) = size.map(highest_score) {
                    " and below " strong #highest { (number(highest)) } ", the highest score this window can reach"
                }
                ". The score is similar prompts × 1 + similar responses × 2 + repeated tool calls × 1.5."
            }
        }
        div.field {
            label for="action" { "Action" }
            (choice("action", text("action"), may_change, &ACTIONS))
            p.hint #action_hint { "What happens when a loop is detected." }
        }
        div.field {
            label for="counting" { "Counting" }
            (choice("counting", text("counting"), may_change, &COUNTINGS))
            p.hint #counting_hint { "Which repeated calls count towards the score." }
        }
        (whole("retry_after_seconds", "Block for (seconds)", (1, MAX_RETRY_AFTER_SECONDS), html! {
            "Only used with the action block: 1 to " (MAX_RETRY_AFTER_SECONDS) "."
        }))
        div.field {
            label for="scope" { "What a loop stops" }
            (choice("scope", text("scope"), may_change, &SCOPES))
            p.hint #scope_hint {
                "Choose the conversation if this agent serves many users at once: the others then go on."
            }
        }
        (whole("session_stop_seconds", "Stop a conversation for (seconds)", (1, MAX_SESSION_STOP_SECONDS), html! {
            "Only used if a loop stops the conversation: 1 to " (MAX_SESSION_STOP_SECONDS) "."
        }))
        (whole("escalate_after", "Deactivate the agent after (conversations)", (0, MAX_STOPPED_SESSIONS), html! {
            "If this many conversations are stopped within an hour, the agent is deactivated: 0 (never) to "
            (MAX_STOPPED_SESSIONS) "."
        }))
        (whole("idle_reset_seconds", "Start afresh after a silence of (seconds)", (0, MAX_IDLE_RESET_SECONDS), html! {
            "Calls from before a longer silence are not compared with the next one: 0 (always compare) to "
            (MAX_IDLE_RESET_SECONDS) "."
        }))
        div.field {
            label for="answer_loop" { "A loop inside one answer" }
            (choice("answer_loop", text("answer_loop"), may_change, &ANSWER_LOOPS))
            p.hint #answer_loop_hint {
                "What happens when the model repeats itself word for word within one answer. After a cut, the action above "
                "follows."
            }
        }
        (tools::fieldset(&agent.policy.tools, feedback.typed.as_ref(), may_change))
    }
}

const ACTIONS: [(&str, &str); 3] = [
    ("deactivate", "deactivate (refuse calls until activated)"),
    ("block", "block (refuse calls for a while)"),
    ("observe", "observe (only record it)"),
];
const COUNTINGS: [(&str, &str); 2] =
    [("progress", "progress (repeats that bring nothing new)"), ("literal", "literal (every repeat)")];

const SCOPES: [(&str, &str); 2] =
    [("agent", "agent (the whole agent)"), ("session", "session (only the conversation)")];

const ANSWER_LOOPS: [(&str, &str); 3] =
    [("off", "off (do not look for it)"), ("observe", "observe (only record it)"), ("cut", "cut (end the answer)")];

fn choice(name: &str, chosen: &str, may_change: bool, options: &[(&str, &str)]) -> Markup {
    html! {
        select id=(name) name=(name) aria-describedby={ (name) "_hint" } disabled[!may_change] {
            @for (value, label) in options {
                option value=(value) selected[*value == chosen] { (label) }
            }
        }
    }
}

/// Asks whether to enable the kill switch although nobody would be notified of a kill.
fn question(agent: &Agent, visitor: &Visitor) -> Markup {
    let alerts = format!("/alerts{}#new", query(&[("agent_id", agent.id())]));
    html! {
        div.prompt role="alertdialog" aria-labelledby="ask" aria-describedby="ask-text" {
            h3 #ask { "Nobody will be notified" }
            p #ask-text {
                "No alert notification is configured for this agent. If the kill switch stops it, you will only see it "
                "on this dashboard."
            }
            form.buttons method="post" action={ (agent_path(agent.id())) "/kill-switch" } {
                (form_key(visitor))
                input type="hidden" name="enabled" value="true";
                a.button.primary href=(alerts) autofocus { "Configure" }
                button type="submit" name="confirm" value="true" { "Enable anyway" }
            }
        }
    }
}

/// Says in a sentence what settings would have done.
fn previewed(preview: &Preview) -> Markup {
    let (calls, highest) = (preview.calls, number(preview.highest));
    html! {
        div.previewed {
            @match preview.first {
                _ if calls == 0 => {
                    p { "No scores are stored for this agent yet, so there is nothing to compare with." }
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
                    "This is an estimate: the scores were counted with another window size. Repeats that do not fit "
                    "into a window of this size were left out."
                }
            }
        }
    }
}
