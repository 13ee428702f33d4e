//! Strangers who open connections and send nothing keep nobody else out, whether with TLS or without.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::support::process::{Process, binary, token};
use crate::support::{Api, SOON, eventually};

/// Returns a client that opens a new connection for each request.
fn without_keep_alive(api: &Api) -> Api {
    let http = reqwest::Client::builder().pool_max_idle_per_host(0).timeout(SOON).build().unwrap();
    Api { http, ..api.clone() }
}

/// Returns the address of a server.
fn address(api: &Api) -> String {
    api.base.split_once("://").unwrap().1.to_owned()
}

/// Opens connections and sends nothing on them.
fn idle(api: &Api, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(address(api)).unwrap()).collect()
}

/// Waits until the server closes a connection, and returns what it had sent before.
fn closed(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut read = Vec::new();
    match stream.read_to_end(&mut read) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the connection stays open: {error}"),
    }
    String::from_utf8(read).unwrap()
}

fn metric(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or("0 0");
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn more_idle_connections_than_files_disturb_neither_health_checks_nor_polls() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.env_clear().arg("-c").arg("ulimit -n 256; exec \"$0\" \"$@\"").arg(binary().get_program());
    command.args(["serve", "--listen", "127.0.0.1:0", "--token-dir", "tokens"]).current_dir(dir.path());
    let mut process = Process::spawn(&mut command);
    process.api.enforcer = token(dir.path(), "enforcer");
    process.api.operator = token(dir.path(), "operator");
    let api = without_keep_alive(&process.api);
    let epoch = api.sync("").await.ok()["epoch"].as_str().unwrap().to_owned();
    let polling = process.api.clone();
    let poll = tokio::spawn(async move { polling.sync(&format!("epoch={epoch}&since=0&wait=50&envoy=e1")).await });
    eventually("the poll waits", || async {
        api.get("/v1/envoys").await.ok()["envoys"].to_string().contains("\"e1\"")
    })
    .await;

    let strangers = idle(&api, 300);
    for path in ["/healthz", "/readyz", "/v1/agents"] {
        assert_eq!(api.get(path).await.status, 200, "{path}");
    }
    let metrics = api.get("/metrics").await.text;
    assert!(metric(&metrics, "kill_switch_connections_evicted_total") >= 200, "{metrics}");
    assert!(metric(&metrics, "kill_switch_connections") <= 96, "{metrics}");
    api.put("/v1/agents/a", json!({})).await.ok();
    assert_eq!(poll.await.unwrap().synced().agents[0].agent_id, "a", "the poll was not disturbed");
    drop(strangers);
}

#[tokio::test]
async fn connections_without_a_handshake_keep_nobody_out_either() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--max-connections", "5", "--idle-timeout", "1s"];
    let process = Process::start(dir.path(), &tls);
    let certificate = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let http = reqwest::Client::builder().tls_certs_only([certificate]).build().unwrap();
    let api = Api { http, ..process.api.clone() };
    let mut strangers = idle(&api, 20);
    assert_eq!(api.get("/healthz").await.status, 200);
    assert_eq!(closed(strangers.remove(0)), "", "the first one made room");
}

#[tokio::test]
async fn a_connection_that_sends_no_complete_headers_in_time_is_closed() {
    let (_dir, process) = Process::start_in_new_dir(&["--idle-timeout", "1s"]);
    let open = || TcpStream::connect(address(&process.api)).unwrap();
    assert_eq!(closed(open()), "", "nothing is sent");

    let mut dripping = open();
    let begun = Instant::now();
    dripping.write_all(b"GET /healthz HTTP/1.1\r\nx-long: ").unwrap();
    // Sending more must not extend the time. Writing fails once the connection is closed.
    while dripping.write_all(b"x").is_ok() {
        assert!(begun.elapsed() < SOON, "the connection stays open");
        std::thread::sleep(Duration::from_millis(20));
    }

    let mut kept_alive = open();
    kept_alive.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert!(closed(kept_alive).starts_with("HTTP/1.1 200"), "closed after an answer, when no other request came");
}

/// Sends a `HEAD` request, and returns the status of the answer.
fn status(connection: &mut TcpStream, request: &str) -> String {
    connection.set_read_timeout(Some(SOON)).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let mut read = Vec::new();
    while !read.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let mut part = [0; 4096];
        let length = connection.read(&mut part).unwrap();
        assert_ne!(length, 0, "the connection was closed");
        read.extend_from_slice(&part[..length]);
    }
    String::from_utf8_lossy(&read).split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn strangers_whose_requests_are_answered_push_out_only_each_other() {
    let (_dir, process) = Process::start_in_new_dir(&["--max-connections", "4"]);
    let open = || TcpStream::connect(address(&process.api)).unwrap();
    let listing =
        format!("HEAD /v1/agents HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n", process.api.operator);
    let probe = "HEAD /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut operator = open();
    assert_eq!(status(&mut operator, &listing), "200");
    let mut strangers = Vec::new();
    for _ in 0..12 {
        let mut stranger = open();
        assert_eq!(status(&mut stranger, probe), "200");
        strangers.push(stranger);
    }
    assert_eq!(status(&mut operator, &listing), "200", "the connection of the operator is still open");
    assert!(closed(strangers.remove(0)).is_empty(), "the first stranger made room");
}

#[tokio::test]
async fn headers_and_forms_of_strangers_are_read_only_up_to_their_limit() {
    let (_dir, process) = Process::start_in_new_dir(&[]);
    let open = || TcpStream::connect(address(&process.api)).unwrap();
    let headers = |bytes: usize| {
        let start = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-long: ";
        format!("{start}{}", "x".repeat(bytes - start.len()))
    };
    let mut long = open();
    long.write_all(format!("{}\r\n\r\n", headers(60 * 1024)).as_bytes()).unwrap();
    assert!(closed(long).starts_with("HTTP/1.1 200"), "headers may be long");
    let mut too_long = open();
    too_long.write_all(headers(64 * 1024).as_bytes()).unwrap();
    assert!(closed(too_long).starts_with("HTTP/1.1 431"), "they need not be complete to be refused");

    let login = async |bytes: usize| {
        let form = process.api.http.post(format!("{}/login", process.api.base)).body("x".repeat(bytes));
        form.send().await.unwrap().status().as_u16()
    };
    assert_eq!(login(8 * 1024).await, 403, "the form is read, and its key is missing");
    assert_eq!(login(8 * 1024 + 1).await, 400, "the form is not read to its end");
}

#[tokio::test]
async fn long_polls_and_live_pages_outlast_the_idle_timeout() {
    let (_dir, process) = Process::start_in_new_dir(&["--idle-timeout", "1s"]);
    let (api, base) = (process.api.clone(), &process.api.base);
    let epoch = api.sync("").await.ok()["epoch"].as_str().unwrap().to_owned();
    let polling = api.clone();
    let poll = tokio::spawn(async move { polling.sync(&format!("epoch={epoch}&since=0&wait=50")).await });
    let mut live = api.http.get(format!("{base}/live")).header("cookie", session(&api).await).send().await.unwrap();
    assert_eq!(live.status(), 200);
    let hello = live.chunk().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&hello).contains("event: hello"), "{hello:?}");
    // Connections that are opened now are closed after the idle timeout, so it has passed for the others as well.
    let stranger = TcpStream::connect(address(&api)).unwrap();
    tokio::task::spawn_blocking(move || closed(stranger)).await.unwrap();
    without_keep_alive(&api).put("/v1/agents/a", json!({})).await.ok();
    assert_eq!(poll.await.unwrap().synced().agents[0].agent_id, "a");
    let change = live.chunk().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&change).contains("event: change"), "{change:?}");
}

/// Signs in to the dashboard and returns the cookie of the session.
async fn session(api: &Api) -> String {
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let cookie = |response: &reqwest::Response| {
        response.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned()
    };
    let form = http.get(format!("{}/login", api.base)).send().await.unwrap();
    let login = cookie(&form);
    let page = form.text().await.unwrap();
    let key = page.split("name=\"form_key\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let body = format!("form_key={key}&secret={}", api.operator);
    let signed_in = http.post(format!("{}/login", api.base)).header("cookie", login).body(body).send().await.unwrap();
    assert_eq!(signed_in.status(), 303);
    cookie(&signed_in)
}

#[tokio::test]
async fn beyond_the_limit_only_health_checks_are_answered() {
    let (_dir, process) = Process::start_in_new_dir(&["--max-connections", "4"]);
    let api = without_keep_alive(&process.api);
    let epoch = api.sync("").await.ok()["epoch"].as_str().unwrap().to_owned();
    let polls: Vec<_> = (0..4)
        .map(|number| {
            let (api, query) = (without_keep_alive(&api), format!("epoch={epoch}&since=0&wait=50&envoy=e{number}"));
            // Until its token was read, a poll can be pushed out by the requests below, or be refused because of them. An
            // Envoy tries again as well.
            tokio::spawn(async move {
                let poll = async || {
                    let poll = api.request(Method::GET, &format!("/v1/sync?{query}"), &api.enforcer);
                    poll.send().await.is_ok_and(|answer| answer.status() != 503)
                };
                while !poll().await {}
            })
        })
        .collect();
    let list =
        async || api.request(Method::GET, "/v1/agents", &api.operator).send().await.map(|answer| answer.status());
    eventually("all connections are in use", || async { list().await.is_ok_and(|status| status == 503) }).await;
    let refused = api.get("/v1/agents").await;
    assert!(refused.headers.contains_key("retry-after") && refused.headers.contains_key("x-kill-switch"));
    assert!(refused.problem(503)["detail"].as_str().unwrap().contains("connections"));
    for path in ["/healthz", "/readyz"] {
        assert_eq!(api.get(path).await.status, 200, "{path}");
    }
    polls.iter().for_each(tokio::task::JoinHandle::abort);
    eventually("there is room again", || async { list().await.is_ok_and(|status| status == 200) }).await;
    assert!(metric(&api.get("/metrics").await.text, "kill_switch_connections_refused_total") >= 4);
}

#[tokio::test]
async fn behind_a_trusted_proxy_failures_count_by_the_address_of_the_client() {
    let fail = async |api: &Api, forwarded: &str| {
        let request = api.request(Method::GET, "/v1/agents", "a-wrong-token").header("x-forwarded-for", forwarded);
        Api::take(request).await.status.as_u16()
    };
    let (_dir, behind) = Process::start_in_new_dir(&["--trusted-proxies", "127.0.0.1,10.0.0.0/8"]);
    for attempt in 0..12 {
        // What the client itself sent in the header is not believed.
        let forwarded = format!("192.0.2.{attempt}, 203.0.113.1, 10.0.0.7");
        assert_eq!(fail(&behind.api, &forwarded).await, if attempt < 10 { 401 } else { 429 }, "{attempt}");
    }
    assert_eq!(fail(&behind.api, "203.0.113.2").await, 401, "another client");

    let (_dir, open) = Process::start_in_new_dir(&[]);
    for attempt in 0..12 {
        let status = fail(&open.api, &format!("203.0.113.{attempt}")).await;
        assert_eq!(status, if attempt < 10 { 401 } else { 429 }, "without a trusted proxy, the header means nothing");
    }
}
