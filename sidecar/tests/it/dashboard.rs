//! Access to the dashboard: sessions, forms and cookies, and the export of events. The pages are tested in `browser`.

use std::net::SocketAddr;
use std::sync::Arc;

use cookie::{Cookie, CookieJar};
use kill_switch::dashboard::{self, Dashboard};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::json;

use crate::support::{ENFORCER, OPERATOR, START_MS, Sidecar, VIEWER, key, kill, stop, stop_with};

/// The pages that need a session.
const PAGES: [&str; 7] = ["/", "/agents", "/agents/a", "/alerts", "/events", "/events/export", "/envoys"];

/// An HTTP client that keeps cookies and follows no redirects.
pub struct Visitor {
    http: Client,
    base: String,
    cookies: CookieJar,
}

impl Visitor {
    pub fn at(base: &str) -> Self {
        let http = Client::builder().redirect(Policy::none()).build().unwrap();
        Self { http, base: base.to_owned(), cookies: CookieJar::new() }
    }

    pub async fn signed_in(sidecar: &Sidecar, secret: &str) -> Self {
        let mut visitor = Self::at(&sidecar.api.base);
        assert_eq!(visitor.sign_in(secret).await.status(), 303);
        visitor
    }

    fn cookie_header(&self) -> String {
        let cookies: Vec<_> = self.cookies.iter().map(|cookie| cookie.stripped().to_string()).collect();
        cookies.join("; ")
    }

    async fn send(&mut self, request: RequestBuilder) -> Response {
        let response = request.header("cookie", self.cookie_header()).send().await.unwrap();
        for set in response.headers().get_all("set-cookie") {
            self.cookies.add_original(Cookie::parse(set.to_str().unwrap()).unwrap().into_owned());
        }
        response
    }

    pub async fn get(&mut self, path: &str) -> Response {
        let request = self.http.get(format!("{}{path}", self.base));
        self.send(request).await
    }

    pub async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Response {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.http.post(format!("{}{path}", self.base));
        self.send(request.header("content-type", "application/x-www-form-urlencoded").body(body)).await
    }

    /// Returns the key of the forms on a page.
    pub async fn key(&mut self, path: &str) -> String {
        let text = self.get(path).await.text().await.unwrap();
        let after =
            text.split("name=\"form_key\" value=\"").nth(1).unwrap_or_else(|| panic!("no form on {path}: {text}"));
        after.split('"').next().unwrap().to_owned()
    }

    pub async fn sign_in(&mut self, secret: &str) -> Response {
        let key = self.key("/login").await;
        self.post("/login", &[("form_key", &key), ("secret", secret)]).await
    }
}

#[tokio::test]
async fn every_page_needs_a_session_and_every_form_its_key() {
    let sidecar = Sidecar::guarding("a").await;
    let mut visitor = Visitor::at(&sidecar.api.base);
    for path in PAGES {
        let answer = visitor.get(path).await;
        assert_eq!(answer.status(), 303, "{path}");
        assert!(answer.headers()["location"].to_str().unwrap().starts_with("/login?next="), "{path}");
    }
    assert_eq!(visitor.get("/live").await.status(), 401);
    assert_eq!(visitor.sign_in(OPERATOR).await.status(), 303);
    for path in PAGES {
        assert_eq!(visitor.get(path).await.status(), 200, "{path}");
    }
    let forms = [
        "/bulk/deactivate",
        "/bulk/undo",
        "/agents/a/kill-switch",
        "/agents/a/settings",
        "/agents/a/preview",
        "/agents/a/activate",
        "/agents/a/tools",
        "/agents/a/deactivate",
        "/agents/a/sessions/0000000000000001/resume",
        "/kills/1/activate",
        "/kills/1/raise_threshold",
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
    assert_eq!(visitor.send(forged).await.status(), 403, "a form from another site is refused even with the key");
    assert_eq!(sidecar.api.agent("a").await["active"], true);
    assert_eq!(visitor.post("/agents/a/deactivate", &[("form_key", &key)]).await.status(), 303);
    assert_eq!(sidecar.api.agent("a").await["active"], false);
    // The sign-in form needs its key too, so that another site cannot sign somebody in as somebody else.
    let mut stranger = Visitor::at(&sidecar.api.base);
    assert_eq!(stranger.post("/login", &[("secret", OPERATOR)]).await.status(), 403);
}

#[tokio::test]
async fn signing_in_works_from_an_address_that_is_too_long_to_lead_back_to() {
    let sidecar = Sidecar::start().await;
    let mut visitor = Visitor::at(&sidecar.api.base);
    for (length, leads_to) in [(500, format!("/{}", "x".repeat(500))), (20_000, "/".to_owned())] {
        let login = format!("/login?next=/{}", "x".repeat(length));
        let page = visitor.get(&login).await.text().await.unwrap();
        let value = |name: &str| {
            let after = page.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap();
            after.split('"').next().unwrap().to_owned()
        };
        let (key, next) = (value("form_key"), value("next"));
        let answer = visitor.post("/login", &[("form_key", &key), ("next", &next), ("secret", OPERATOR)]).await;
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["location"]),
            (303, &leads_to.parse().unwrap()),
            "{length}"
        );
    }
}

#[tokio::test]
async fn the_content_security_policy_allows_only_our_own_files() {
    let sidecar = Sidecar::start().await;
    let mut visitor = Visitor::signed_in(&sidecar, OPERATOR).await;
    for path in
        ["/", "/agents", "/login", "/alerts", "/assets/app.css", "/assets/app.js", "/favicon.ico", "/agents/missing"]
    {
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
    assert_eq!(visitor.get("/").await.status(), 303, "the old cookie is not valid any more");
}

#[tokio::test]
async fn a_session_expires_after_a_week() {
    let sidecar = Sidecar::start().await;
    let mut visitor = Visitor::signed_in(&sidecar, OPERATOR).await;
    sidecar.pass(7 * 24 * 3600 - 1);
    assert_eq!(visitor.get("/").await.status(), 200);
    sidecar.pass(1);
    assert_eq!(visitor.get("/").await.status(), 303);
}

#[tokio::test]
async fn with_https_the_cookie_is_bound_to_its_host() {
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
async fn a_viewer_cannot_make_changes_and_an_enforcer_cannot_sign_in() {
    let sidecar = Sidecar::guarding("a").await;
    let mut viewer = Visitor::signed_in(&sidecar, VIEWER).await;
    let key = viewer.key("/agents/a").await;
    assert_eq!(viewer.post("/agents/a/deactivate", &[("form_key", &key)]).await.status(), 403);
    assert_eq!(viewer.post("/kills/1/observe", &[("form_key", &key)]).await.status(), 403);
    assert_eq!(sidecar.api.agent("a").await["active"], true);
    assert_eq!(Visitor::at(&sidecar.api.base).sign_in(ENFORCER).await.status(), 401);
}

#[tokio::test]
async fn a_session_ends_when_its_token_is_revoked() {
    let sidecar = Sidecar::start().await;
    let made = sidecar.api.post("/v1/tokens", json!({"name": "ada", "scope": "operator"})).await.ok();
    let mut visitor = Visitor::signed_in(&sidecar, made["secret"].as_str().unwrap()).await;
    assert_eq!(visitor.get("/").await.status(), 200);
    sidecar.api.delete(&format!("/v1/tokens/{}", made["token_id"].as_str().unwrap())).await;
    assert_eq!(visitor.get("/").await.status(), 303);
}

#[tokio::test]
async fn a_new_password_ends_the_sessions_of_the_old_one() {
    let sidecar = Sidecar::start().await;
    assert!(sidecar.service.set_password("too short").await.is_err());
    let made = sidecar.service.make_password().await.unwrap().unwrap();
    assert_eq!(made.len(), 23, "80 random bits in four groups: {made}");
    let mut visitor = Visitor::signed_in(&sidecar, &made).await;
    assert_eq!(visitor.get("/").await.status(), 200);
    sidecar.service.set_password("correct horse battery").await.unwrap();
    assert_eq!(visitor.get("/").await.status(), 303);
    assert_eq!(visitor.sign_in(&made).await.status(), 401);
    let bytes = std::fs::read(sidecar.dir.path().join("test.db-wal")).unwrap();
    assert!(
        !bytes.windows(made.len()).any(|window| window == made.as_bytes()),
        "only the hash of a password is stored"
    );
}

#[tokio::test]
async fn failed_sign_ins_are_limited_and_sessions_are_not_affected() {
    let sidecar = Sidecar::start().await;
    let mut signed_in = Visitor::signed_in(&sidecar, OPERATOR).await;
    let mut guesser = Visitor::at(&sidecar.api.base);
    for guess in 0..10 {
        assert_eq!(guesser.sign_in(&format!("guess {guess}")).await.status(), 401, "guess {guess}");
    }
    let refused = guesser.sign_in("one more guess").await;
    assert_eq!(refused.status(), 429, "the secret is not checked");
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(guesser.sign_in(OPERATOR).await.status(), 303, "a valid token is not held up");
    assert_eq!(signed_in.get("/").await.status(), 200);
    assert_eq!(sidecar.api.get("/v1/agents").await.status, 200, "the API has a limit of its own");
}

#[tokio::test]
async fn guesses_at_the_same_time_are_limited_as_well() {
    let sidecar = Sidecar::start().await;
    let password = sidecar.service.make_password().await.unwrap().unwrap();
    let mut guesser = Visitor::at(&sidecar.api.base);
    let key = guesser.key("/login").await;
    let login_cookie = guesser.cookie_header();
    let guesses = (0..100).map(|guess| {
        let body = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("form_key", key.as_str()), ("secret", &format!("guess {guess}"))])
            .finish();
        let request = guesser.http.post(format!("{}/login", sidecar.api.base)).body(body);
        let request = request.header("cookie", &login_cookie);
        tokio::spawn(async move { request.send().await.unwrap().status().as_u16() })
    });
    let mut statuses = Vec::new();
    for guess in guesses.collect::<Vec<_>>() {
        statuses.push(guess.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses[..10], [401; 10], "ten passwords are checked");
    assert_eq!(statuses[10..], [429; 90]);
    assert_eq!(guesser.sign_in(&password).await.status(), 429, "the right password would be one more guess");
    assert_eq!(guesser.sign_in(OPERATOR).await.status(), 303, "a token is not held up");
    assert_eq!(sidecar.api.get("/v1/agents").await.status, 200);
}

#[tokio::test]
async fn signing_in_with_the_right_password_does_not_count_as_a_failure() {
    let sidecar = Sidecar::start().await;
    let password = sidecar.service.make_password().await.unwrap().unwrap();
    let mut visitor = Visitor::at(&sidecar.api.base);
    for time in 0..12 {
        assert_eq!(visitor.sign_in(&password).await.status(), 303, "time {time}");
    }
}

#[tokio::test]
async fn stopped_conversations_are_listed_and_go_on_at_the_press_of_a_button() {
    let sidecar = Sidecar::guarding("team%2Fa").await;
    let mut visitor = Visitor::signed_in(&sidecar, OPERATOR).await;
    let page = "/agents/team%2Fa";
    assert!(!visitor.get(page).await.text().await.unwrap().contains("Stopped conversations"));
    let hostile = json!({"session": {"key": key(1), "id": "<script>alert(1)</script>"}});
    sidecar.api.report("/v1/kills", stop_with("k1", "team/a", 1, hostile)).await.ok();
    sidecar.api.report("/v1/kills", stop_with("k2", "team/a", 2, json!({"session": {"key": key(2)}}))).await.ok();
    let text = visitor.get(page).await.text().await.unwrap();
    for part in [
        "Stopped conversations",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "conversation 0000000000000002",
        "the same prompt and the same answer",
        "2024-01-15 11:30:00 UTC",
        "Let it go on",
        "was stopped until 2024-01-15 11:30:00 UTC; the agent itself goes on",
        "■ conversation stopped",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("Deactivated by Kill Switch") && !text.contains("<script>alert"), "{text}");
    let mut viewer = Visitor::signed_in(&sidecar, VIEWER).await;
    let seen = viewer.get(page).await.text().await.unwrap();
    assert!(seen.contains("Stopped conversations") && !seen.contains("Let it go on"));

    let path = format!("{page}/sessions/{}/resume", key(1));
    let form_key = viewer.key(page).await;
    assert_eq!(viewer.post(&path, &[("form_key", &form_key)]).await.status(), 403);
    let form_key = visitor.key(page).await;
    let fields = [("form_key", form_key.as_str()), ("reason", "the tool works again")];
    let answer = visitor.post(&path, &fields).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["location"]),
        (303, &"/agents/team%2Fa?did=resumed".parse().unwrap())
    );
    assert_eq!(visitor.post(&path, &fields).await.status(), 404, "it goes on already");
    let event = &sidecar.api.events("event_type=session_resumed").await[0];
    assert_eq!((&event["reason"], &event["session_key"]), (&json!("the tool works again"), &json!(key(1))));
    let text = visitor.get(&format!("{page}?did=resumed")).await.text().await.unwrap();
    assert!(text.contains("The conversation goes on.") && !text.contains("session-0000000000000001"), "{text}");
}

#[tokio::test]
async fn the_page_of_an_escalated_agent_says_why_it_was_deactivated() {
    let sidecar = Sidecar::start().await;
    sidecar.api.put("/v1/agents/a", json!({"scope": "session", "escalate_after": 2})).await.ok();
    for session in 1..=2 {
        sidecar.api.report("/v1/kills", stop(&format!("k{session}"), "a", session)).await.ok();
    }
    sidecar.api.report("/v1/kills", stop("late", "a", 3)).await.ok();
    let mut visitor = Visitor::signed_in(&sidecar, VIEWER).await;
    let text = visitor.get("/agents/a").await.text().await.unwrap();
    let banner = text.split("Why this agent is inactive").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(banner.contains("2 conversations of this agent were stopped within an hour"), "{banner}");
    assert!(text.contains("Repeated calls"), "those of the last conversation");
}

#[tokio::test]
async fn all_events_or_those_that_match_are_exported() {
    let sidecar = Sidecar::start().await;
    for index in 0..1_100 {
        sidecar.api.put(&format!("/v1/agents/a{index}"), json!({})).await.ok();
    }
    sidecar.api.report("/v1/kills", kill("k", "a0", 1)).await.ok();
    sidecar.api.report("/v1/kills", stop_with("b", "a1", 1, json!({"action": "block"}))).await.ok();
    let mut visitor = Visitor::signed_in(&sidecar, VIEWER).await;
    let jsonl = visitor.get("/events/export?format=jsonl").await;
    assert!(jsonl.headers()["content-disposition"].to_str().unwrap().contains("events.jsonl"));
    let text = jsonl.text().await.unwrap();
    assert_eq!(text.lines().count(), 1_102);
    assert!(text.contains("\"session\":\"chat-1\""));
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    let csv = visitor.get("/events/export?format=csv&event_type=kill_switch").await.text().await.unwrap();
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines.len(), 2, "{csv}");
    assert!(lines[1].contains(",kill_switch,a0,1,kill_switch,") && lines[1].contains(",13.0,10.0,,"), "{csv}");
    let csv = visitor.get("/events/export?format=csv&event_type=blocked").await.text().await.unwrap();
    assert!(csv.contains(",13.0,10.0,chat-1,"), "{csv}");
}

#[tokio::test]
async fn scores_are_in_the_order_of_the_calls_whichever_worker_reports_them_first() {
    let sidecar = Sidecar::guarding("a").await;
    for calls in [&[(0, 1, 1.0), (0, 3, 7.0), (2, 5, 13.0)][..], &[(0, 2, 4.0), (1, 4, 10.0)]] {
        let scores: Vec<_> = calls
            .iter()
            .map(|(ms, sequence, score)| {
                json!({"at_ms": START_MS - 9 + ms, "sequence": sequence, "score": score, "similar_prompts": 1,
                       "similar_responses": 0, "repeated_tool_calls": 0})
            })
            .collect();
        let report = json!({"agents": [{"agent_id": "a", "scores": scores}]});
        sidecar.api.report("/v1/observations", report).await.ok();
        sidecar.service.write_observations().await.unwrap();
    }
    let told = sidecar.api.get("/v1/agents/a/scores").await.ok();
    let told: Vec<_> = told["scores"].as_array().unwrap().iter().map(|one| one["score"].as_f64().unwrap()).collect();
    assert_eq!(told, [1.0, 4.0, 7.0, 10.0, 13.0]);
    let page = Visitor::signed_in(&sidecar, VIEWER).await.get("/agents/a").await.text().await.unwrap();
    let drawn: Vec<_> = page.split(": score ").skip(1).map(|rest| rest.split(' ').next().unwrap()).collect();
    assert_eq!(drawn, ["1", "4", "7", "10", "13"]);
}

#[tokio::test]
async fn an_agent_that_a_file_manages_says_so_and_its_form_warns() {
    let sidecar = Sidecar::guarding("by-hand").await;
    let rules = json!([{"match": "t-*", "enabled": true}]);
    let document = json!({"version": 1, "agents": {"a": {"enabled": true}}, "rules": rules});
    sidecar.api.put("/v1/policies/team", document).await.ok();
    sidecar.api.report("/v1/observations", json!({"agents": [{"agent_id": "t-1"}]})).await.ok();
    sidecar.service.write_observations().await.unwrap();
    let mut visitor = Visitor::signed_in(&sidecar, OPERATOR).await;
    let list = visitor.get("/agents").await.text().await.unwrap();
    assert_eq!(list.matches(" · file <bdi>team</bdi>").count(), 2, "{list}");
    for (agent, source) in [("a", "policy file <bdi>team</bdi>"), ("t-1", ", rule <bdi>t-*</bdi>")] {
        let page = visitor.get(&format!("/agents/{agent}")).await.text().await.unwrap();
        assert_eq!(page.matches(source).count(), 2, "{page}");
        assert!(page.contains("of that file overwrites it"), "{page}");
    }
    let page = visitor.get("/agents/by-hand").await.text().await.unwrap();
    assert!(!page.contains("policy file"), "{page}");
    let events = visitor.get("/events").await.text().await.unwrap();
    assert!(events.contains("policies_applied"), "{events}");
}
