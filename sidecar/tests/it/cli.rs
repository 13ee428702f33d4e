//! The command line with a real server: what it prints, and its exit codes.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};

use agent_kill_switch::turn::{Answer, ToolTurn};
use serde_json::{Value, json};

use crate::support::calls::{answer, call, report, text};
use crate::support::process::{Killed, Process, binary, cli, token_file};
use crate::support::{Api, eventually, key, kill, kill_with, stop};

fn printed(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_str(&printed(output)).unwrap()
}

fn failed(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test]
async fn an_agent_is_set_killed_shown_and_activated() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    let run = |arguments: &[&str]| cli(dir.path(), &process.api, arguments);
    let set = ["agents", "set", "team/a", "--enabled", "true", "--window-size", "10", "--threshold", "5", "-o", "json"];
    let agent = json_of(&run(&set));
    assert_eq!((&agent["agent_id"], &agent["kill_switch_window_size"]), (&json!("team/a"), &json!(10)));
    let again = json_of(&run(&["agents", "set", "team/a", "--action", "block", "-o", "json"]));
    assert_eq!((&again["action"], &again["kill_switch_threshold"]), (&json!("block"), &json!(5.0)), "the rest stays");

    process.api.report("/v1/kills", kill("k", "team/a", 1)).await.ok();
    let table = printed(&run(&["agents", "list"]));
    assert!(table.starts_with("AGENT   STATE"), "{table}");
    assert!(table.contains("team/a  deactivated by kill switch  on"), "{table}");
    assert_eq!(json_of(&run(&["agents", "get", "team/a", "-o", "json"]))["active"], false);

    let activate = ["agents", "activate", "team/a", "--reason", "fixed the prompt", "--by", "Ada", "-o", "json"];
    assert_eq!(json_of(&run(&activate))["active"], true);
    printed(&run(&["agents", "deactivate", "team/a"]));
    let events = json_of(&run(&["events", "list", "--agent", "team/a", "-o", "json"]));
    let types: Vec<_> = events.as_array().unwrap().iter().map(|event| event["event_type"].clone()).collect();
    assert_eq!(types, ["deactivated", "activated", "kill_switch", "policy_changed", "created"]);
    assert_eq!((&events[1]["reason"], &events[1]["by"]), (&json!("fixed the prompt"), &json!("Ada")));
    let table = printed(&run(&["events", "list", "--type", "kill_switch"]));
    assert_eq!(table.lines().count(), 2, "{table}");
}

#[tokio::test]
async fn the_user_of_the_servers_url_is_never_printed() {
    let address = lab::proc::free_address();
    for arguments in [
        &["agents", "list"][..],
        &["doctor"],
        &["doctor", "--envoy-admin", "http://user:sesame@127.0.0.1:1"],
        &["agents", "list", "--help"],
    ] {
        let mut command = binary();
        command.env("KILL_SWITCH_SERVER", format!("http://user:sesame@{address}")).env("KILL_SWITCH_TOKEN", "a-token");
        let output = command.args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        let is_help = arguments.contains(&"--help");
        assert!(is_help || said.contains(&format!("http://{address}")), "{arguments:?}: {said}");
        assert!(!said.contains("sesame"), "{arguments:?}: {said}");
    }
}

#[tokio::test]
async fn why_tells_the_story_of_a_kill() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    let run = |arguments: &[&str]| cli(dir.path(), &process.api, arguments);
    assert!(failed(&run(&["why", "nobody"]), 4).contains("there is no agent nobody"));
    process.api.guarded("bot").await;
    assert!(failed(&run(&["why", "bot"]), 4).contains("agent bot was never stopped: there is no kill to explain"));
    let items = |number| [call(number, ToolTurn::None), answer(number, Answer::Text(text(2)))];
    let items: Vec<_> = (1..=6).flat_map(items).collect();
    process.api.report("/v1/entries", report("edge-1", "bot", 6_400, &items[..11])).await.ok();
    let killed = json!({"at_ms": 0, "tools": ["wait; reboot"]});
    let event = process.api.report("/v1/kills", kill_with("k", "bot", 1, killed)).await.ok()["event_id"].to_string();
    eventually("the calls are stored", || async {
        let story = process.api.get(&format!("/v1/kills/{event}")).await.ok();
        story["calls"].as_array().is_some_and(|calls| calls.len() == 6)
    })
    .await;
    let told = printed(&run(&["why", "bot"]));
    assert!(told.starts_with("The kill switch deactivated agent bot: "), "{told}");
    for line in [
        "Now         the agent is inactive",
        "Refused     no call was reported as refused since",
        "Client gets 403: Agent bot is inactive",
        "CALL  AGE     CONVERSATION  BROUGHT  CAME BACK",
        "1     -5.0 s  -             text     text                     0      -",
        "1, 2, 3, 4 (the same input, the same answer before it); 5 (the same input)",
        "Nobody was told: no alert rule applied to this event.",
        "kill-switch agents activate bot\n  With the settings as they are, call 6 of the last 6 stored calls",
        "kill-switch agents set bot --action observe && kill-switch agents activate bot",
        "kill-switch agents set bot --tool 'wait; reboot=ignore'",
        "kill-switch agents set bot --threshold 13.5\n  With this setting, none of the last 6 stored calls",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let scores: Vec<_> = json_of(&run(&["why", "bot", "--event", &event, "-o", "json"]))["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["score"].as_f64().unwrap())
        .collect();
    assert_eq!(scores, [0.0, 1.0, 4.0, 7.0, 10.0, 13.0]);
    assert!(failed(&run(&["why", "other", "--event", &event]), 4).contains("is about agent bot, not other"));
    assert!(failed(&run(&["why", "bot", "--event", "1"]), 4).contains("there is no kill with the event id 1"));
}

#[tokio::test]
async fn stopped_conversations_are_listed_and_resumed() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    let run = |arguments: &[&str]| cli(dir.path(), &process.api, arguments);
    let set = [
        "agents",
        "set",
        "team/a",
        "--scope",
        "session",
        "--session-stop-seconds",
        "600",
        "--escalate-after",
        "0",
        "--idle-reset-seconds",
        "30",
        "-o",
        "json",
    ];
    let agent = json_of(&run(&set));
    let given = json!({"scope": "session", "session_stop_seconds": 600, "escalate_after": 0, "idle_reset_seconds": 30});
    crate::support::assert_members(&agent, given);
    let table = printed(&run(&["agents", "get", "team/a"]));
    assert!(
        table.contains("ACTION      SCOPE    COUNTING") && table.contains("deactivate  session  progress"),
        "{table}"
    );

    for session in 1..=2 {
        process.api.report("/v1/kills", stop(&format!("k{session}"), "team/a", session)).await.ok();
    }
    let table = printed(&run(&["agents", "sessions", "team/a"]));
    assert!(table.starts_with("KEY               SESSION  ACTION      STOPPED"), "{table}");
    assert!(table.lines().nth(1).unwrap().starts_with("0000000000000002  chat-2   deactivate  "), "{table}");
    let resume = ["agents", "resume", "team/a", &key(1), "--reason", "the tool works again", "--by", "Ada"];
    let table = printed(&run(&resume));
    assert!(table.contains("chat-1   deactivate  "), "{table}");
    assert!(failed(&run(&resume), 4).contains("there is no stopped conversation 0000000000000001"));
    let sessions = json_of(&run(&["agents", "sessions", "team/a", "-o", "json"]));
    assert_eq!((sessions.as_array().unwrap().len(), &sessions[0]["session"]), (1, &json!("chat-2")));
    let table = printed(&run(&["events", "list", "--agent", "team/a"]));
    assert!(table.contains("session_resumed  team/a  chat-1   -      token:operator  the tool works again"), "{table}");
    assert!(failed(&run(&["agents", "sessions", "nobody"]), 4).contains("there is no agent nobody"));
}

#[tokio::test]
async fn rules_of_tools_are_set_and_removed_one_by_one() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    let run = |arguments: &[&str]| {
        cli(dir.path(), &process.api, &[&["agents", "set", "a", "-o", "json"], arguments].concat())
    };
    let set = |arguments: &[&str]| json_of(&run(arguments))["tools"].clone();
    let both = json!({"get_status": 20, "wait_for_job": "ignore"});
    assert_eq!(set(&["--tool", "wait_for_job=ignore", "--tool", "get_status=20"]), both, "the agent is created");
    assert_eq!(set(&["--threshold", "12", "--answer-loop", "cut"]), both);
    assert_eq!(set(&["--tool", "get_status=default", "--tool", "a=b=5"]), json!({"a=b": 5, "wait_for_job": "ignore"}));
    assert_eq!(process.api.agent("a").await["answer_loop"], "cut");
    for (rule, code, expected) in [
        ("wait", 2, "must be NAME=ignore, NAME=N or NAME=default"),
        ("wait=never", 5, r#"tools.wait ("never") must be "ignore" or a whole number from 2 to 100"#),
        ("wait=101", 5, "tools.wait (101) must be"),
    ] {
        let error = failed(&run(&["--tool", rule]), code);
        assert!(error.contains(expected), "{rule}: {error}");
    }
}

#[tokio::test]
async fn long_lists_are_fetched_page_by_page() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    for page in 0..2 {
        let agents: Vec<_> = (0..700).map(|n| json!({"agent_id": format!("a-{page}-{n}")})).collect();
        process.api.report("/v1/observations", json!({"agents": agents})).await.ok();
    }
    // The agents are written within a second, in the order of their ids.
    eventually("the last agent is written", || async { process.api.get("/v1/agents/a-1-99").await.status == 200 })
        .await;
    let count = |arguments: &[&str]| json_of(&cli(dir.path(), &process.api, arguments)).as_array().unwrap().len();
    assert_eq!(count(&["agents", "list", "-o", "json"]), 1_400);
    assert_eq!(count(&["agents", "list", "-o", "json", "--limit", "1100"]), 1_100);
    assert_eq!(count(&["agents", "list", "-o", "json", "-q", "A-1-69"]), 11);
}

#[tokio::test]
async fn exit_codes_tell_scripts_what_went_wrong() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    process.api.guarded("a").await;
    let run = |arguments: &[&str]| cli(dir.path(), &process.api, arguments);
    for (arguments, code, expected) in [
        (&["agents", "explode"][..], 2, ""),
        (&["agents", "get", "nobody"], 4, "there is no agent nobody"),
        (
            &["agents", "set", "a", "--window-size", "101"],
            5,
            "kill_switch_window_size (101) must be a whole number from 2 to 100",
        ),
        (&["agents", "set", "a", "--threshold", "-1"], 5, ""),
        (
            &["agents", "set", "a", "--escalate-after", "65"],
            5,
            "escalate_after (65) must be a whole number from 0 to 64",
        ),
        (&["agents", "set", "a", "--scope", "team"], 5, "must be agent or session"),
    ] {
        let error = failed(&run(arguments), code);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }

    for (token, expected) in [
        ("a-token-that-is-wrong", ""),
        ("", "KILL_SWITCH_TOKEN"),
        (process.api.enforcer.as_str(), "needs a token of scope viewer"),
    ] {
        let stranger = Api { operator: token.to_owned(), ..process.api.clone() };
        let error = failed(&cli(dir.path(), &stranger, &["agents", "list"]), 3);
        assert!(error.contains(expected), "{token}: {error}");
    }
    let nowhere = Api::at("http://127.0.0.1:1");
    failed(&cli(dir.path(), &nowhere, &["agents", "list"]), 6);
}

#[tokio::test]
async fn tokens_are_created_listed_and_revoked_by_api_and_by_database() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    let works = async |secret: &str| {
        let request = process.api.request(reqwest::Method::GET, "/v1/agents", secret);
        Api::take(request).await.status == 200
    };
    let by_database: [&str; 2] = ["--db", "kill-switch.db"];
    for place in [[].as_slice(), by_database.as_slice()] {
        let run = |arguments: &[&str]| cli(dir.path(), &process.api, &[arguments, place].concat());
        let secret = printed(&run(&["tokens", "create", "--name", "ci", "--scope", "viewer"])).trim().to_owned();
        eventually("the token works", || works(&secret)).await;
        let listed = run(&["tokens", "list", "-o", "json"]);
        assert!(!printed(&listed).contains(&secret));
        let tokens = json_of(&listed);
        let token = tokens.as_array().unwrap().iter().find(|t| t["name"] == "ci" && t["revoked"].is_null()).unwrap();
        printed(&run(&["tokens", "revoke", token["token_id"].as_str().unwrap()]));
        eventually("the token is revoked", || async { !works(&secret).await }).await;
        failed(&run(&["tokens", "revoke", token["token_id"].as_str().unwrap()]), 4);
    }
    failed(&cli(dir.path(), &process.api, &["tokens", "list", "--db", "none.db"]), 1);
}

#[tokio::test]
async fn tail_prints_events_as_they_happen() {
    let (_dir, process) = Process::start_in_new_dir(&[]);
    process.api.guarded("a").await;
    let tail = binary()
        .env("KILL_SWITCH_TOKEN", &process.api.operator)
        .args(["events", "tail", "-o", "json", "--server", &process.api.base])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut tail = Killed(tail);
    let mut lines = BufReader::new(tail.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["event_type"], "created");
    process.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    assert_eq!(next()["event_type"], "kill_switch");
}

/// Returns the exit code of `doctor`, and the name and status of each check.
fn checks(dir: &Path, api: &Api, more: &[&str]) -> (Option<i32>, Vec<[Value; 2]>) {
    let output = cli(dir, api, &[["doctor", "-o", "json"].as_slice(), more].concat());
    let report: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report.iter().map(|check| [check["check"].clone(), check["status"].clone()]);
    (output.status.code(), checks.collect())
}

#[tokio::test]
async fn doctor_reports_every_check() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    let epoch = process.api.sync("envoy=edge").await.ok()["epoch"].as_str().unwrap().to_owned();
    process.api.sync(&format!("envoy=edge&epoch={epoch}&since=0")).await;
    let (code, passed) = checks(dir.path(), &process.api, &["--db", "kill-switch.db"]);
    assert_eq!(passed, [["database", "ok"], ["server", "ok"], ["ready", "ok"], ["envoys", "ok"], ["pause", "ok"]]);
    assert_eq!(code, Some(0));

    let nowhere = Api::at("http://127.0.0.1:1");
    let (code, failed) = checks(dir.path(), &nowhere, &["--db", "none.db", "--envoy-admin", "http://127.0.0.1:1"]);
    assert!(failed.iter().all(|[_, status]| status == "fail"), "{failed:?}");
    assert_eq!((code, failed.len()), (Some(1), 6));
    assert!(!dir.path().join("none.db").exists(), "a check does not create the database");
}

#[tokio::test]
async fn doctor_asks_the_admin_interface_of_envoy_whether_it_is_live() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    for (state, status) in [("LIVE\n", "ok"), ("PRE_INITIALIZING\n", "fail")] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin = format!("http://{}", listener.local_addr().unwrap());
        let envoy = axum::Router::new().route("/ready", axum::routing::get(move || async move { state }));
        tokio::spawn(async move { axum::serve(listener, envoy).await });
        let (dir, api) = (dir.path().to_owned(), process.api.clone());
        let asked = tokio::task::spawn_blocking(move || checks(&dir, &api, &["--envoy-admin", &admin]));
        let (_, checks) = asked.await.unwrap();
        assert_eq!(checks.last().unwrap(), &["envoy admin", status]);
    }
}

#[tokio::test]
async fn another_server_on_the_port_is_not_mistaken_for_the_sidecar() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = Api::at(&format!("http://{}", listener.local_addr().unwrap()));
    tokio::spawn(async move { axum::serve(listener, axum::Router::new()).await });
    let dir = tempfile::tempdir().unwrap();
    let run = |api: Api, arguments: &'static [&'static str]| {
        let dir = dir.path().to_owned();
        tokio::task::spawn_blocking(move || cli(&dir, &api, arguments))
    };
    let listed = run(other.clone(), &["agents", "list"]).await.unwrap();
    assert!(failed(&listed, 6).contains("it is not a kill-switch"));
    let doctor = run(other, &["doctor"]).await.unwrap();
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("something else listens there"));
}

#[test]
fn completion_is_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&binary().args(["completion", shell]).output().unwrap());
        assert!(script.contains("kill-switch"), "{shell}");
    }
}

#[test]
fn the_token_may_come_from_a_file() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    let output = binary()
        .args(["agents", "list", "--server", &process.api.base, "--token-file"])
        .arg(token_file(dir.path(), "viewer"))
        .output()
        .unwrap();
    printed(&output);
}
