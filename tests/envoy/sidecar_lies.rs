//! A sidecar that answers nonsense does no harm: an answer that is not entirely valid is not applied, and traffic continues.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::{wait_until, wait_until_some};
use lab::{Answer, EnvoyConfig, MockLlm};
use serde_json::{Value, json};

use crate::support::{SIXTH_REFUSED, chatting, looping, run};

/// A server in place of the sidecar that gives a chosen answer to every sync, and a chosen status to every report.
struct Liar {
    server: MockLlm,
    says: Arc<Mutex<Answer>>,
}

impl Liar {
    async fn start(report_status: u16) -> Self {
        let (server, says) = (MockLlm::start().await, Arc::new(Mutex::new(good(1, &["known"]))));
        let answer = Arc::clone(&says);
        server.decide(move |ask| {
            let answer = answer.lock().unwrap().clone();
            Some(if ask.path == "/v1/sync" { answer } else { marked(report_status, "no") })
        });
        Self { server, says }
    }

    /// Starts a mesh that uses it as sidecar, and waits for the first policy.
    async fn mesh(&self, filter: Value) -> Mesh {
        let address = self.server.address();
        let mesh = Mesh::with(MeshOptions {
            filter,
            sidecar_runs: false,
            envoy: Box::new(move |config| EnvoyConfig { sidecar: Some(address), ..config }),
            ..MeshOptions::default()
        })
        .await;
        wait_until("the first policy is in force", SOON, || async { self.polls() > 1 }).await;
        mesh
    }

    /// Gives this answer from now on, and waits until it has been sent several times.
    async fn say(&self, answer: Answer) {
        *self.says.lock().unwrap() = answer;
        let before = self.polls();
        wait_until("the answer was sent", SOON, || async { self.polls() >= before + 3 }).await;
    }

    fn polls(&self) -> usize {
        self.server.received().iter().filter(|request| request.path.starts_with("/v1/sync")).count()
    }
}

#[test]
fn a_sidecar_that_answers_nonsense_leaves_traffic_and_the_last_known_policy_alone() {
    run(async {
        let liar = Liar::start(500).await;
        let mesh = liar.mesh(json!({})).await;
        assert_eq!(looping(&mesh.caller("known"), 6).await, SIXTH_REFUSED);

        for (number, (what, lie)) in lies().into_iter().enumerate() {
            liar.say(lie).await;
            let (next, stranger) = (format!("agent-{number}"), format!("stranger-{number}"));
            assert_eq!(chatting(&mesh.caller("known"), 1).await, [403], "after {what}, a killed agent stays killed");
            assert_eq!(
                looping(&mesh.caller(&stranger), 8).await,
                [200; 8],
                "after {what}, calls of unknown agents pass"
            );
            liar.say(good(10 + number as u64, &[&next])).await;
            assert_eq!(looping(&mesh.caller(&next), 6).await, SIXTH_REFUSED, "after {what}, a valid policy is applied");
        }
        assert!(
            mesh.envoy.stat("wasmcustom.kill_switch.outbox_depth").await > 0,
            "reports are kept until a sidecar accepts them"
        );
    });
}

#[test]
fn a_sidecar_that_does_not_know_of_a_kill_does_not_undo_it_but_an_activation_does() {
    run(async {
        let liar = Liar::start(500).await;
        let mesh = liar.mesh(json!({})).await;
        assert_eq!(looping(&mesh.caller("known"), 6).await, SIXTH_REFUSED);
        for (epoch, full) in [("e", false), ("e", true), ("another", true)] {
            let unaware = json!({"epoch": epoch, "rev": 20, "full": full, "agents": [policy("known")]});
            liar.say(marked(200, &unaware.to_string())).await;
            assert_eq!(chatting(&mesh.caller("known"), 1).await, [403], "epoch {epoch}, full: {full}");
        }
        let mut activated = policy("known");
        activated["generation"] = json!(1);
        let activation = json!({"epoch": "another", "rev": 21, "agents": [activated]});
        liar.say(marked(200, &activation.to_string())).await;
        assert_eq!(looping(&mesh.caller("known"), 6).await, SIXTH_REFUSED, "activated, with a fresh window");
    });
}

#[test]
fn a_report_that_the_sidecar_refuses_for_good_is_logged_without_its_excerpt() {
    run(async {
        let liar = Liar::start(422).await;
        let mesh = liar.mesh(json!({"evidence": "excerpt"})).await;
        assert_eq!(looping(&mesh.caller("known"), 6).await, SIXTH_REFUSED);
        let line = wait_until_some("a line in the log", SOON, || async {
            mesh.envoy.log().lines().find(|line| line.contains("refuses a kill report (422)")).map(str::to_owned)
        })
        .await;
        assert!(line.contains("\"agent_id\":\"known\"") && line.contains("\"score\":13"), "{line}");
        let sent = liar.server.received().into_iter().find(|request| request.path == "/v1/kills").unwrap();
        assert!(sent.json()["excerpt"].as_str().unwrap().contains("shipped"), "the report itself has an excerpt");
        assert!(!mesh.envoy.log().contains("shipped"), "the log does not contain it: {line}");
    });
}

#[test]
fn a_sidecar_that_never_waits_is_not_flooded() {
    run(async {
        let liar = Liar::start(500).await;
        let mesh = liar.mesh(json!({})).await;
        for answer in [Answer { delay_ms: 0, ..marked(304, "") }, Answer { delay_ms: 0, ..good(1, &["known"]) }] {
            liar.say(answer).await;
            let (before, started) = (liar.polls(), Instant::now());
            wait_until("some polls", SOON, || async { liar.polls() > before + 40 }).await;
            let each = started.elapsed() / 40;
            eprintln!("a sidecar that never waits gets a poll every {each:?}");
            assert!(each > Duration::from_millis(5), "a poll every {each:?}");
        }
        assert_eq!(looping(&mesh.caller("known"), 6).await, SIXTH_REFUSED);
    });
}

fn lies() -> Vec<(&'static str, Answer)> {
    let half_good = json!({"epoch": "e", "rev": 9, "agents": [policy("stranger-3"), {"agent_id": 7}]});
    let unmarked = Answer { headers: Vec::new(), ..good(9, &["stranger-4"]) };
    vec![
        ("an error", marked(500, "the database is gone")),
        ("garbage", marked(200, "<html>it works!</html>")),
        ("an empty body", marked(200, "")),
        ("an answer that is only partly valid", marked(200, &half_good.to_string())),
        ("an answer without the sidecar's marker", unmarked),
        ("an answer that is cut off", Answer { cut_after: Some(1), ..good(9, &["stranger-5"]) }),
        ("a redirect", Answer { status: 302, ..good(9, &["stranger-6"]) }),
    ]
}

/// Returns a sync in which these agents are active and have the kill switch on. It is not `full`: other policies stay.
fn good(rev: u64, agents: &[&str]) -> Answer {
    let agents: Vec<Value> = agents.iter().map(|agent| policy(agent)).collect();
    marked(200, &json!({"epoch": "e", "rev": rev, "full": false, "agents": agents, "deleted": []}).to_string())
}

fn policy(agent: &str) -> Value {
    json!({"agent_id": agent, "active": true, "kill_switch_enabled": true})
}

/// Returns an answer with the header by which the filter recognises its sidecar. The delay limits the rate of polls.
fn marked(status: u16, body: &str) -> Answer {
    Answer {
        status,
        raw: Some(body.to_owned()),
        headers: vec![("x-kill-switch".to_owned(), "test".to_owned())],
        delay_ms: 20,
        ..Answer::default()
    }
}
