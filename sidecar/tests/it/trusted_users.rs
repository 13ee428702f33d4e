//! People who have signed in at a proxy in front of the dashboard, with the real program.

use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::json;

use crate::support::process::{Process, binary};

const HEADER: &str = "x-forwarded-email";

fn flags(from: &'static str) -> [&'static str; 4] {
    ["--trusted-user-header", HEADER, "--trusted-user-from", from]
}

fn http() -> Client {
    Client::builder().redirect(Policy::none()).build().unwrap()
}

async fn send(request: RequestBuilder, names: &[&str]) -> Response {
    let request = names.iter().fold(request, |request, name| request.header(HEADER, *name));
    request.header("accept", "text/html").send().await.unwrap()
}

#[tokio::test]
async fn a_person_whom_the_proxy_names_needs_no_password_and_is_named_by_events() {
    let (_dir, process) = Process::start_in_new_dir(&flags("10.0.0.0/8,127.0.0.1"));
    process.api.put("/v1/agents/a", json!({})).await.ok();
    let (http, base) = (http(), &process.api.base);
    let page = send(http.get(format!("{base}/agents/a")), &["ada@example.com"]).await;
    assert_eq!(page.status(), 200);
    let page = page.text().await.unwrap();
    assert!(page.contains("ada@example.com") && !page.contains("Sign out"), "{page}");
    let key = page.split("name=\"form_key\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let deactivate = || {
        let request = http.post(format!("{base}/agents/a/deactivate"));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        request.body(format!("form_key={key}"))
    };
    assert_eq!(send(deactivate(), &["bob@example.com"]).await.status(), 403, "a form belongs to one person");
    assert_eq!(send(deactivate(), &["ada@example.com"]).await.status(), 303);
    assert_eq!(process.api.events("event_type=deactivated").await[0]["actor"], "user:ada@example.com");
    let page = send(http.get(format!("{base}/agents/a")), &["bob@example.com"]).await.text().await.unwrap();
    assert!(page.contains("By <strong><bdi>ada@example.com</bdi></strong>"), "{page}");
    for (names, status) in [(&[][..], 303), (&[""], 303), (&["ada", "bob"], 400), (&["a\u{85}b"], 400)] {
        assert_eq!(send(http.get(format!("{base}/")), names).await.status(), status, "{names:?}");
    }
    let api = send(http.get(format!("{base}/v1/agents")), &["ada@example.com"]).await;
    assert_eq!(api.status(), 401, "the API needs a token all the same");
}

#[tokio::test]
async fn the_header_is_refused_from_other_addresses() {
    let (_dir, process) =
        Process::start_in_new_dir(&[&flags("10.0.0.0/8")[..], &["--trusted-proxies", "127.0.0.1"]].concat());
    let (http, base) = (http(), &process.api.base);
    for path in ["/", "/agents", "/login", "/v1/agents", "/nothing"] {
        let request = http.get(format!("{base}{path}")).header("x-forwarded-for", "10.0.0.1");
        let answer = send(request, &["ada@example.com"]).await;
        assert_eq!(answer.status(), 403, "{path}");
        let page = answer.text().await.unwrap();
        assert!(page.contains("the header x-forwarded-email may not come from 127.0.0.1"), "{path}: {page}");
    }
    assert_eq!(send(http.get(format!("{base}/login")), &[]).await.status(), 200);
}

#[tokio::test]
async fn a_stranger_who_sends_the_header_all_the_time_does_not_fill_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start_logging(dir.path(), &flags("10.0.0.0/8"));
    let (http, base) = (http(), &process.api.base);
    for attempt in 0..30 {
        assert_eq!(send(http.get(format!("{base}/login")), &["ada"]).await.status(), 403, "{attempt}");
    }
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert_eq!(log.matches("the header that names a person").count(), 10, "{log}");
}

#[test]
fn the_header_and_its_addresses_are_only_configured_together() {
    for alone in [&flags("10.0.0.0/8")[..2], &flags("10.0.0.0/8")[2..], &["--trusted-user-header", "not a header"]] {
        let output = binary().arg("serve").args(alone).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("--trusted-user-"), "{alone:?}: {said}");
    }
}
