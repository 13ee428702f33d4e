//! The Kill Switch card: the toggle, the settings with their bounds, and a preview of what other settings would have
//! done.

use agent_kill_switch::policy::{
    MAX_IDLE_RESET_SECONDS, MAX_RETRY_AFTER_SECONDS, MAX_SESSION_STOP_SECONDS, MAX_STOPPED_SESSIONS, MAX_WINDOW_SIZE,
    MIN_WINDOW_SIZE, highest_score,
};
use agent_kill_switch::wire::{Action, AgentPolicy};
use maud::{Markup, html};

use super::layout::form_key;
use super::query::{Fields, agent_path, query};
use super::show::{clock, number, policy_file};
use super::tools;
use super::visitor::Visitor;
use crate::model::Agent;
use crate::service::{Basis, Preview, Stop};

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
            "How many of the agent's latest calls are compared with each other, including the current one: from "
            (MIN_WINDOW_SIZE) " to " (MAX_WINDOW_SIZE) "."
        }))
        div.field {
            label for="threshold" { "Threshold" }
            input #threshold type="number" name="threshold" min="0" step="any"
                required value=(text("threshold")) aria-describedby="threshold_hint"
                aria-invalid=[feedback.invalid("threshold")] disabled[!may_change];
            p.hint #threshold_hint {
                "A call whose score is above the threshold is a loop. Each similar prompt adds 1 to the score, each similar "
                "response 2, and each repeated tool call 1.5. The threshold must be above 0"
                @if let Some(highest) = size.map(highest_score) {
                    " and below " strong #highest { (number(highest)) } ", the highest score this window can reach"
                }
                "."
            }
        }
        (choice("action", "What happens when a loop is detected", text("action"), may_change, &ACTIONS))
        (whole("retry_after_seconds", "Refuse calls for (seconds)", (1, MAX_RETRY_AFTER_SECONDS), html! {
            "Only used with \u{201c}Refuse calls for a while\u{201d}: from 1 to " (MAX_RETRY_AFTER_SECONDS) "."
        }))
        (choice("counting", "Which repeats count", text("counting"), may_change, &COUNTINGS))
        (choice("scope", "What a loop stops", text("scope"), may_change, &SCOPES))
        (whole("session_stop_seconds", "Stop a conversation for (seconds)", (1, MAX_SESSION_STOP_SECONDS), html! {
            "Only used if a loop stops only its conversation: from 1 to " (MAX_SESSION_STOP_SECONDS) "."
        }))
        (whole("escalate_after", "Deactivate the agent after (conversations)", (0, MAX_STOPPED_SESSIONS), html! {
            "If this many conversations are stopped within an hour, the whole agent is deactivated: from 1 to "
            (MAX_STOPPED_SESSIONS) ". With 0 this never happens."
        }))
        (whole("idle_reset_seconds", "Begin a new run after a silence of (seconds)", (0, MAX_IDLE_RESET_SECONDS), html! {
            "If the agent makes no call for longer than this, its next call is not compared with the calls before the "
            "silence: up to " (MAX_IDLE_RESET_SECONDS) ". With 0, calls are compared however long the silence was."
        }))
        (choice(
            "answer_loop", "When the model repeats itself word for word within one answer", text("answer_loop"), may_change,
            &ANSWER_LOOPS
        ))
        (tools::fieldset(&agent.policy.tools, feedback.typed.as_ref(), may_change))
    }
}

/// A value that a setting can have, in a few words, and what it does.
type Choice = (&'static str, &'static str, &'static str);

const ACTIONS: [Choice; 3] = [
    ("deactivate", "Deactivate the agent", "All its calls are refused until a person activates it again."),
    (
        "block",
        "Refuse calls for a while",
        "Calls are refused for the number of seconds below. Then the agent may go on, with an empty window.",
    ),
    (
        "observe",
        "Only record it",
        "No call is refused. The loop is listed under Events, so you can try settings safely.",
    ),
];
const COUNTINGS: [Choice; 2] = [
    (
        "progress",
        "Repeats that bring nothing new",
        "A repeated call counts only if it got the agent nowhere, such as the same tool call with the same result.",
    ),
    (
        "literal",
        "Every repeat",
        "Every similar prompt, similar response and repeated tool call counts, even if the agent makes progress.",
    ),
];
const SCOPES: [Choice; 2] = [
    ("agent", "The whole agent", "All conversations of the agent are stopped."),
    (
        "session",
        "Only the conversation",
        "The agent's other conversations go on. Choose this if the agent serves many users at once.",
    ),
];
const ANSWER_LOOPS: [Choice; 3] = [
    ("off", "Do not look for it", "Answers are not searched for repetitions."),
    ("observe", "Only record it", "The answer is passed on in full, and the repetition is listed under Events."),
    ("cut", "End the answer", "The answer is cut off, and then the same happens as for any other loop (see above)."),
];

/// Shows the values that a setting can have, each with what it does and with its name in the API and in policy files.
fn choice(name: &str, label: &str, chosen: &str, may_change: bool, choices: &[Choice]) -> Markup {
    html! {
        fieldset.field id=(name) disabled[!may_change] {
            legend { (label) }
            @for (value, title, explanation) in choices {
                @let id = format!("{name}_{value}");
                div.choice {
                    input id=(id) type="radio" name=(name) value=(value) checked[*value == chosen]
                        aria-describedby={ (id) "_hint" };
                    label for=(id) { (title) " " code.faint { (value) } }
                    p.hint id={ (id) "_hint" } { (explanation) }
                }
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

/// Says in a sentence what settings would have done, and to which calls.
fn previewed(preview: &Preview) -> Markup {
    let (calls, highest) = (preview.calls, number(preview.highest));
    let is_observed = preview.action == Action::Observe;
    html! {
        div.previewed {
            @match preview.stops.first() {
                _ if calls == 0 => {
                    p { "No calls and no scores are stored for this agent yet, so there is nothing to compare with." }
                }
                None => {
                    p {
                        strong { "Would not have stopped anything. " }
                        "None of the last " (calls) " stored calls is a loop with these settings; the highest score is "
                        (highest) "."
                    }
                }
                Some(first) => {
                    p {
                        strong {
                            @match &first.session {
                                _ if is_observed => "Would have recorded a loop",
                                Some(key) => { "Would have stopped conversation " (key) }
                                None => "Would have stopped the agent",
                            }
                            " at call " (first.call) " of " (calls) ","
                        }
                        " at " (clock(first.at_ms)) " with a score of " (number(first.score)) (finding(first)) ". "
                        (preview.stopped) (if preview.stopped == 1 { " stored call completes" } else { " stored calls complete" })
                        " a loop; the highest score is " (highest) "."
                    }
                    @if preview.stops.len() > 1 { (stops(preview)) }
                }
            }
            (reservations(preview))
        }
    }
}

/// Lists the calls that would have been stopped.
fn stops(preview: &Preview) -> Markup {
    html! {
        ol.stops {
            @for stop in &preview.stops {
                li {
                    "call " (stop.call) ", " (clock(stop.at_ms)) ", score " (number(stop.score)) (finding(stop))
                    @if let Some(key) = &stop.session { ", conversation " (key) }
                }
            }
        }
        @if preview.stopped > preview.stops.len() {
            p.hint { "and " (preview.stopped - preview.stops.len()) " more" }
        }
        p.hint { "This is counted as if the agent had been allowed to go on after each of them." }
    }
}

/// Names what was found beside the score.
fn finding(stop: &Stop) -> String {
    match (stop.signals.failures_in_a_row, stop.signals.repeated_steps) {
        (0, 0) => String::new(),
        (0, steps) => format!(" and {steps} repeated steps"),
        (failures, _) => format!(" and the same failure {failures} times in a row"),
    }
}

/// Says whether a preview is exact, and if it is an estimate, why.
pub(super) fn reservations(preview: &Preview) -> Markup {
    html! {
        @match &preview.basis {
            _ if preview.calls == 0 => {}
            Basis::Calls { reservations } if reservations.is_empty() => p.hint {
                "Exact: the stored calls were run through the detector again."
            }
            Basis::Calls { reservations } => p.hint {
                "An estimate, although the stored calls were run through the detector again: "
                (reservations.join("; ")) "."
            }
            Basis::Scores { is_bounded: false } => p.hint {
                "An estimate from the stored scores: the calls themselves are not stored."
            }
            Basis::Scores { is_bounded: true } => p.hint {
                "An estimate from the stored scores, which were counted with the current settings: the calls themselves are "
                "not stored. Repeats that do not fit into a window of this size were left out, and other changes than those "
                "of threshold and window size make no difference."
            }
        }
    }
}
