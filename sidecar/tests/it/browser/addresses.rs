//! Addresses that a person types: each is a page, or leads to the login.

use reqwest::Client;
use reqwest::redirect::Policy;

use super::{Browser, Script};
use crate::support::{OPERATOR, Sidecar};

#[tokio::test]
async fn every_address_that_a_person_can_guess_is_a_page_or_leads_to_the_login() {
    let sidecar = Sidecar::guarding("a").await;
    let Some(browser) = Browser::open(&sidecar.api.base, Script::On).await else { return };
    for path in ["/agents/", "/dashboard", "/v1", "/bulk/deactivate", "/agents/a/activate", "/agents"] {
        browser.goto(path).await;
        assert_eq!(browser.path().await, "/login", "{path}");
    }
    browser.fill("#secret", OPERATOR).await;
    browser.press("Sign in").await;
    assert_eq!(browser.path().await, "/agents", "the page that was asked for");
    browser.find("#row-a").await;
    let forms = ["/bulk/undo", "/pause", "/agents/a/deactivate", "/agents/a/sessions/1/resume", "/alerts/x/test"];
    let pages = ["/agents", "/", "/agents/a", "/agents/a", "/alerts"];
    for (typed, led_to) in forms.into_iter().zip(pages).chain([("/agents/", "/agents"), ("/agents/a/", "/agents/a")]) {
        browser.goto(typed).await;
        assert_eq!(browser.path().await, led_to, "{typed}");
        assert!(browser.has("header.top").await, "{typed}");
    }
    for (path, text) in [
        ("/dashboard", "There is no page at this address"),
        ("/v1/nothing", "There is no page at this address"),
        ("/agents/unknown", "unknown"),
        ("/v1/agents", "an Authorization header with a bearer token is needed"),
        ("/metrics", "belongs to the API"),
    ] {
        browser.goto(path).await;
        assert!(browser.text("main").await.contains(text), "{path}");
        assert!(browser.has("main a[href='/']").await, "{path} has a way back");
    }
}

#[tokio::test]
async fn errors_are_pages_for_browsers_and_problem_details_for_programs() {
    let sidecar = Sidecar::start().await;
    let http = Client::builder().redirect(Policy::none()).build().unwrap();
    let html = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";
    for (path, accept, token, status, content_type) in [
        ("/v1/agents", html, "", 401, "text/html; charset=utf-8"),
        ("/v1/agents", "*/*", "", 401, "application/problem+json"),
        ("/v1/agents/unknown", html, OPERATOR, 404, "application/problem+json"),
        ("/unknown", html, "", 303, ""),
        ("//example.com/", html, "", 303, ""),
        ("/unknown", "application/json", "", 401, "application/problem+json"),
        ("/unknown", html, OPERATOR, 404, "application/problem+json"),
    ] {
        let mut request = http.get(format!("{}{path}", sidecar.api.base)).header("accept", accept);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.unwrap();
        let header = |name: &str| answer.headers().get(name).map_or("", |value| value.to_str().unwrap());
        assert_eq!((answer.status().as_u16(), header("content-type")), (status, content_type), "{path} {accept}");
        assert!(status != 303 || header("location").starts_with("/login?next="), "{path}");
        assert!(!header("x-kill-switch").is_empty(), "{path}");
        let is_page = content_type.starts_with("text/html");
        assert_eq!(header("content-security-policy").is_empty(), !is_page && status != 303, "{path} {accept}");
    }
}
