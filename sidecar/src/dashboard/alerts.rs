//! The alert rules, the form for a new one, and the history of deliveries.

use agent_kill_switch::wire::Scope;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::json;

use super::Dashboard;
use super::error::Result;
use super::form::Form;
use super::layout::{Page, form_key};
use super::query::{Fields, agent_path, object};
use super::show::{ago, ago_or, table};
use super::visitor::Visitor;
use crate::alerts::masked;
use crate::api::problem::status;
use crate::model::{AlertRule, Channel, Delivery, DeliveryStatus, Millis};
use crate::service::{DEFAULT_COOLDOWN_SECONDS, Error, MAX_COOLDOWN_SECONDS, RuleChange};
use crate::store::DeliveryQuery;

/// How many deliveries the page lists.
const HISTORY: u32 = 50;

/// What the page says in answer to a form.
#[derive(Default)]
struct AlertFeedback {
    /// What was just done, as the keyword in the address from which the message is chosen.
    did: String,
    /// The contents of the form for a new rule, unless they are the defaults.
    form: Option<Fields>,
    /// Why the form was refused.
    refused: Option<String>,
    /// The secret of a new webhook rule, which is shown only once.
    secret: Option<String>,
}

pub(super) async fn page(State(dashboard): State<Dashboard>, visitor: Visitor, params: Fields) -> Result<Markup> {
    let (did, form) = (params.text("did").to_owned(), Some(new_rule(params.text("agent_id"))));
    render(&dashboard, &visitor, &AlertFeedback { did, form, ..AlertFeedback::default() }).await
}

async fn render(dashboard: &Dashboard, visitor: &Visitor, feedback: &AlertFeedback) -> Result<Markup> {
    let rules = dashboard.service.alert_rules().await?;
    let history = dashboard.service.deliveries(&DeliveryQuery { limit: HISTORY, ..DeliveryQuery::default() }).await?;
    let now_ms = dashboard.service.now();
    Ok(Page { title: "Alerts", here: "/alerts", visitor }.with(html! {
        h1 { "Alerts" }
        (flash(&feedback.did))
        @if let Some(secret) = &feedback.secret {
            div.notice.flash role="status" {
                p { "The rule was added. Its receiver verifies signatures with this secret, which is shown only once:" }
                pre #secret { code { (secret) } }
            }
        }
        div.columns.even {
            div {
                section.card aria-labelledby="rules" {
                    h2 #rules { "Rules" }
                    div #rule-list data-live { (list(&rules, visitor)) }
                }
                section.card aria-labelledby="history" {
                    h2 #history { "Delivery history" }
                    div #deliveries data-live { (deliveries(&history, &rules, now_ms)) }
                }
            }
            @if visitor.who.may_change() { (rule_form(feedback, dashboard.alerts.has_mail(), visitor)) }
        }
    }))
}

fn flash(did: &str) -> Markup {
    let (class, message) = match did {
        "added" => ("notice flash", "The rule was added."),
        "arrived" => ("notice flash", "The test notice arrived."),
        "failed" => ("notice bad", "The test notice did not arrive. The delivery history below shows the reason."),
        "changed" => ("notice flash", "The rule was changed."),
        "deleted" => ("notice flash", "The rule was deleted."),
        _ => return html! {},
    };
    html! { p class=(class) role="status" { (message) } }
}

fn list(rules: &[AlertRule], visitor: &Visitor) -> Markup {
    if rules.is_empty() {
        return html! { p.empty { "No alert is configured. You will only see kills on this dashboard." } };
    }
    html! { ul.rules { @for rule in rules { li.rule {
        div.what {
            strong { bdi { (if rule.name.is_empty() { rule.channel.as_str() } else { &rule.name }) } }
            span.kind { (rule.channel.as_str()) }
            @if !rule.enabled { span.badge.inactive { "○ Off" } }
            p.id { bdi { (masked(rule.channel, &rule.target)) } }
            p.faint {
                @match &rule.agent_id { Some(id) => { "agent " bdi { (id) } } None => { "all agents" } }
                " · cooldown " (rule.cooldown_seconds) " s" @if rule.recovery { " · recovery notice" }
            }
            @if !rule.disabled_reason.is_empty() { p.over { "Switched off: " bdi { (rule.disabled_reason) } } }
        }
        @if visitor.who.may_change() {
            div.buttons {
                (button(rule, visitor, "test", "Send test"))
                (button(rule, visitor, "switch", if rule.enabled { "Switch off" } else { "Switch on" }))
                (button(rule, visitor, "delete", "Delete"))
            }
        }
    } } } }
}

fn button(rule: &AlertRule, visitor: &Visitor, act: &str, text: &str) -> Markup {
    let class = if act == "delete" { "quiet danger" } else { "quiet" };
    html! {
        form method="post" action={ "/alerts/" (rule.rule_id) "/" (act) } {
            (form_key(visitor))
            @if act == "switch" { input type="hidden" name="enabled" value=(!rule.enabled); }
            button class=(class) type="submit" { (text) }
        }
    }
}

const CHANNELS: [(Channel, &str); 6] = [
    (Channel::Webhook, "Webhook, signed (Standard Webhooks)"),
    (Channel::Slack, "Slack-compatible webhook"),
    (Channel::Teams, "Microsoft Teams (Workflows webhook)"),
    (Channel::PagerDuty, "PagerDuty (Events API v2)"),
    (Channel::Runtime, "Stop the agent's own runtime (signed POST)"),
    (Channel::Email, "Email"),
];

/// Returns the default contents of the form. An empty id stands for all agents.
fn new_rule(agent_id: &str) -> Fields {
    Fields::filled([
        ("agent_id", agent_id.to_owned()),
        ("cooldown_seconds", DEFAULT_COOLDOWN_SECONDS.to_string()),
        ("recovery", "on".to_owned()),
    ])
}

fn rule_form(feedback: &AlertFeedback, has_mail: bool, visitor: &Visitor) -> Markup {
    let default_form = new_rule("");
    let form = feedback.form.as_ref().unwrap_or(&default_form);
    let text = |name: &str| form.text(name);
    html! {
        section.card #new aria-labelledby="make" {
            h2 #make { "New alert rule" }
            form.stack method="post" action="/alerts" {
                (form_key(visitor))
                @if let Some(detail) = &feedback.refused { p.notice.bad role="alert" { (detail) } }
                div.field {
                    label for="name" { "Name" }
                    input #name type="text" name="name" maxlength="200" value=(text("name")) placeholder="On call";
                }
                div.field {
                    label for="channel" { "Channel" }
                    select #channel name="channel" {
                        @for (channel, label) in CHANNELS {
                            option value=(channel.as_str()) selected[text("channel") == channel.as_str()]
                                disabled[channel == Channel::Email && !has_mail] { (label) }
                        }
                    }
                    @if !has_mail {
                        p.hint { "To send email, start the sidecar with " code { "--smtp-url" } "." }
                    }
                }
                div.field {
                    label for="target" { "URL, integration key or email addresses" }
                    input #target type="text" name="target" required value=(text("target"))
                        placeholder="https://example.com/hooks/kill-switch";
                    p.hint {
                        "For PagerDuty the integration key of an Events API v2 integration; otherwise an https URL."
                    }
                }
                div.field {
                    label for="agent_id" { "Agent" }
                    input #agent_id type="text" name="agent_id" value=(text("agent_id")) placeholder="all agents"
                        aria-describedby="agent_hint";
                    p.hint #agent_hint { "Leave empty for all agents." }
                }
                div.field {
                    label for="cooldown_seconds" { "Cooldown (seconds)" }
                    input #cooldown_seconds type="number" name="cooldown_seconds" min="0" max=(MAX_COOLDOWN_SECONDS)
                        step="1" value=(text("cooldown_seconds")) aria-describedby="cooldown_hint";
                    p.hint #cooldown_hint {
                        "After a notice about an agent, notices of the same kind are held back for this time."
                    }
                }
                label.check {
                    input type="checkbox" name="recovery" checked[form.is_on("recovery")];
                    " Also notify when the agent is activated again"
                }
                div.buttons { button.primary type="submit" { "Add rule" } }
            }
        }
    }
}

/// Returns the name of a rule. A rule without a name is called by its channel.
fn title<'a>(rules: &'a [AlertRule], rule_id: &str) -> &'a str {
    match rules.iter().find(|rule| rule.rule_id == rule_id) {
        None => "deleted rule",
        Some(rule) if rule.name.is_empty() => rule.channel.as_str(),
        Some(rule) => &rule.name,
    }
}

fn deliveries(history: &[Delivery], rules: &[AlertRule], now_ms: Millis) -> Markup {
    if history.is_empty() {
        return html! { p.empty.faint { "No notice has been sent yet." } };
    }
    let rows = html! {
        @for one in history {
            tr {
                td { (ago(one.created_ms, now_ms)) }
                td {
                    span class={ "kind " (one.kind.as_str()) } { (one.kind.as_str()) }
                    @if one.scope == Scope::Session { " conversation of" }
                    @if !one.agent_id.is_empty() {
                        " " a href=(agent_path(&one.agent_id)) { bdi { (one.agent_id) } }
                    }
                }
                td data-label="To" { bdi { (title(rules, &one.rule_id)) } span.faint { " " (one.channel.as_str()) } }
                td { (outcome(one, now_ms)) }
                td.numbers data-label="Attempts" { (one.attempts) }
                @if let Some(ms) = one.last_latency_ms { td.numbers data-label="Latency" { (ms) " ms" } } @else { td {} }
            }
        }
    };
    table("list tight", &["When", "Notice", "To", "Outcome", "Attempts", "Latency"], rows)
}

fn outcome(delivery: &Delivery, now_ms: Millis) -> Markup {
    let (class, text) = match delivery.status {
        DeliveryStatus::Delivered => ("badge active", "✓ Delivered"),
        DeliveryStatus::Pending => ("badge waiting", "… Pending"),
        DeliveryStatus::GivenUp => ("badge killed", "✕ Given up"),
        DeliveryStatus::HeldBack => ("badge inactive", "– Held back"),
    };
    html! {
        span class=(class) { (text) }
        @if let Some(code) = delivery.last_code { span.faint { " " (code) } }
        @if !delivery.last_error.is_empty() { p.faint { bdi { (delivery.last_error) } } }
        @if delivery.status == DeliveryStatus::Pending && delivery.attempts > 0 {
            p.faint { "last attempt " (ago_or(delivery.last_attempt_ms, now_ms, "never")) }
        }
    }
}

pub(super) async fn create(State(dashboard): State<Dashboard>, form: Form) -> Result<Response> {
    let Form { visitor, fields } = form;
    let body = object([
        ("name", json!(fields.text("name"))),
        ("channel", json!(fields.text("channel"))),
        ("target", json!(fields.text("target"))),
        ("agent_id", json!(fields.given("agent_id"))),
        ("cooldown_seconds", fields.value("cooldown_seconds")),
        ("recovery", json!(fields.is_on("recovery"))),
    ]);
    let made = match RuleChange::parse(&body) {
        Ok(change) => dashboard.alerts.create_rule(change, &visitor.who).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(made) if made.secret.is_none() => Ok(Redirect::to("/alerts?did=added").into_response()),
        // Not a redirect: the secret must not be kept anywhere, least of all in an address.
        Ok(made) => {
            let feedback = AlertFeedback { secret: made.secret, ..AlertFeedback::default() };
            Ok(render(&dashboard, &visitor, &feedback).await?.into_response())
        }
        Err(error) => {
            let status = status(&error);
            let Error::Invalid { detail, .. } = error else { return Err(error.into()) };
            let feedback = AlertFeedback { form: Some(fields), refused: Some(detail), ..AlertFeedback::default() };
            Ok((status, render(&dashboard, &visitor, &feedback).await?).into_response())
        }
    }
}

/// Shows the rules when somebody reloads the address of one of their forms.
pub(super) async fn reloaded() -> Redirect {
    Redirect::to("/alerts")
}

pub(super) async fn test(State(dashboard): State<Dashboard>, Path(id): Path<String>, _: Form) -> Result<Redirect> {
    let delivery = dashboard.alerts.test(&id).await?;
    let did = if delivery.status == DeliveryStatus::Delivered { "arrived" } else { "failed" };
    Ok(Redirect::to(&format!("/alerts?did={did}")))
}

pub(super) async fn switch(State(dashboard): State<Dashboard>, Path(id): Path<String>, form: Form) -> Result<Redirect> {
    let body = object([("enabled", json!(form.fields.is_on("enabled")))]);
    dashboard.alerts.change_rule(&id, RuleChange::parse(&body)?, &form.visitor.who).await?;
    Ok(Redirect::to("/alerts?did=changed"))
}

pub(super) async fn delete(State(dashboard): State<Dashboard>, Path(id): Path<String>, form: Form) -> Result<Redirect> {
    dashboard.service.delete_alert_rule(&id, &form.visitor.who).await?;
    Ok(Redirect::to("/alerts?did=deleted"))
}
