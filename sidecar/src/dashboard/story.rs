//! The story of a kill on one page, to which alerts link: what happened, the calls as the detector saw them, and what can be
//! done about it.

use agent_kill_switch::wire::Signals;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};

use super::agents::note;
use super::banner::match_table;
use super::error::Result;
use super::form::Form;
use super::layout::{Page, form_key};
use super::query::{Fields, agent_path};
use super::show::{ago, ago_or, clock, duration, number, table};
use super::timeline::timeline;
use super::visitor::Visitor;
use super::{Dashboard, kill_switch};
use crate::alerts::tools;
use crate::model::{DeliveryStatus, Event, Millis, RemedyKind};
use crate::service::{Error, Remedy, Story, StoryCall, Told, event_id};

/// Returns the address of the story of an event.
pub(super) fn story_path(event: &Event) -> String {
    format!("/kills/{}", event.id)
}

pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    params: Fields,
) -> Result<Markup> {
    let story = dashboard.service.story(event_id(&id)?).await?;
    let (now_ms, body) = (dashboard.service.now(), &story.event.body);
    let title = format!("Why {} was stopped", body.agent_id);
    Ok(Page { title: &title, here: "/events", visitor: &visitor }.with(html! {
        (flash(params.text("did"), &story))
        div #story data-live data-page=(story_path(&story.event)) {
            p.crumb { a href=(agent_path(&body.agent_id)) { bdi { (body.agent_id) } } " /" }
            h1 { "The story of a kill" }
            section.banner.killed aria-label="What happened" {
                p.reason { bdi { (story.summary) } }
                p.when {
                    span class={ "kind " (body.event_type.as_str()) } { (body.event_type.as_str()) } " "
                    (ago(body.at_ms, now_ms)) " · " (clock(body.at_ms)) " · " (state(&story))
                    @if visitor.who.may_change() { " · " a href="#remedies" { "What you can do" } }
                }
            }
            (calls(&story))
            @if visitor.who.may_change() { (remedies(&story, &visitor)) }
            (aftermath(&story, now_ms))
        }
    }))
}

fn state(story: &Story) -> &'static str {
    match &story.agent {
        None => "the agent was deleted since",
        Some(agent) if agent.active => "the agent is active now",
        Some(_) => "the agent is inactive now",
    }
}

fn flash(did: &str, story: &Story) -> Markup {
    let is_inactive = story.agent.as_ref().is_some_and(|agent| !agent.active);
    let message = match did {
        "activate" => "Activated. Its window was cleared.",
        "observe" => "The agent is active, and its loops are only recorded from now on.",
        "resume" => "The conversation goes on.",
        "ignore_tool" if is_inactive => "The tool is ignored. The agent is still inactive: activate it below.",
        "ignore_tool" => "The tool is ignored.",
        "raise_threshold" if is_inactive => "The threshold was raised. The agent is still inactive: activate it below.",
        "raise_threshold" => "The threshold was raised.",
        _ => return html! {},
    };
    html! { p.notice.flash role="status" { (message) } }
}

/// Shows the calls of the window, or what the report of the kill tells if they are not stored.
fn calls(story: &Story) -> Markup {
    let detail = &story.event.body.detail;
    let threshold = detail.get("threshold").and_then(serde_json::Value::as_f64);
    html! {
        section.card aria-labelledby="calls" {
            h2 #calls { "The calls, as the detector saw them" }
            @if !story.calls.is_empty() {
                p.hint {
                    "Only fingerprints and times of calls are stored, never their text. They were run through the "
                    "detector again with the settings of this kill"
                    @if let Some(threshold) = threshold { ", whose threshold was " strong { (number(threshold)) } }
                    "."
                }
            }
            @if let Some(note) = &story.note { p.notice #note { (note) } }
            @if !story.calls.is_empty() { (table("list tight story", &COLUMNS, rows(&story.calls, threshold))) }
            @else if !story.matches.is_empty() {
                h3 { "Calls that the report of the kill names" }
                (match_table(&story.matches, &tools(detail)))
            }
            @if !story.scores.is_empty() {
                h3 { "Stored scores before the kill" }
                (timeline(&story.scores, threshold.unwrap_or_default(), &[]))
            }
        }
    }
}

const COLUMNS: [&str; 7] = ["Call", "Before the kill", "Conversation", "Brought", "Came back", "Repeats", "Score"];

fn rows(calls: &[StoryCall], threshold: Option<f64>) -> Markup {
    html! {
        @for call in calls {
            tr {
                td.numbers data-label="Call" { (call.number) }
                td.numbers data-label="Before the kill" {
                    time title=(clock(call.at_ms)) { (duration(call.age_ms)) }
                    @if !call.envoy.is_empty() { " " span.faint { bdi { (call.envoy) } } }
                }
                td.id data-label="Conversation" {
                    @if let Some(key) = &call.conversation { (key) } @else { span.faint { "a new one" } }
                }
                td data-label="Brought" {
                    (call.brought)
                    @if !call.tools.is_empty() { ": " bdi { (call.tools.join(", ")) } }
                }
                td data-label="Came back" { (call.answer) }
                td.why data-label="Repeats" { (repeats(call)) }
                td.numbers data-label="Score" { (score(call, threshold)) }
            }
        }
    }
}

/// Lists the calls that a call repeats. Those that it repeats by the same rule are named together.
fn repeats(call: &StoryCall) -> Markup {
    let mut rules: Vec<(&str, Vec<String>)> = Vec::new();
    for repeat in call.repeats.iter().rev() {
        match rules.iter_mut().find(|(by, _)| *by == repeat.by) {
            Some((_, numbers)) => numbers.push(repeat.number.to_string()),
            None => rules.push((&repeat.by, vec![repeat.number.to_string()])),
        }
    }
    html! {
        @if rules.is_empty() && findings(&call.signals).is_none() { span.faint { "nothing" } }
        @for (by, numbers) in rules {
            span.change {
                (if numbers.len() == 1 { "call " } else { "calls " }) strong { (numbers.join(", ")) } ": " (by)
            }
        }
        @if let Some(finding) = findings(&call.signals) { span.change { strong { (finding) } } }
    }
}

/// Names what was found beside the score.
fn findings(signals: &Signals) -> Option<String> {
    match (signals.failures_in_a_row, signals.repeated_steps) {
        (0, 0) => None,
        (0, steps) => Some(format!("a cycle: {steps} repeated steps")),
        (failures, _) => Some(format!("the same failure {failures} times in a row")),
    }
}

fn score(call: &StoryCall, threshold: Option<f64>) -> Markup {
    let is_over = threshold.is_some_and(|threshold| call.score > threshold);
    html! {
        @if is_over { strong.score.over { (number(call.score)) } " " span.faint { "above the threshold" } }
        @else { (number(call.score)) }
    }
}

/// Shows what can be done, with what each would have changed.
fn remedies(story: &Story, visitor: &Visitor) -> Markup {
    html! {
        section.card aria-labelledby="remedies" {
            h2 #remedies { "What you can do" }
            @if story.remedies.is_empty() { p.faint { "There is nothing left to do about this kill." } }
            ul.rules {
                @for remedy in &story.remedies { li.rule { (remedy_form(story, remedy, visitor)) } }
            }
        }
    }
}

fn remedy_form(story: &Story, remedy: &Remedy, visitor: &Visitor) -> Markup {
    let (label, explanation) = labels(story, remedy);
    let is_first = matches!(remedy.remedy, RemedyKind::Activate | RemedyKind::Resume);
    html! {
        div.what {
            p { (explanation) }
            p.effect { (remedy.effect) }
            (kill_switch::reservations(&remedy.preview))
        }
        form.inline method="post" action={ (story_path(&story.event)) "/" (remedy.remedy.as_str()) } {
            (form_key(visitor))
            @if let Some(tool) = &remedy.tool { input type="hidden" name="tool" value=(tool); }
            @if is_first {
                label.sr for="reason" { "Reason" }
                input #reason type="text" name="reason" maxlength="1000" placeholder="What was fixed?";
            }
            button.primary[is_first] type="submit" { (label) }
        }
    }
}

/// Returns the text of the button of a remedy, and what it does.
fn labels(story: &Story, remedy: &Remedy) -> (String, Markup) {
    let is_active = story.agent.as_ref().is_some_and(|agent| agent.active);
    match remedy.remedy {
        RemedyKind::Activate => (
            "Activate".to_owned(),
            html! { "The agent may call again. Its window starts empty, and its settings stay as they are." },
        ),
        RemedyKind::Resume => (
            "Let it go on".to_owned(),
            html! { "The conversation may go on. Its window starts empty, and the settings stay as they are." },
        ),
        RemedyKind::Observe if is_active => (
            "Only observe".to_owned(),
            html! { "Loops of this agent are only recorded from now on, and nothing is stopped." },
        ),
        RemedyKind::Observe => (
            "Activate and observe".to_owned(),
            html! { "The agent may call again. Its loops are only recorded from now on, and nothing is stopped." },
        ),
        RemedyKind::IgnoreTool => (
            "Ignore this tool".to_owned(),
            html! {
                "Calls of " strong { bdi { (remedy.tool.as_deref().unwrap_or_default()) } } " are never counted any more. "
                "This is right if the agent waits by calling it."
            },
        ),
        RemedyKind::RaiseThreshold => (
            format!("Raise the threshold to {}", number(remedy.threshold.unwrap_or_default())),
            html! { "A call must have a higher score than this one had to be stopped." },
        ),
    }
}

/// Shows what was refused since, who was told, and what the agent's developer sees.
fn aftermath(story: &Story, now_ms: Millis) -> Markup {
    html! {
        section.card aria-labelledby="refused" {
            h2 #refused { "Refused since" }
            @match (story.refused.calls, &story.reply) {
                (_, None) => p { "Nothing was refused because of this." },
                (0, _) => p { "No refused call was reported since." },
                (calls, _) => {
                    p {
                        strong { (calls) } (if calls == 1 { " call" } else { " calls" }) ", the latest "
                        (ago_or(story.refused.last_ms, now_ms, "at an unknown time")) "."
                    }
                    p.hint { "Counted until the agent or a conversation of it is stopped again." }
                }
            }
        }
        section.card aria-labelledby="told" {
            h2 #told { "Who was told" }
            @if story.told.is_empty() {
                p { "Nobody: no alert rule applied to this event. " a href="/alerts" { "Alert rules" } }
            } @else { (table("list tight", &["Rule", "Channel", "Outcome", "When"], told(&story.told, now_ms))) }
        }
        section.card aria-labelledby="developer" {
            h2 #developer { "What the agent\u{2019}s developer sees" }
            @match &story.reply {
                None => p { "Nothing: the call was forwarded, and the client got its answer." },
                Some(reply) => {
                    p {
                        "Every refused call gets the status " strong { (reply.status) }
                        " and this message, in the format of the client\u{2019}s API. With " code { "inactive_reply" }
                        " set to " code { "completion" } ", a deactivated agent gets the message as an answer instead."
                    }
                    blockquote #message { bdi { (reply.message) } }
                }
            }
        }
    }
}

fn told(all: &[Told], now_ms: Millis) -> Markup {
    html! {
        @for one in all {
            tr {
                td.why { bdi { (if one.name.is_empty() { &one.rule_id } else { &one.name }) } }
                td data-label="Channel" { (one.channel.as_str()) }
                td data-label="Outcome" {
                    (match one.status {
                        DeliveryStatus::Pending => "not delivered yet",
                        DeliveryStatus::Delivered => "delivered",
                        DeliveryStatus::GivenUp => "given up",
                        DeliveryStatus::HeldBack => "held back",
                    })
                    @if !one.error.is_empty() { span.faint { ": " bdi { (one.error) } } }
                }
                td { (ago_or(one.last_attempt_ms, now_ms, "never")) }
            }
        }
    }
}

/// Shows the list of kills to somebody who shortens the address of a story.
pub(super) async fn list() -> Redirect {
    Redirect::to("/events?event_type=kill_switch")
}

/// Shows the story when somebody reloads the address of one of its forms.
pub(super) async fn reloaded(_: Visitor, Path((id, _)): Path<(String, String)>) -> Result<Redirect> {
    Ok(Redirect::to(&format!("/kills/{}", event_id(&id)?)))
}

/// Does what was chosen.
pub(super) async fn act(
    State(dashboard): State<Dashboard>,
    Path((id, word)): Path<(String, String)>,
    form: Form,
) -> Result<Response> {
    let id = event_id(&id)?;
    let unknown = || Error::NotFound { what: "button", id: word.clone() };
    let remedy = RemedyKind::parse(&word).ok_or_else(unknown)?;
    let note = note(form.fields.text("reason"))?;
    dashboard.service.remedy(id, remedy, (form.fields.text("tool"), &note), &form.visitor.caller()).await?;
    Ok(Redirect::to(&format!("/kills/{id}?did={}", remedy.as_str())).into_response())
}
