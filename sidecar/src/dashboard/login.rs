//! Signing in with the password or a token, and signing out.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use tokio::time::Instant;

use super::error::{Refusal, Result};
use super::form::{Form, of_stranger};
use super::query::Fields;
use super::visitor::cookie;
use super::{Dashboard, layout};
use crate::api::failures::client_address;

/// How long the session cookie is kept: a week, like the session itself.
const SESSION_SECONDS: i64 = 7 * 24 * 3600;
/// How long the sign-in form stays valid.
const LOGIN_SECONDS: i64 = 3_600;
/// The longest address that the sign-in form leads back to. A longer one would take up the bytes that the form may have.
const MAX_NEXT: usize = 1_000;

pub(super) async fn page(State(dashboard): State<Dashboard>, headers: HeaderMap, query: Fields) -> Result<Response> {
    show(&dashboard, &headers, query.text("next"), None)
}

fn show(dashboard: &Dashboard, headers: &HeaderMap, next: &str, refused: Option<&str>) -> Result<Response> {
    // The form key is bound to a cookie of its own, so that another site cannot sign somebody in as somebody else.
    let name = dashboard.login_cookie();
    let value = match cookie(headers, name).filter(|value| value.len() == 32) {
        Some(value) => value,
        None => dashboard.service.random_id()?,
    };
    let page = layout::bare("Sign in", form(&dashboard.service.form_key(&value), next, refused));
    let status = if refused.is_some() { StatusCode::UNAUTHORIZED } else { StatusCode::OK };
    Ok((status, dashboard.set_cookie(name, &value, LOGIN_SECONDS), page).into_response())
}

fn form(form_key: &str, next: &str, refused: Option<&str>) -> Markup {
    let next = if next.len() > MAX_NEXT { "" } else { next };
    html! {
        h1 { "Agent Kill Switch" }
        @if let Some(refused) = refused {
            p.notice.bad role="alert" { (refused) }
        }
        form.card.stack method="post" action="/login" {
            input type="hidden" name="form_key" value=(form_key);
            input type="hidden" name="next" value=(next);
            label for="secret" { "Password or token" }
            input #secret type="password" name="secret" autocomplete="current-password" required autofocus;
            button.primary type="submit" { "Sign in" }
            p.hint {
                "The password was printed when the sidecar first started. You can also sign in with a viewer's or an operator's token."
            }
        }
    }
}

pub(super) async fn sign_in(State(dashboard): State<Dashboard>, request: Request) -> Result<Response> {
    let headers = request.headers().clone();
    let from = client_address(&request);
    let fields = of_stranger(request).await?;
    let form_key = cookie(&headers, dashboard.login_cookie()).map(|value| dashboard.service.form_key(&value));
    if !form_key.is_some_and(|form_key| fields.has_key(&form_key)) {
        return Err(Refusal::Forged);
    }
    let Some(session) = check(&dashboard, from, fields.text("secret")).await? else {
        metrics::counter!("kill_switch_auth_failures_total").increment(1);
        tracing::warn!(%from, "signing in failed");
        let refused = "That is neither the password nor a valid token.";
        return show(&dashboard, &headers, fields.text("next"), Some(refused));
    };
    if let Some(who) = dashboard.service.session(&session).await? {
        who.log("signed_in", &from.to_string());
    }
    let cookie = dashboard.set_cookie(dashboard.session_cookie(), &session, SESSION_SECONDS);
    Ok((cookie, Redirect::to(local(fields.text("next")))).into_response())
}

/// Returns the cookie of a new session, or `None` if the secret is wrong. A valid token is always accepted, because it
/// cannot be guessed. For passwords there is a limit.
async fn check(dashboard: &Dashboard, from: IpAddr, secret: &str) -> Result<Option<String>> {
    if let Some(session) = dashboard.service.sign_in_with_token(secret).await? {
        return Ok(Some(session));
    }
    // Counted before the password is checked, which takes a while: other guesses may arrive in the meantime.
    let now = Instant::now();
    if let Err(too_many) = dashboard.failures.count(from, now) {
        too_many.log(from);
        return Err(Refusal::TooMany(too_many.seconds));
    }
    let outcome = dashboard.service.sign_in_with_password(secret).await;
    if !matches!(outcome, Ok(None)) {
        dashboard.failures.take_back(from, now);
    }
    Ok(outcome?)
}

/// Returns the page to show after signing in or another form. Anything but a path of this site becomes the start page.
pub(super) fn local(next: &str) -> &str {
    let is_local = next.starts_with('/') && !next.starts_with("//") && !next.contains('\\');
    if is_local && !next.chars().any(char::is_control) { next } else { "/" }
}

pub(super) async fn sign_out(State(dashboard): State<Dashboard>, request: Request) -> Result<Response> {
    let form = Form::of_any_visitor(request, &dashboard).await?;
    if let Some(cookie) = &form.visitor.cookie {
        dashboard.service.sign_out(cookie).await?;
    }
    Ok((dashboard.set_cookie(dashboard.session_cookie(), "", 0), Redirect::to("/login")).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_in_leads_to_no_other_site() {
        for (next, expected) in [
            ("/agents/a?b=c", "/agents/a?b=c"),
            ("", "/"),
            ("//evil.example", "/"),
            ("https://evil.example", "/"),
            ("/\\evil.example", "/"),
            ("javascript:alert(1)", "/"),
            ("/a\r\nset-cookie: x", "/"),
        ] {
            assert_eq!(local(next), expected, "{next:?}");
        }
    }
}
