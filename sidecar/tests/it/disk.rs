//! The disk under a SQLite file: it may be full for a while, somebody may remove or replace the file, the file may be
//! readable by others, and it may contain what nobody can read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures_util::future::join_all;
use kill_switch::model::Agent;
use kill_switch::service::Limits;
use kill_switch::store::Store;
use reqwest::Method;
use serde_json::json;
use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use crate::support::process::{Process, binary, cli, token};
use crate::support::{Api, Sidecar, eventually, kill};
use crate::sync::Watched;

/// Starts a sidecar in `dir` that survives writes which its file size limit forbids. They fail with an error, as they do
/// when the disk is full.
fn start_limited(dir: &Path) -> Process {
    let mut command = Command::new("sh");
    command.env_clear().stdin(Stdio::null()).current_dir(dir);
    command.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#]).arg(binary().get_program());
    let mut process = Process::spawn(command.args(["serve", "--listen", "127.0.0.1:0", "--token-dir", "tokens"]));
    process.api.enforcer = token(dir, "enforcer");
    process.api.operator = token(dir, "operator");
    process
}

/// Sets how large files may become that a process writes. Returns false if this machine has no `prlimit`.
fn limit_files(process: &Process, limit: &str) -> bool {
    let pid = process.child.0.id().to_string();
    let status = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={limit}:")]).status();
    status.is_ok_and(|status| status.success())
}

#[tokio::test]
async fn after_a_full_disk_kills_are_recorded_again_and_readyz_tells_the_truth_throughout() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = start_limited(dir.path());
    if !limit_files(&process, "unlimited") {
        return lab::skip::because("there is no prlimit, which limits the files of a running process");
    }
    let api = process.api.clone();
    api.report("/v1/kills", kill("before", "a", 1)).await.ok();
    assert_eq!(api.get("/readyz").await.status, 200);

    assert!(limit_files(&process, "0"));
    for n in 0..5 {
        let answer = api.report("/v1/kills", kill(&format!("during-{n}"), "b", 1)).await;
        assert_eq!(answer.headers["retry-after"], "1");
        answer.problem(503);
    }
    eventually("not ready", || async { api.get("/readyz").await.status == 503 }).await;
    let doctor = cli(dir.path(), &api, &["doctor"]);
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert!(!doctor.status.success() && said.contains("answers 503"), "{said}");
    assert_eq!(api.agent("a").await["active"], false, "what was written can be read");

    assert!(limit_files(&process, "unlimited"));
    for n in 0..5 {
        let outcome = api.report("/v1/kills", kill(&format!("during-{n}"), "b", 1)).await.ok()["outcome"].clone();
        assert_eq!(outcome, if n == 0 { "applied" } else { "duplicate" }, "the report of the full disk is sent again");
    }
    eventually("ready again", || async { api.get("/readyz").await.status == 200 }).await;
    process.kill_9();
    let again = Process::start(dir.path(), &[]);
    for agent in ["a", "b"] {
        assert_eq!(again.api.agent(agent).await["active"], false, "{agent}");
        assert_eq!(again.api.events(&format!("agent_id={agent}&event_type=kill_switch")).await.len(), 1, "{agent}");
    }
}

#[tokio::test]
async fn however_many_ask_whether_it_is_ready_the_database_is_written_once_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let (store, counts) = Watched::open(dir.path(), None).await;
    let sidecar = Sidecar::over(store, Limits::default(), dir).await;
    let before = counts.statements.load(Ordering::SeqCst);
    let begun = Instant::now();
    let ask = || {
        let service = Arc::clone(&sidecar.service);
        tokio::spawn(async move { service.ready().await })
    };
    for _ in 0..100 {
        let gone = ask();
        tokio::task::yield_now().await;
        gone.abort();
    }
    for asked in join_all((0..100).map(|_| ask())).await {
        // On a busy machine an answer may be that the database took too long. What matters is how often it is written.
        let _ = asked.unwrap();
    }
    let writes = counts.statements.load(Ordering::SeqCst) - before;
    assert!(writes as u64 <= 1 + begun.elapsed().as_secs(), "{writes} writes in {:?}", begun.elapsed());
}

const REPLACED: &str = "the database file was removed, replaced or cut off while the sidecar was running";

/// Checks that a sidecar refuses to write because its files are not where they were.
async fn assert_refuses(api: &Api, case: &str) {
    for (method, path, token, body) in [
        (Method::POST, "/v1/kills", &api.enforcer, kill("refused", "a", 1)),
        (Method::POST, "/v1/agents/a/deactivate", &api.operator, json!({})),
    ] {
        let problem = Api::take(api.request(method, path, token).json(&body)).await.problem(503);
        assert!(problem["detail"].as_str().unwrap().starts_with(REPLACED), "{case}, {path}: {problem}");
    }
    eventually("not ready", || async { api.get("/readyz").await.status == 503 }).await;
    let problem = api.get("/readyz").await.problem(503);
    assert!(problem["detail"].as_str().unwrap().starts_with(REPLACED), "{case}: {problem}");
    assert_eq!(api.agent("a").await["active"], true, "{case}: agents can still be read");
}

#[tokio::test]
async fn nothing_is_written_while_a_file_of_the_database_is_not_in_its_place() {
    type Change = fn(&Path, &Path);
    let cases: [(&str, &str, Change); 4] = [
        ("the database is removed", "test.db", |file, _| fs::remove_file(file).unwrap()),
        ("the log is removed", "test.db-wal", |file, _| fs::remove_file(file).unwrap()),
        ("the database is moved", "test.db", |file, elsewhere| fs::rename(file, elsewhere).unwrap()),
        ("the database is replaced", "test.db", |file, elsewhere| {
            fs::copy(file, elsewhere).unwrap();
            fs::rename(elsewhere, file).unwrap();
        }),
    ];
    for (case, name, change) in cases {
        let sidecar = Sidecar::guarding("a").await;
        let file = sidecar.dir.path().join(name);
        change(&file, &sidecar.dir.path().join("elsewhere"));
        assert_refuses(&sidecar.api, case).await;
    }
}

#[tokio::test]
async fn a_file_that_is_put_back_is_written_again() {
    let sidecar = Sidecar::guarding("a").await;
    let [file, elsewhere] = ["test.db", "elsewhere"].map(|name| sidecar.dir.path().join(name));
    fs::rename(&file, &elsewhere).unwrap();
    assert_refuses(&sidecar.api, "the database is moved").await;
    fs::rename(&elsewhere, &file).unwrap();
    let receipt = sidecar.api.report("/v1/kills", kill("refused", "a", 1)).await.ok();
    assert_eq!(receipt["outcome"], "applied");
    eventually("ready again", || async { sidecar.api.get("/readyz").await.status == 200 }).await;
}

/// Returns the open file of a process that was removed from a path.
fn removed_file(process: &Process, path: &Path) -> PathBuf {
    let removed = format!("{} (deleted)", path.display());
    let open = fs::read_dir(format!("/proc/{}/fd", process.child.0.id())).unwrap();
    let mut open = open.map(|entry| entry.unwrap().path());
    open.find(|entry| fs::read_link(entry).is_ok_and(|target| target == Path::new(&removed))).unwrap()
}

#[tokio::test]
async fn acknowledged_kills_can_be_saved_from_a_file_that_was_removed() {
    if !Path::new("/proc/self/fd").exists() {
        return lab::skip::because("there is no /proc, which shows the open files of a process");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut process = Process::start_logging(dir.path(), &[]);
    process.api.report("/v1/kills", kill("acknowledged", "a", 1)).await.ok();
    let file = fs::canonicalize(dir.path().join("kill-switch.db")).unwrap();
    fs::remove_file(&file).unwrap();
    process.api.report("/v1/kills", kill("refused", "b", 1)).await.problem(503);
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(
        log.contains("a file of the database was removed, replaced or cut off: nothing is written any more"),
        "{log}"
    );
    // As docs/operations.md says.
    fs::copy(removed_file(&process, &file), &file).unwrap();
    process.kill_9();
    process = Process::start(dir.path(), &[]);
    assert_eq!(process.api.agent("a").await["active"], false, "the kill that was acknowledged is there");
    let receipt = process.api.report("/v1/kills", kill("refused", "b", 1)).await.ok();
    assert_eq!(receipt["outcome"], "applied", "the kill that was refused is recorded when it is sent again");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn files_that_others_can_read_are_made_private() {
    let (dir, mut process) = Process::start_in_new_dir(&[]);
    process.api.guarded("a").await;
    process.kill_9();
    let files = ["kill-switch.db", "kill-switch.db-wal", "kill-switch.db-shm"].map(|name| dir.path().join(name));
    for file in &files {
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    }
    process = Process::start_logging(dir.path(), &[]);
    for file in &files {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert_eq!(log.matches("the file could be read by others: it no longer can").count(), 3, "{log}");
    assert_eq!(process.api.agent("a").await["agent_id"], "a");
}

#[tokio::test]
async fn a_database_is_private_from_its_creation_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new.db");
    let _store = Store::sqlite(&path).await.unwrap();
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(mode(&dir.path().join(format!("new.db{ending}"))), 0o600, "{ending}");
    }
}

#[tokio::test]
async fn a_stored_value_that_cannot_be_read_is_an_internal_error() {
    let sidecar = Sidecar::guarding("a").await;
    let options = SqliteConnectOptions::new().filename(sidecar.dir.path().join("test.db"));
    let pool = SqlitePool::connect_with(options).await.unwrap();
    for (change, path) in [
        ("UPDATE agents SET generation = -1", "/v1/agents/a"),
        ("UPDATE events SET event_type = 'from the future'", "/v1/events"),
        ("UPDATE events SET detail = '{'", "/v1/events"),
    ] {
        sqlx::query(change).execute(&pool).await.unwrap();
        let answer = sidecar.api.get(path).await;
        assert!(!answer.headers.contains_key("retry-after"), "{change}");
        let problem = answer.problem(500);
        assert!(problem["detail"].as_str().unwrap().contains("cannot read"), "{change}: {problem}");
    }
}

#[tokio::test]
async fn readyz_is_red_for_a_while_after_a_kill_could_not_be_written_although_the_probe_can() {
    let sidecar = Sidecar::guarding("a").await;
    let options = SqliteConnectOptions::new().filename(sidecar.dir.path().join("test.db"));
    let pool = SqlitePool::connect_with(options).await.unwrap();
    // As on a disk that has room for the probe, and not for a kill.
    let full = "CREATE TRIGGER full BEFORE INSERT ON kills BEGIN SELECT RAISE(FAIL, 'the disk is full'); END";
    sqlx::query(full).execute(&pool).await.unwrap();
    assert_eq!(sidecar.api.get("/readyz").await.status, 200);
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.problem(503);
    let problem = sidecar.api.get("/readyz").await.problem(503);
    assert_eq!(problem["detail"], "the database could not take a change a moment ago");
    sqlx::query("DROP TRIGGER full").execute(&pool).await.unwrap();
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    eventually("ready again", || async { sidecar.api.get("/readyz").await.status == 200 }).await;
}

#[tokio::test]
async fn a_damaged_file_is_an_internal_error_and_readyz_is_red() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.db");
    let store = Store::sqlite(&path).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    for n in 0..3_000 {
        tx.save_agent(&Agent::new(&format!("agent-{n}"), 1)).await.unwrap();
    }
    tx.commit().await.unwrap();
    store.close().await;
    let mut content = fs::read(&path).unwrap();
    // Agents are at the end. The first pages hold the schema.
    let damaged = content.len() / 8 * 7;
    content[damaged..].fill(0x5a);
    fs::write(&path, content).unwrap();
    let sidecar = Sidecar::over(Arc::new(Store::sqlite(&path).await.unwrap()), Limits::default(), dir).await;
    assert_eq!(sidecar.api.get("/readyz").await.status, 200, "nothing has read the damaged part");
    let answer = sidecar.api.get("/v1/overview").await;
    assert!(!answer.headers.contains_key("retry-after"), "trying again cannot help");
    assert_eq!(answer.problem(500)["detail"], "the database file is damaged: restore a backup");
    assert_eq!(
        sidecar.api.get("/readyz").await.problem(503)["detail"],
        "the database file is damaged: restore a backup"
    );
}

#[tokio::test]
async fn nothing_is_acknowledged_after_a_file_of_the_database_was_cut_off() {
    for (ending, length) in [("", 0), ("", 8_192), ("-wal", 0), ("-wal", 5_000)] {
        let sidecar = Sidecar::guarding("a").await;
        let path = sidecar.dir.path().join("test.db");
        if ending.is_empty() {
            let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&path)).await.unwrap();
            sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&pool).await.unwrap();
        }
        sidecar.api.report("/v1/kills", kill("before", "b", 1)).await.ok();
        let file =
            fs::OpenOptions::new().write(true).open(sidecar.dir.path().join(format!("test.db{ending}"))).unwrap();
        file.set_len(length).unwrap();
        for attempt in 0..3 {
            let answer = sidecar.api.report("/v1/kills", kill(&format!("after-{attempt}"), "a", 1)).await;
            assert!(answer.status.is_server_error(), "{ending} {length}: {} {}", answer.status, answer.text);
        }
        assert_eq!(sidecar.api.get("/readyz").await.status, 503, "{ending} {length}");
    }
}

#[tokio::test]
async fn files_that_sqlite_has_made_shorter_are_written_as_before() {
    let sidecar = Sidecar::guarding("a").await;
    let path = sidecar.dir.path().join("test.db");
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&path)).await.unwrap();
    for (n, sql) in [(0, "PRAGMA wal_checkpoint(TRUNCATE)"), (1, "VACUUM"), (2, "PRAGMA wal_checkpoint(TRUNCATE)")] {
        // More than fits into the log that follows, so that its shorter file is noticed.
        let agents: Vec<_> = (0..500).map(|agent| json!({"agent_id": format!("seen-{n}-{agent}")})).collect();
        sidecar.api.report("/v1/observations", json!({"agents": agents})).await.ok();
        sidecar.service.write_observations().await.unwrap();
        sqlx::query("DELETE FROM events").execute(&pool).await.unwrap();
        sqlx::query(sql).execute(&pool).await.unwrap();
        sidecar.api.report("/v1/kills", kill(&format!("k{n}"), &format!("agent-{n}"), 1)).await.ok();
        assert_eq!(sidecar.api.get("/readyz").await.status, 200, "{sql}");
    }
}

#[tokio::test]
async fn a_commit_whose_checkpoint_makes_the_file_shorter_is_acknowledged() {
    let sidecar = Sidecar::guarding("a").await;
    let path = sidecar.dir.path().join("test.db");
    let mut outside = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    sqlx::query("PRAGMA wal_autocheckpoint = 0").execute(&mut outside).await.unwrap();
    sqlx::query("CREATE TABLE ballast AS SELECT randomblob(2000000) AS bytes").execute(&mut outside).await.unwrap();
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut outside).await.unwrap();
    sidecar.api.report("/v1/kills", kill("k0", "agent-0", 1)).await.ok();
    let length = || fs::metadata(&path).unwrap().len();
    let before = length();
    sqlx::query("DROP TABLE ballast").execute(&mut outside).await.unwrap();
    sqlx::query("VACUUM").execute(&mut outside).await.unwrap();
    assert_eq!(length(), before, "only the next checkpoint makes it shorter");
    for n in 1..2_000 {
        sidecar.api.report("/v1/kills", kill(&format!("k{n}"), &format!("agent-{n}"), 1)).await.ok();
        if length() < before {
            break;
        }
    }
    assert!(length() < before, "there was a checkpoint");
    assert_eq!(sidecar.api.get("/readyz").await.status, 200);
}
