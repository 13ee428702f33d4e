//! The overview and the activity of agents over HTTP: who sees a button, what is counted, and that pages stay small.

use kill_switch::model::Agent;
use kill_switch::service::Limits;
use serde_json::json;

use crate::dashboard::Visitor;
use crate::support::{OPERATOR, START_MS, Sidecar, VIEWER, key, kill, kill_with, stop};

#[tokio::test]
async fn viewers_see_no_button_and_a_form_without_its_key_does_nothing() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.guarded("b").await;
    sidecar.api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    sidecar.api.report("/v1/kills", stop("k2", "b", 1)).await.ok();
    let mut viewer = Visitor::signed_in(&sidecar, VIEWER).await;
    let page = viewer.get("/").await.text().await.unwrap();
    assert!(page.contains("Inactive") && page.contains("Stopped"), "{page}");
    for hidden in [">Activate<", ">Resume<", "Pause the kill switch", "Make a rule"] {
        assert!(!page.contains(hidden), "{hidden} in {page}");
    }
    let form_key = viewer.key("/").await;
    let resume = format!("/agents/b/sessions/{}/resume", key(1));
    for path in ["/agents/a/activate", &resume] {
        let fields = [("form_key", form_key.as_str()), ("from", "overview")];
        assert_eq!(viewer.post(path, &fields).await.status(), 403, "{path}");
    }
    let mut operator = Visitor::signed_in(&sidecar, OPERATOR).await;
    assert_eq!(operator.post("/agents/a/activate", &[("from", "overview")]).await.status(), 403);
    assert_eq!(sidecar.api.agent("a").await["active"], false);
    let page = operator.get("/").await.text().await.unwrap();
    assert!(page.contains(">Activate<") && page.contains(">Resume<"), "{page}");
    let form_key = operator.key("/").await;
    let answer = operator.post("/agents/a/activate", &[("form_key", &form_key), ("from", "overview")]).await;
    assert_eq!(answer.headers()["location"], "/?did=activated&agent_id=a");
}

#[tokio::test]
async fn the_api_shows_what_the_page_shows() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.put("/v1/agents/b", json!({"kill_switch_enabled": true, "action": "observe"})).await.ok();
    sidecar.api.put("/v1/agents/c", json!({})).await.ok();
    sidecar.api.post("/v1/agents/c/deactivate", json!({})).await.ok();
    sidecar.api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    sidecar.api.post("/v1/agents/a/activate", json!({})).await.ok();
    sidecar.pass(3_600);
    sidecar.api.report("/v1/kills", kill("k2", "a", 2)).await.ok();
    sidecar.api.report("/v1/kills", kill_with("k3", "b", 1, json!({"action": "observe"}))).await.ok();
    let shown = sidecar.api.get("/v1/overview").await.ok();
    let states = json!({"guarded": 0, "observing": 1, "switch_off": 0, "killed": 1, "inactive": 1});
    assert_eq!((&shown["agents"], &shown["stopped_sessions"]), (&states, &json!(0)));
    let hours = shown["day"].as_array().unwrap();
    assert_eq!((hours.len(), shown["week"].as_array().unwrap().len()), (24, 7));
    let last = json!({"from": "2024-01-15T11:00:00.000Z", "kills": 1, "blocks": 0, "would_kills": 1});
    assert_eq!((&hours[23], &hours[22]["kills"], &hours[21]["kills"]), (&last, &json!(1), &json!(0)));
    let today = json!({"from": "2024-01-15T00:00:00.000Z", "kills": 2, "blocks": 0, "would_kills": 1});
    assert_eq!(shown["week"][6], today);
    let remedies: Vec<_> = shown["latest_kills"].as_array().unwrap().iter().map(|kill| &kill["remedy"]).collect();
    assert_eq!(remedies, [&json!("activate"), &json!(null)], "the first kill is over");
    assert_eq!(shown["envoys"], json!({"connected": 0, "up_to_date": 0, "known": 0}));
    assert_eq!(shown["alerts"], json!({"rules": 0, "failed": 0, "retrying": 0}));
    assert_eq!(shown["paused"], false);

    // A day later, the hours are empty and the week is not.
    sidecar.pass(86_400);
    let shown = sidecar.api.get("/v1/overview").await.ok();
    assert!(shown["day"].as_array().unwrap().iter().all(|hour| hour["kills"] == 0), "{shown}");
    assert_eq!(shown["week"][5]["kills"], 2);
}

#[tokio::test]
async fn the_activity_of_agents_is_ranked_by_score_or_by_rate() {
    let sidecar = Sidecar::start().await;
    for id in ["calm", "close", "fast"] {
        sidecar.api.guarded(id).await;
    }
    let seen = |id: &str, requests: u64, score: f64| {
        let sample = json!({"at_ms": START_MS, "score": score, "similar_prompts": 0, "similar_responses": 0,
            "repeated_tool_calls": 0});
        json!({"agent_id": id, "requests": requests, "last_seen_ms": START_MS, "scores": [sample]})
    };
    let report = json!({"agents": [seen("calm", 3, 1.0), seen("close", 6, 9.0), seen("fast", 60, 2.0)]});
    sidecar.api.report("/v1/observations", report).await.ok();
    sidecar.service.write_observations().await.unwrap();
    for (query, order) in [("", ["close", "fast", "calm"]), ("?sort=rate", ["fast", "close", "calm"])] {
        let shown = sidecar.api.get(&format!("/v1/activity{query}")).await.ok();
        let ids: Vec<_> = shown["agents"].as_array().unwrap().iter().map(|one| &one["agent"]["agent_id"]).collect();
        assert_eq!(ids, order, "{query}");
    }
    let first = &sidecar.api.get("/v1/activity?sort=rate&limit=1").await.ok()["agents"];
    assert_eq!((first.as_array().unwrap().len(), &first[0]["score"]), (1, &json!(2.0)));
    assert_eq!(first[0]["calls_per_second"], 4.0, "60 calls, averaged over 15 seconds");
    // After a while the agents are silent, and their scores are of no interest.
    sidecar.pass(600);
    let later = sidecar.api.get("/v1/activity?sort=rate").await.ok();
    assert_eq!((&later["agents"][0]["score"], &later["agents"][0]["calls_per_second"]), (&json!(null), &json!(0.0)));
    sidecar.api.get("/v1/activity?sort=name").await.problem(422);
}

#[tokio::test]
async fn pages_have_a_bounded_number_of_rows_however_many_agents_and_kills_there_are() {
    let sidecar = Sidecar::with(Limits { storm_kills: 0, ..Limits::default() }).await;
    let mut tx = sidecar.store.begin().await.unwrap();
    for number in 0..300 {
        tx.save_agent(&Agent::new(&format!("agent-{number:03}"), 1)).await.unwrap();
    }
    tx.commit().await.unwrap();
    for number in 0..110 {
        sidecar.api.report("/v1/kills", kill(&format!("k{number}"), &format!("agent-{number:03}"), 1)).await.ok();
    }
    let mut visitor = Visitor::signed_in(&sidecar, OPERATOR).await;
    for (path, rows, next) in [
        // Ten kills, and the tables of 24 hours and 7 days.
        ("/", 10 + 24 + 7, None),
        ("/agents", 50, Some("/agents?after=agent-049")),
        ("/agents?state=killed&after=agent-049", 50, Some("/agents?state=killed&amp;after=agent-099")),
        ("/events", 100, Some("/events?before=")),
    ] {
        let page = visitor.get(path).await.text().await.unwrap();
        let body_rows = page.matches("<tr").count() - page.matches("<thead><tr").count();
        assert_eq!(body_rows, rows, "{path}");
        assert!(next.is_none_or(|next| page.contains(next)), "{path} leads to the next page: {page}");
        assert!(page.len() < 200_000, "{path} has {} bytes", page.len());
    }
}
