//! Who is told, how, and whether it arrived.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::Dashboard;
use super::error::{Result, status};
use super::form::{Fields, Form};
use super::layout::{Page, key};
use super::query::{Query, agent_path};
use super::show::{ago, ago_or};
use super::visitor::Visitor;
use crate::alerts::masked;
use crate::model::{AlertRule, Channel, Delivery, DeliveryStatus, Millis};
use crate::service::{DEFAULT_COOLDOWN_SECONDS, Error, MAX_COOLDOWN_SECONDS, RuleChange};
use crate::store::DeliveryQuery;

const HISTORY: u32 = 50;

/// What the page says beyond the rules.
#[derive(Default)]
struct Shown {
    /// What was typed into the form.
    fields: Fields,
    refused: Option<String>,
    /// Shown once.
    secret: Option<String>,
    did: String,
    agent_id: String,
}

pub(super) async fn page(State(dashboard): State<Dashboard>, visitor: Visitor, params: Query) -> Result<Markup> {
    let (did, agent_id) = (params.text("did").to_owned(), params.text("agent_id").to_owned());
    render(&dashboard, &visitor, Shown { did, agent_id, ..Shown::default() }).await
}

async fn render(dashboard: &Dashboard, visitor: &Visitor, shown: Shown) -> Result<Markup> {
    let rules = dashboard.service.alert_rules().await?;
    let history = dashboard.service.deliveries(&DeliveryQuery { limit: HISTORY, ..DeliveryQuery::default() }).await?;
    let now_ms = dashboard.service.now();
    let may = visitor.who.may_change();
    Ok(Page { title: "Alerts", here: "/alerts", visitor }.with(html! {
        h1 { "Alerts" }
        (did(&shown.did))
        @if let Some(secret) = &shown.secret {
            div.notice.flash role="status" {
                p { "The rule was made. Its receiver verifies signatures with this secret, which is shown once:" }
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
            @if may { (new(&shown, dashboard.alerts.has_mail(), visitor)) }
        }
    }))
}

fn did(word: &str) -> Markup {
    let (class, words) = match word {
        "made" => ("notice flash", "The rule was made."),
        "arrived" => ("notice flash", "The test notice arrived."),
        "failed" => ("notice bad", "The test notice did not arrive: see the history below for the reason."),
        "changed" => ("notice flash", "The rule was changed."),
        "deleted" => ("notice flash", "The rule was deleted."),
        _ => return html! {},
    };
    html! { p class=(class) role="status" { (words) } }
}

fn list(rules: &[AlertRule], visitor: &Visitor) -> Markup {
    if rules.is_empty() {
        return html! { p.empty { "No alert is configured: a kill shows up on this dashboard and nowhere else." } };
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
            @if !rule.disabled_reason.is_empty() { p.over { "Switched off: " (rule.disabled_reason) } }
        }
        @if visitor.who.may_change() {
            div.buttons {
                (button(rule, visitor, "test", "Send test", "quiet"))
                (button(rule, visitor, "switch", if rule.enabled { "Switch off" } else { "Switch on" }, "quiet"))
                (button(rule, visitor, "delete", "Delete", "quiet danger"))
            }
        }
    } } } }
}

fn button(rule: &AlertRule, visitor: &Visitor, act: &str, text: &str, class: &str) -> Markup {
    html! {
        form method="post" action={ "/alerts/" (rule.rule_id) "/" (act) } {
            (key(visitor))
            @if act == "switch" { input type="hidden" name="enabled" value=(!rule.enabled); }
            button class=(class) type="submit" { (text) }
        }
    }
}

const CHANNELS: [(Channel, &str); 3] = [
    (Channel::Webhook, "Webhook, signed (Standard Webhooks)"),
    (Channel::Slack, "Slack-compatible webhook"),
    (Channel::Email, "Email"),
];

fn new(shown: &Shown, has_mail: bool, visitor: &Visitor) -> Markup {
    let typed = |name: &str| shown.fields.text(name);
    let is_first = shown.refused.is_none();
    let agent_id = if is_first { shown.agent_id.as_str() } else { typed("agent_id") };
    let cooldown = if is_first { DEFAULT_COOLDOWN_SECONDS.to_string() } else { typed("cooldown_seconds").to_owned() };
    html! {
        section.card #new aria-labelledby="make" {
            h2 #make { "New alert rule" }
            form.stack method="post" action="/alerts" {
                (key(visitor))
                @if let Some(refused) = &shown.refused {
                    p.notice.bad role="alert" { (refused) }
                }
                div.field {
                    label for="name" { "Name" }
                    input #name type="text" name="name" maxlength="200" value=(typed("name")) placeholder="On call";
                }
                div.field {
                    label for="channel" { "Channel" }
                    select #channel name="channel" {
                        @for (channel, text) in CHANNELS {
                            option value=(channel.as_str()) selected[typed("channel") == channel.as_str()]
                                disabled[channel == Channel::Email && !has_mail] { (text) }
                        }
                    }
                    @if !has_mail {
                        p.hint { "Email needs the sidecar to be started with " code { "--smtp-url" } "." }
                    }
                }
                div.field {
                    label for="target" { "URL or mail addresses" }
                    input #target type="text" name="target" required value=(typed("target"))
                        placeholder="https://example.com/hooks/kill-switch";
                }
                div.field {
                    label for="agent_id" { "Agent" }
                    input #agent_id type="text" name="agent_id" value=(agent_id) placeholder="all agents"
                        aria-describedby="agent_hint";
                    p.hint #agent_hint { "Empty: every agent." }
                }
                div.field {
                    label for="cooldown_seconds" { "Cooldown (seconds)" }
                    input #cooldown_seconds type="number" name="cooldown_seconds" min="0" max=(MAX_COOLDOWN_SECONDS)
                        step="1" value=(cooldown) aria-describedby="cooldown_hint";
                    p.hint #cooldown_hint {
                        "After a notice about an agent, further ones of its kind are held back for so long."
                    }
                }
                label.check {
                    input type="checkbox" name="recovery" checked[is_first || shown.fields.is_on("recovery")];
                    " Tell when the agent is activated again"
                }
                div.buttons { button.primary type="submit" { "Add rule" } }
            }
        }
    }
}

/// What people call a rule.
fn title<'a>(rules: &'a [AlertRule], rule_id: &str) -> &'a str {
    match rules.iter().find(|rule| rule.rule_id == rule_id) {
        None => "deleted rule",
        Some(rule) if rule.name.is_empty() => rule.channel.as_str(),
        Some(rule) => &rule.name,
    }
}

fn deliveries(history: &[Delivery], rules: &[AlertRule], now_ms: Millis) -> Markup {
    if history.is_empty() {
        return html! { p.empty.faint { "Nothing was sent yet." } };
    }
    html! {
        div.scroll {
            table.list.tight {
                thead {
                    tr {
                        @for heading in ["When", "Notice", "To", "Outcome", "Tries", "Latency"] {
                            th scope="col" { (heading) }
                        }
                    }
                }
                tbody {
                    @for one in history {
                        tr {
                            td { (ago(one.created_ms, now_ms)) }
                            td {
                                span class={ "kind " (one.kind.as_str()) } { (one.kind.as_str()) }
                                @if !one.agent_id.is_empty() {
                                    " " a href=(agent_path(&one.agent_id)) { bdi { (one.agent_id) } }
                                }
                            }
                            td { bdi { (title(rules, &one.rule_id)) } span.faint { " " (one.channel.as_str()) } }
                            td { (outcome(one, now_ms)) }
                            td.numbers { (one.attempts) }
                            td.numbers { @if let Some(ms) = one.last_latency_ms { (ms) " ms" } }
                        }
                    }
                }
            }
        }
    }
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
            p.faint { "last try " (ago_or(delivery.last_attempt_ms, now_ms, "never")) }
        }
    }
}

pub(super) async fn create(State(dashboard): State<Dashboard>, form: Form) -> Result<Response> {
    let fields = &form.fields;
    let mut body = Map::new();
    for name in ["name", "channel", "target"] {
        body.insert(name.to_owned(), json!(fields.text(name)));
    }
    let agent_id = fields.text("agent_id");
    body.insert("agent_id".to_owned(), if agent_id.is_empty() { Value::Null } else { json!(agent_id) });
    let cooldown = fields.text("cooldown_seconds").parse::<u64>();
    body.insert(
        "cooldown_seconds".to_owned(),
        cooldown.map_or_else(|_| json!(fields.text("cooldown_seconds")), |seconds| json!(seconds)),
    );
    body.insert("recovery".to_owned(), json!(fields.is_on("recovery")));
    let made = match RuleChange::parse(&body) {
        Ok(change) => dashboard.alerts.create_rule(change).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(made) if made.secret.is_none() => Ok(Redirect::to("/alerts?did=made").into_response()),
        // Not a redirect: the secret must not be kept anywhere, least of all in an address.
        Ok(made) => Ok(render(&dashboard, &form.visitor, Shown { secret: made.secret, ..Shown::default() })
            .await?
            .into_response()),
        Err(error) => {
            let status = status(&error);
            let Error::Invalid { detail, .. } = error else { return Err(error.into()) };
            let shown = Shown { refused: Some(detail), fields: form.fields, ..Shown::default() };
            Ok((status, render(&dashboard, &form.visitor, shown).await?).into_response())
        }
    }
}

pub(super) async fn test(State(dashboard): State<Dashboard>, Path(rule_id): Path<String>, _: Form) -> Result<Redirect> {
    let went = dashboard.alerts.test(&rule_id).await?;
    let did = if went.status == DeliveryStatus::Delivered { "arrived" } else { "failed" };
    Ok(Redirect::to(&format!("/alerts?did={did}")))
}

pub(super) async fn switch(
    State(dashboard): State<Dashboard>,
    Path(rule_id): Path<String>,
    form: Form,
) -> Result<Redirect> {
    let mut body = Map::new();
    body.insert("enabled".to_owned(), json!(form.fields.is_on("enabled")));
    dashboard.alerts.change_rule(&rule_id, RuleChange::parse(&body)?).await?;
    Ok(Redirect::to("/alerts?did=changed"))
}

pub(super) async fn delete(
    State(dashboard): State<Dashboard>,
    Path(rule_id): Path<String>,
    _: Form,
) -> Result<Redirect> {
    dashboard.service.delete_alert_rule(&rule_id).await?;
    Ok(Redirect::to("/alerts?did=deleted"))
}
