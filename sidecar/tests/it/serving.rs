//! `kill-switch serve` as a process: its first start, later starts, HTTPS, readiness and shutdown.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use crate::support::process::{Killed, Process, binary, token, token_file};
use crate::support::{Api, eventually};

#[tokio::test]
async fn without_configuration_it_serves_and_prints_its_tokens_once() {
    let dir = tempfile::tempdir().unwrap();
    let start = || Process::spawn(binary().args(["serve", "--listen", "127.0.0.1:0"]).current_dir(dir.path()));
    let mut first = start();
    assert!(dir.path().join("kill-switch.db").exists());
    let secret = |scope: &str| {
        let prefix = format!("{scope} token aks_");
        let line = first.said.iter().find(|line| line.starts_with(&prefix)).unwrap();
        line.split(' ').nth(2).unwrap().to_owned()
    };
    for (scope, path) in [("operator", "/v1/agents"), ("viewer", "/v1/agents"), ("enforcer", "/v1/sync")] {
        let answer = Api::take(first.api.request(Method::GET, path, &secret(scope))).await;
        assert_eq!(answer.status, 200, "{scope}");
    }
    let operator = secret("operator");
    first.kill_9();
    let second = start();
    assert!(second.said.iter().all(|line| !line.contains("aks_")), "{:?}", second.said);
    let answer = Api::take(second.api.request(Method::GET, "/v1/agents", &operator)).await;
    assert_eq!(answer.status, 200, "a token is still valid after a restart");
}

#[tokio::test]
async fn token_files_and_the_database_can_only_be_read_by_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, mut process) = Process::start_in_new_dir(&[]);
    let mut files = ["enforcer", "viewer", "operator"].map(|scope| token_file(dir.path(), scope)).to_vec();
    files.extend(["kill-switch.db", "kill-switch.db-wal"].map(|name| dir.path().join(name)));
    for file in files {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    assert!(process.said.iter().all(|line| !line.contains("aks_")), "{:?}", process.said);
    let (enforcer, operator) = (process.api.enforcer.clone(), process.api.operator.clone());
    process.kill_9();
    std::fs::remove_file(token_file(dir.path(), "operator")).unwrap();
    let again = Process::start(dir.path(), &[]);
    assert_eq!(token(dir.path(), "enforcer"), enforcer, "a valid token is kept");
    assert_ne!(token(dir.path(), "operator"), operator, "a missing token is generated again");
    assert_eq!(again.api.get("/v1/agents").await.status, 200);
}

#[tokio::test]
async fn a_token_that_is_generated_again_is_private_although_its_file_was_not() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (dir, mut process) = Process::start_in_new_dir(&[]);
    assert_eq!(mode(&dir.path().join("tokens")), 0o700, "the folder is the owner's as well");
    process.kill_9();
    let file = token_file(dir.path(), "operator");
    std::fs::write(&file, "not valid").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let again = Process::start(dir.path(), &[]);
    assert_eq!(again.api.get("/v1/agents").await.status, 200);
    assert_eq!(mode(&file), 0o600);
}

#[tokio::test]
async fn tokens_of_another_database_are_generated_again() {
    let (dir, first) = Process::start_in_new_dir(&[]);
    let of_the_first = token(dir.path(), "operator");
    drop(first);
    let other = Process::start(dir.path(), &["--db", "other.db"]);
    assert_ne!(token(dir.path(), "operator"), of_the_first);
    assert_eq!(other.api.get("/v1/agents").await.status, 200);
}

#[tokio::test]
async fn tokens_can_be_set_by_environment_variables() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = binary();
    command.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(dir.path());
    command.env("KILL_SWITCH_OPERATOR_TOKEN", "an-operator-token-by-hand");
    let process = Process::spawn(&mut command);
    assert!(process.said.iter().any(|line| line == "operator token from KILL_SWITCH_OPERATOR_TOKEN"));
    assert!(process.said.iter().all(|line| !line.contains("by-hand")));
    let answer = Api::take(process.api.request(Method::GET, "/v1/tokens", "an-operator-token-by-hand")).await;
    let names: Vec<_> = answer.ok()["tokens"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect();
    assert_eq!(names, ["enforcer", "viewer"], "the token is not stored, and no other operator token is generated");
    let agent = process.api.request(Method::PUT, "/v1/agents/a", "an-operator-token-by-hand").json(&json!({}));
    Api::take(agent).await.ok();
    let events = process.api.request(Method::GET, "/v1/events?agent_id=a", "an-operator-token-by-hand");
    assert_eq!(Api::take(events).await.ok()["events"][0]["actor"], "token:operator", "it is named by its scope");
}

#[tokio::test]
async fn sigterm_ends_waiting_polls_and_the_process_at_once() {
    let (dir, mut process) = Process::start_in_new_dir(&[]);
    let epoch = process.api.sync("").await.ok()["epoch"].as_str().unwrap().to_owned();
    let polls: Vec<_> = (0..20)
        .map(|n| {
            let (api, query) = (process.api.clone(), format!("epoch={epoch}&since=0&wait=50&envoy=e{n}"));
            tokio::spawn(async move { api.sync(&query).await.status })
        })
        .collect();
    let api = process.api.clone();
    eventually("twenty polls are waiting", || async {
        api.get("/v1/envoys").await.ok()["envoys"].as_array().unwrap().len() == 21
    })
    .await;
    let begun = Instant::now();
    process.terminate();
    for poll in polls {
        assert_eq!(poll.await.unwrap(), 304);
    }
    assert!(process.child.0.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(25), "long before the polls would have ended: {:?}", begun.elapsed());
    assert!(!dir.path().join("kill-switch.db-wal").exists(), "the write-ahead log is empty and removed");
}

#[tokio::test]
async fn readyz_fails_while_the_database_cannot_be_written() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    let ready = process.api.get("/readyz").await;
    assert_eq!(ready.status, 200);
    assert!(!ready.headers.contains_key("strict-transport-security"), "only with TLS");
    let other = SqliteConnectOptions::new().filename(dir.path().join("kill-switch.db"));
    let pool = SqlitePool::connect_with(other).await.unwrap();
    let lock = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    eventually("not ready", || async { process.api.get("/readyz").await.status == 503 }).await;
    process.api.get("/readyz").await.problem(503);
    assert_eq!(process.api.get("/healthz").await.status, 200, "the process is alive");
    assert_eq!(process.api.get("/v1/agents").await.status, 200, "agents can be read");
    lock.rollback().await.unwrap();
    eventually("ready again", || async { process.api.get("/readyz").await.status == 200 }).await;
}

#[tokio::test]
async fn https_with_a_certificate_and_a_key_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let mut process = Process::start(dir.path(), &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    assert!(process.api.base.starts_with("https://"));
    assert!(
        process.api.http.get(format!("{}/healthz", process.api.base)).send().await.is_err(),
        "the certificate is not trusted"
    );
    let certificate = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    process.api.http = reqwest::Client::builder().tls_certs_only([certificate]).build().unwrap();
    assert_eq!(process.api.guarded("a").await["agent_id"], "a");
    for path in ["/healthz", "/v1/agents", "/login"] {
        let answer = process.api.get(path).await;
        assert_eq!(answer.headers["strict-transport-security"], "max-age=31536000", "{path}");
    }

    let listed = binary()
        .current_dir(dir.path())
        .args(["agents", "list", "--server", &process.api.base, "--ca", "cert.pem", "--token-file"])
        .arg(token_file(dir.path(), "viewer"))
        .output()
        .unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
}

#[tokio::test]
async fn a_start_that_fails_says_why_and_exits_with_1() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    let taken = process.api.base.strip_prefix("http://").unwrap();
    for (arguments, says) in [
        (vec!["--listen", taken], "cannot listen on"),
        (vec!["--listen", "127.0.0.1:0", "--db", "no/such/folder/x.db"], "no/such/folder/x.db"),
        (vec!["--listen", "127.0.0.1:0"], "another kill-switch serves this database"),
        (vec!["--listen", "127.0.0.1:0", "--tls-cert", "none.pem", "--tls-key", "none.pem"], "none.pem"),
        (vec!["--listen", "127.0.0.1:0", "--log", "kill_switch=loud"], "must be a level"),
    ] {
        let output = binary().arg("serve").args(&arguments).current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}

#[tokio::test]
async fn the_log_can_be_json_and_never_contains_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut command = binary();
    command.args(["serve", "--listen", "127.0.0.1:0", "--token-dir", "tokens"]);
    command.args(["--log-format", "json", "--log", "trace"]);
    let child = command
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let child = Killed(child);
    let base = || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().find_map(|line| {
            let entry: serde_json::Value = serde_json::from_str(line).ok()?;
            entry["fields"]["url"].as_str().map(str::to_owned)
        })
    };
    eventually("it logs its address", || async { base().is_some() }).await;
    let mut api = Api::at(&base().unwrap());
    api.operator = token(dir.path(), "operator");
    api.guarded("a").await;
    api.post("/v1/tokens", json!({"name": "ci", "scope": "viewer"})).await.ok();
    Api::take(api.request(Method::GET, "/v1/agents", "a-token-that-is-wrong")).await.problem(401);
    drop(child);
    let text = std::fs::read_to_string(&log).unwrap();
    for line in text.lines() {
        let _: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
    assert!(text.contains("authentication failed"));
    for secret in [api.operator.as_str(), "a-token-that-is-wrong", "aks_"] {
        assert!(!text.contains(secret), "{secret} is in the log");
    }
}
