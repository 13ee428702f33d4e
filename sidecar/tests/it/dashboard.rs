//! The dashboard's door: sessions, forms, cookies, and what goes out of it. What people see is in `browser`.

use std::net::SocketAddr;
use std::sync::Arc;

use kill_switch::dashboard::{self, Dashboard};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::json;

use crate::support::{ENFORCER, OPERATOR, Sidecar, VIEWER, kill};

/// A browser without a screen: follows no redirect and keeps its own cookies.
struct Visitor {
    http: Client,
    base: String,
    cookies: String,
}

impl Visitor {
    fn at(base: &str) -> Self {
        let http = Client::builder().redirect(Policy::none()).build().unwrap();
        Self { http, base: base.to_owned(), cookies: String::new() }
    }

    async fn send(&mut self, request: RequestBuilder) -> Response {
        let response = request.header("cookie", &self.cookies).send().await.unwrap();
        for set in response.headers().get_all("set-cookie") {
            let pair = set.to_str().unwrap().split(';').next().unwrap();
            let name = pair.split('=').next().unwrap();
            let kept: Vec<_> = self
                .cookies
                .split("; ")
                .filter(|old| !old.is_empty() && !old.starts_with(&format!("{name}=")))
                .map(str::to_owned)
                .collect();
            self.cookies = [kept, vec![pair.to_owned()]].concat().join("; ");
        }
        response
    }

    async fn get(&mut self, path: &str) -> Response {
        let request = self.http.get(format!("{}{path}", self.base));
        self.send(request).await
    }

    async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Response {
        let pairs: Vec<_> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", value.replace('&', "%26").replace(' ', "+")))
            .collect();
        let request =
            self.http.post(format!("{}{path}", self.base)).header("content-type", "application/x-www-form-urlencoded");
        self.send(request.body(pairs.join("&"))).await
    }

    /// The key of the forms on a page.
    async fn key(&mut self, path: &str) -> String {
        let text = self.get(path).await.text().await.unwrap();
        let after =
            text.split("name=\"form_key\" value=\"").nth(1).unwrap_or_else(|| panic!("no form on {path}: {text}"));
        after.split('"').next().unwrap().to_owned()
    }

    async fn sign_in(&mut self, secret: &str) -> Response {
        let key = self.key("/login").await;
        self.post("/login", &[("form_key", &key), ("secret", secret)]).await
    }
}

#[tokio::test]
async fn every_page_wants_a_session_and_every_form_its_key() {
    let sidecar = Sidecar::start().await;
    sidecar.api.guarded("a").await;
    let mut visitor = Visitor::at(&sidecar.api.base);
    for path in ["/", "/agents/a", "/alerts", "/events", "/events/export", "/envoys"] {
        let answer = visitor.get(path).await;
        assert_eq!(answer.status(), 303, "{path}");
        assert!(answer.headers()["location"].to_str().unwrap().starts_with("/login?next="), "{path}");
    }
    assert_eq!(visitor.get("/live").await.status(), 401);
    assert_eq!(visitor.sign_in(OPERATOR).await.status(), 303);
    for path in ["/", "/agents/a", "/alerts", "/events", "/events/export", "/envoys"] {
        assert_eq!(visitor.get(path).await.status(), 200, "{path}");
    }
    let forms = [
        "/bulk/deactivate",
        "/bulk/undo",
        "/agents/a/kill-switch",
        "/agents/a/settings",
        "/agents/a/preview",
        "/agents/a/activate",
        "/agents/a/deactivate",
        "/alerts",
        "/alerts/x/test",
        "/alerts/x/switch",
        "/alerts/x/delete",
        "/logout",
    ];
    for path in forms {
        for fields in [&[][..], &[("form_key", "0123456789abcdef0123456789abcdef")][..]] {
            assert_eq!(visitor.post(path, fields).await.status(), 403, "{path} without its key");
        }
    }
    let key = visitor.key("/agents/a").await;
    let url = format!("{}/agents/a/deactivate", visitor.base);
    let forged = visitor.http.post(url).header("sec-fetch-site", "cross-site").body(format!("form_key={key}"));
    assert_eq!(visitor.send(forged).await.status(), 403, "even with the key, from elsewhere");
    assert_eq!(sidecar.api.agent("a").await["active"], true);
    assert_eq!(visitor.post("/agents/a/deactivate", &[("form_key", &key)]).await.status(), 303);
    assert_eq!(sidecar.api.agent("a").await["active"], false);
    // The sign-in form too: nobody is signed in as somebody else.
    let mut stranger = Visitor::at(&sidecar.api.base);
    assert_eq!(stranger.post("/login", &[("secret", OPERATOR)]).await.status(), 403);
}

#[tokio::test]
async fn pages_allow_nothing_that_is_not_theirs() {
    let sidecar = Sidecar::start().await;
    let mut visitor = Visitor::at(&sidecar.api.base);
    visitor.sign_in(OPERATOR).await;
    for path in ["/", "/login", "/alerts", "/assets/app.css", "/assets/app.js", "/favicon.ico", "/agents/missing"] {
        let answer = visitor.get(path).await;
        let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "form-action 'self'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(answer.headers().contains_key("x-kill-switch"), "{path}");
        let text = answer.text().await.unwrap();
        assert!(!text.contains(" style=\"") && !text.contains("<style") && !text.contains("onclick"), "{path}");
    }
}

#[tokio::test]
async fn a_session_ends_on_the_server_when_somebody_signs_out() {
    let sidecar = Sidecar::start().await;
    let mut visitor = Visitor::at(&sidecar.api.base);
    let signed_in = visitor.sign_in(OPERATOR).await;
    let set = signed_in.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(
        set.contains("HttpOnly") && set.contains("SameSite=Lax") && set.starts_with("kill_switch_session="),
        "{set}"
    );
    let kept = visitor.cookies.clone();
    let key = visitor.key("/").await;
    assert_eq!(visitor.post("/logout", &[("form_key", &key)]).await.status(), 303);
    visitor.cookies = kept;
    assert_eq!(visitor.get("/").await.status(), 303, "the old cookie means nothing");
}

#[tokio::test]
async fn a_session_ends_by_itself_after_a_week() {
    let sidecar = Sidecar::start().await;
    let mut visitor = Visitor::at(&sidecar.api.base);
    visitor.sign_in(OPERATOR).await;
    sidecar.pass(7 * 24 * 3600 - 1);
    assert_eq!(visitor.get("/").await.status(), 200);
    sidecar.pass(1);
    assert_eq!(visitor.get("/").await.status(), 303);
}

#[tokio::test]
async fn under_tls_the_cookie_is_pinned_to_its_host() {
    let sidecar = Sidecar::start().await;
    let pages = Dashboard::new(Arc::clone(&sidecar.service), Arc::clone(&sidecar.alerts), true);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut visitor = Visitor::at(&format!("http://{}", listener.local_addr().unwrap()));
    let app = dashboard::router(pages).into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await });
    let set = visitor.sign_in(OPERATOR).await.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(
        set.starts_with("__Host-kill_switch_session=") && set.contains("; Secure") && set.contains("Path=/;"),
        "{set}"
    );
    assert_eq!(visitor.get("/").await.status(), 200);
}

#[tokio::test]
async fn a_viewer_sees_everything_and_changes_nothing_and_a_filter_sees_nothing() {
    let sidecar = Sidecar::start().await;
    sidecar.api.guarded("a").await;
    let mut viewer = Visitor::at(&sidecar.api.base);
    assert_eq!(viewer.sign_in(VIEWER).await.status(), 303);
    let key = viewer.key("/agents/a").await;
    assert_eq!(viewer.post("/agents/a/deactivate", &[("form_key", &key)]).await.status(), 403);
    assert_eq!(sidecar.api.agent("a").await["active"], true);
    assert_eq!(Visitor::at(&sidecar.api.base).sign_in(ENFORCER).await.status(), 401);
}

#[tokio::test]
async fn a_session_is_over_when_its_token_is() {
    let sidecar = Sidecar::start().await;
    let made = sidecar.api.post("/v1/tokens", json!({"name": "ada", "scope": "operator"})).await.ok();
    let mut visitor = Visitor::at(&sidecar.api.base);
    visitor.sign_in(made["secret"].as_str().unwrap()).await;
    assert_eq!(visitor.get("/").await.status(), 200);
    sidecar.api.delete(&format!("/v1/tokens/{}", made["token_id"].as_str().unwrap())).await;
    assert_eq!(visitor.get("/").await.status(), 303);
}

#[tokio::test]
async fn a_new_password_signs_out_whoever_used_the_old_one() {
    let sidecar = Sidecar::start().await;
    assert!(sidecar.service.set_password("too short").await.is_err());
    let made = sidecar.service.make_password().await.unwrap().unwrap();
    assert_eq!(made.len(), 23, "80 random bits in four groups: {made}");
    let mut visitor = Visitor::at(&sidecar.api.base);
    visitor.sign_in(&made).await;
    assert_eq!(visitor.get("/").await.status(), 200);
    sidecar.service.set_password("correct horse battery").await.unwrap();
    assert_eq!(visitor.get("/").await.status(), 303);
    assert_eq!(visitor.sign_in(&made).await.status(), 401);
    let bytes = std::fs::read(sidecar.dir.path().join("test.db-wal")).unwrap();
    assert!(!bytes.windows(made.len()).any(|window| window == made.as_bytes()), "only its hash is kept");
}

#[tokio::test]
async fn guessing_is_cut_off_and_a_session_is_not() {
    let sidecar = Sidecar::start().await;
    let mut signed_in = Visitor::at(&sidecar.api.base);
    signed_in.sign_in(OPERATOR).await;
    let mut guesser = Visitor::at(&sidecar.api.base);
    for guess in 0..10 {
        assert_eq!(guesser.sign_in(&format!("guess {guess}")).await.status(), 401, "guess {guess}");
    }
    let refused = guesser.sign_in(OPERATOR).await;
    assert_eq!(refused.status(), 429, "not even looked at");
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(signed_in.get("/").await.status(), 200);
    assert_eq!(sidecar.api.get("/v1/agents").await.status, 200, "and the API is another door");
}

#[tokio::test]
async fn events_are_exported_whole_and_filtered() {
    let sidecar = Sidecar::start().await;
    for index in 0..1_100 {
        sidecar.api.put(&format!("/v1/agents/a{index}"), json!({})).await.ok();
    }
    sidecar.api.report("/v1/kills", kill("k", "a0", 1)).await.ok();
    let mut visitor = Visitor::at(&sidecar.api.base);
    visitor.sign_in(VIEWER).await;
    let jsonl = visitor.get("/events/export?format=jsonl").await;
    assert!(jsonl.headers()["content-disposition"].to_str().unwrap().contains("events.jsonl"));
    let text = jsonl.text().await.unwrap();
    assert_eq!(text.lines().count(), 1_101);
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    let csv = visitor.get("/events/export?format=csv&event_type=kill_switch").await.text().await.unwrap();
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines.len(), 2, "{csv}");
    assert!(lines[1].contains(",kill_switch,a0,1,kill_switch,") && lines[1].contains(",13.0,10.0,"), "{csv}");
}
