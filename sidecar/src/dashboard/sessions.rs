//! The stopped conversations of an agent, and the form that lets one go on.

use axum::extract::{Path, State};
use axum::response::{Redirect, Response};
use maud::{Markup, html};

use super::Dashboard;
use super::agent::back_from;
use super::agents::note;
use super::error::Result;
use super::form::Form;
use super::layout::form_key;
use super::query::agent_path;
use super::show::{ago, clock, table};
use super::visitor::Visitor;
use crate::model::{Millis, SessionStop, session_name};

/// Shows the conversations of an agent that are stopped now.
pub(super) fn card(stops: &[SessionStop], visitor: &Visitor, now_ms: Millis) -> Markup {
    html! {
        section.card aria-labelledby="stopped" {
            h2 #stopped { "Stopped conversations" }
            p.hint { "Calls of these conversations are refused. The agent's other conversations are not affected." }
            (table("list tight", &["Conversation", "Why", "Since", "Until", "Action"], rows(stops, visitor, now_ms)))
        }
    }
}

fn rows(stops: &[SessionStop], visitor: &Visitor, now_ms: Millis) -> Markup {
    html! {
        @for stop in stops {
            tr id={ "session-" (stop.session_key) } {
                td.why { bdi { (session_name(stop.session_id.as_deref(), &stop.session_key)) } }
                td.why { bdi { (stop.reason) } }
                td data-label="Since" { (ago(stop.stopped_ms, now_ms)) }
                td.numbers data-label="Until" { (clock(stop.until_ms)) }
                td { @if visitor.who.may_change() { (resume_form(stop, visitor)) } }
            }
        }
    }
}

fn resume_form(stop: &SessionStop, visitor: &Visitor) -> Markup {
    let field = format!("why-{}", stop.session_key);
    html! {
        form.inline method="post" action={ (agent_path(&stop.agent_id)) "/sessions/" (stop.session_key) "/resume" } {
            (form_key(visitor))
            label.sr for=(field) { "Reason" }
            input id=(field) type="text" name="reason" maxlength="1000" placeholder="What was fixed?";
            button type="submit" { "Let it go on" }
        }
    }
}

/// Shows the agent's page when somebody reloads the address of the form.
pub(super) async fn reloaded(Path((id, _)): Path<(String, String)>) -> Redirect {
    Redirect::to(&agent_path(&id))
}

pub(super) async fn resume(
    State(dashboard): State<Dashboard>,
    Path((id, session_key)): Path<(String, String)>,
    form: Form,
) -> Result<Response> {
    let note = note(form.fields.text("reason"))?;
    dashboard.service.resume_session(&id, &session_key, &note, &form.visitor.caller()).await?;
    Ok(back_from(&form.fields, &id, "resumed"))
}
