//! Signing in with the password or a token, and out again.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use tokio::time::Instant;

use super::error::{Refusal, Result};
use super::form::{Fields, read};
use super::query::Query;
use super::visitor::cookie;
use super::{Dashboard, layout};

/// A week, like the session behind it.
const SESSION_SECONDS: u64 = 7 * 24 * 3600;
/// Long enough to find a password.
const LOGIN_SECONDS: u64 = 3_600;

pub(super) async fn page(State(dashboard): State<Dashboard>, headers: HeaderMap, query: Query) -> Result<Response> {
    show(&dashboard, &headers, query.text("next"), None)
}

fn show(dashboard: &Dashboard, headers: &HeaderMap, next: &str, refused: Option<&str>) -> Result<Response> {
    // The form is bound to a cookie of its own: signing somebody in as somebody else is a forgery too.
    let name = dashboard.login_cookie();
    let kept = cookie(headers, name).filter(|value| value.len() == 32);
    let value = match kept {
        Some(value) => value.to_owned(),
        None => dashboard.service.random_id()?,
    };
    let page = layout::bare("Sign in", form(&dashboard.service.form_key(&value), next, refused));
    let status = if refused.is_some() { StatusCode::UNAUTHORIZED } else { StatusCode::OK };
    let set = [(header::SET_COOKIE, dashboard.set_cookie(name, &value, LOGIN_SECONDS))];
    Ok((status, set, page).into_response())
}

fn form(key: &str, next: &str, refused: Option<&str>) -> Markup {
    html! {
        h1 { "Agent Kill Switch" }
        @if let Some(refused) = refused {
            p.notice.bad role="alert" { (refused) }
        }
        form.card.stack method="post" action="/login" {
            input type="hidden" name="form_key" value=(key);
            input type="hidden" name="next" value=(next);
            label for="secret" { "Password or token" }
            input #secret type="password" name="secret" autocomplete="current-password" required autofocus;
            button.primary type="submit" { "Sign in" }
            p.hint {
                "The password was printed when the sidecar first started. A viewer's or operator's token works too."
            }
        }
    }
}

pub(super) async fn sign_in(State(dashboard): State<Dashboard>, request: Request) -> Result<Response> {
    let headers = request.headers().clone();
    let from = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let from = from.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let fields: Fields = read(request).await?;
    let key = cookie(&headers, dashboard.login_cookie()).map(|value| dashboard.service.form_key(value));
    if !key.is_some_and(|key| fields.has_key(&key)) {
        return Err(Refusal::Forged);
    }
    // Looked at before the password is: guessing must not be free.
    if let Some(seconds) = dashboard.failures.wait_seconds(from, Instant::now()) {
        return Err(Refusal::TooMany(seconds));
    }
    let Some(session) = dashboard.service.sign_in(fields.text("secret")).await? else {
        metrics::counter!("kill_switch_auth_failures_total").increment(1);
        dashboard.failures.record(from, Instant::now());
        tracing::warn!(%from, "signing in failed");
        return show(
            &dashboard,
            &headers,
            fields.text("next"),
            Some("That is neither the password nor a valid token."),
        );
    };
    let set = [(header::SET_COOKIE, dashboard.set_cookie(dashboard.session_cookie(), &session, SESSION_SECONDS))];
    Ok((set, Redirect::to(local(fields.text("next")))).into_response())
}

/// Where to go after signing in: somewhere on this site, whatever the form says.
fn local(next: &str) -> &str {
    let is_local = next.starts_with('/') && !next.starts_with("//") && !next.contains('\\');
    if is_local && !next.chars().any(char::is_control) { next } else { "/" }
}

pub(super) async fn sign_out(State(dashboard): State<Dashboard>, request: Request) -> Result<Response> {
    let (mut parts, body) = request.into_parts();
    use axum::extract::FromRequestParts as _;
    let visitor = super::visitor::Visitor::from_request_parts(&mut parts, &dashboard).await?;
    if !read(Request::from_parts(parts, body)).await?.has_key(&visitor.form_key) {
        return Err(Refusal::Forged);
    }
    dashboard.service.sign_out(&visitor.cookie).await?;
    let set = [(header::SET_COOKIE, dashboard.set_cookie(dashboard.session_cookie(), "", 0))];
    Ok((set, Redirect::to("/login")).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_in_leads_nowhere_else() {
        for (next, to) in [
            ("/agents/a?b=c", "/agents/a?b=c"),
            ("", "/"),
            ("//evil.example", "/"),
            ("https://evil.example", "/"),
            ("/\\evil.example", "/"),
            ("javascript:alert(1)", "/"),
            ("/a\r\nset-cookie: x", "/"),
        ] {
            assert_eq!(local(next), to, "{next:?}");
        }
    }
}
