//! Pages for browsers where the API answers with problem details.
//!
//! Whatever a person types into the address bar is answered with a page: an address that does not exist leads to the login
//! or says so, and an error of the API is shown as a page with the same status. A client counts as a browser if it accepts
//! `text/html` and sends no token; all other clients get the API's own answer.

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};

use super::error::{self, Refused, Result};
use super::layout::{self, Page};
use super::login::local;
use super::people::{Person, admit};
use super::visitor::Visitor;
use super::{Dashboard, secured};
use crate::api::problem::Detail;

/// Answers a request, with a page if the client is a browser.
pub(super) async fn answer(State(dashboard): State<Dashboard>, mut request: Request, next: Next) -> Response {
    let admitted = match dashboard.trusted_users.as_deref() {
        Some(users) => admit(users, &dashboard.refused_names, &mut request),
        None => Ok(()),
    };
    // A proxy that names a person may also send a token of its own.
    let has_token = request.headers().contains_key(header::AUTHORIZATION);
    let is_person = request.extensions().get::<Person>().is_some();
    let is_browser = accepts_html(request.headers()) && (is_person || !has_token);
    let mut response = match admitted {
        Err(problem) => secured(problem.into_response()),
        Ok(()) if is_browser && request.extensions().get::<MatchedPath>().is_none() => {
            return secured(unknown(&dashboard, request).await.into_response());
        }
        Ok(()) => {
            let (parts, body) = request.into_parts();
            let asked = parts.clone();
            let response = next.run(Request::from_parts(parts, body)).await;
            framed(&dashboard, asked, response).await
        }
    };
    match response.extensions_mut().remove::<Detail>() {
        None => response,
        Some(_) if !is_browser => response,
        Some(Detail(detail)) => {
            let (status, retry_after) = (response.status(), response.headers().get(header::RETRY_AFTER).cloned());
            let mut shown = (status, problem(status, &detail)).into_response();
            shown.headers_mut().extend(retry_after.map(|seconds| (header::RETRY_AFTER, seconds)));
            secured(shown)
        }
    }
}

/// Gives a refusal the frame of the other pages, which says whether the fleet is paused, if the visitor is signed in.
async fn framed(dashboard: &Dashboard, mut asked: Parts, response: Response) -> Response {
    let Some(Refused(message)) = response.extensions().get::<Refused>().cloned() else { return response };
    let Ok(visitor) = Visitor::from_request_parts(&mut asked, dashboard).await else { return response };
    let page = Page { title: error::TITLE, here: "", visitor: &visitor }.with(error::content(&message));
    let (mut head, _) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, page.into_string().into())
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|value| value.split([',', ';'])).map(str::trim);
    types.any(|one| one.eq_ignore_ascii_case("text/html"))
}

/// Answers a request for an address that does not exist. Only visitors who are signed in learn that.
async fn unknown(dashboard: &Dashboard, request: Request) -> Result<Response> {
    let (mut parts, _) = request.into_parts();
    let visitor = Visitor::from_request_parts(&mut parts, dashboard).await?;
    let path = parts.uri.path();
    if let Some(without_slash) = path.strip_suffix('/') {
        return Ok(Redirect::to(local(without_slash)).into_response());
    }
    let page = Page { title: "No such page", here: "", visitor: &visitor }.with(html! {
        h1 { "There is no page at this address" }
        p { "The address " code { bdi { (path) } } " does not exist." }
        p { a href="/" { "Show the overview" } }
    });
    Ok((StatusCode::NOT_FOUND, page).into_response())
}

fn problem(status: StatusCode, detail: &str) -> Markup {
    let title = status.canonical_reason().unwrap_or("Error");
    layout::bare(
        title,
        html! {
            h1 { (title) }
            p.notice.bad role="alert" { (detail) }
            @if status == StatusCode::UNAUTHORIZED {
                p { "This address belongs to the API, for which programs use a token." }
            }
            p { a href="/" { "Open the dashboard" } }
        },
    )
}
