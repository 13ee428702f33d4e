//! The pause of the whole fleet: the banner on every page while it lasts, and the form that begins it.

use axum::extract::State;
use axum::response::Redirect;
use maud::{Markup, html};
use serde_json::json;

use super::Dashboard;
use super::agents::note;
use super::error::Result;
use super::form::Form;
use super::layout::form_key;
use super::login::local;
use super::query::object;
use super::show::clock;
use super::visitor::Visitor;
use crate::model::PauseCause;
use crate::service::PauseRequest;

/// The lengths that the form offers, in seconds.
const LENGTHS: [(u32, &str); 5] =
    [(900, "15 minutes"), (3_600, "1 hour"), (14_400, "4 hours"), (86_400, "1 day"), (604_800, "7 days")];

/// Shows that the fleet is paused, by whom, why and until when, and the button that ends it.
pub(super) fn banner(visitor: &Visitor) -> Markup {
    let Some(pause) = &visitor.pause else { return html! {} };
    html! {
        section.pause-banner role="alert" aria-label="The kill switch is paused" {
            div.wrap {
                div {
                    strong { "The kill switch is paused" }
                    @if pause.cause == PauseCause::Storm { " by a storm of kills" }
                    " until " (clock(pause.until_ms)) ". Loops are recorded, and nothing is stopped."
                    p.hint {
                        "By " bdi { (pause.who()) } " since " (clock(pause.since_ms))
                        @if !pause.reason.is_empty() { ": " bdi { (pause.reason) } }
                    }
                }
                @if visitor.who.may_change() {
                    form.inline method="post" action="/resume" {
                        (form_key(visitor))
                        input type="hidden" name="next" value=(visitor.here);
                        button.primary type="submit" { "Resume" }
                    }
                }
            }
        }
    }
}

/// Shows the form that pauses the fleet, unless it is paused or the visitor may not do that.
pub(super) fn form(visitor: &Visitor) -> Markup {
    html! {
        @if visitor.pause.is_none() && visitor.who.may_change() {
            details.pause {
                summary { "Pause the kill switch" }
                form.card.inline.wide method="post" action="/pause" {
                    (form_key(visitor))
                    input type="hidden" name="next" value=(visitor.here);
                    label for="for_seconds" { "For" }
                    select #for_seconds name="for_seconds" {
                        @for (seconds, label) in LENGTHS {
                            option value=(seconds) selected[seconds == 3_600] { (label) }
                        }
                    }
                    label for="pause_reason" { "Reason" }
                    input #pause_reason type="text" name="reason" maxlength="1000" placeholder="Why is it paused?";
                    button.danger type="submit" { "Pause" }
                    p.hint { "Nothing is stopped at any Envoy for this time. Agents that are inactive stay inactive." }
                }
            }
        }
    }
}

pub(super) async fn pause(State(dashboard): State<Dashboard>, form: Form) -> Result<Redirect> {
    let body =
        object([("for_seconds", form.fields.value("for_seconds")), ("reason", json!(form.fields.text("reason")))]);
    dashboard.service.start_pause(&PauseRequest::parse(&body)?, &form.visitor.who).await?;
    Ok(Redirect::to(local(form.fields.text("next"))))
}

pub(super) async fn resume(State(dashboard): State<Dashboard>, form: Form) -> Result<Redirect> {
    dashboard.service.end_pause(&note(form.fields.text("reason"))?, &form.visitor.who).await?;
    Ok(Redirect::to(local(form.fields.text("next"))))
}
