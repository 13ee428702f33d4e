//! The story of a kill, and settings that are tried on the stored calls: on both databases.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agent_kill_switch::turn::{Answer, ToolSignature, ToolTurn};
use kill_switch::service::{Change, Limits, Names};
use kill_switch::store::Store;
use serde_json::{Value, json};

use crate::support::calls::{SCORES, answer, call, report, text};
use crate::support::fleet::{on_both_databases, sidecar_over};
use crate::support::receiver::Receiver;
use crate::support::{START_MS, Sidecar, assert_members, kill, kill_with, stop};

on_both_databases!(
    a_story_lists_the_calls_of_the_loop_with_their_growing_scores,
    an_answer_that_comes_later_completes_its_stored_call,
    the_latest_calls_are_kept_and_a_deleted_agent_has_none,
    the_latest_calls_of_all_envoys_are_kept_if_all_come_in_one_second,
    a_story_says_what_was_refused_since_and_who_was_told,
    a_loop_over_two_envoys_has_a_story_with_the_calls_of_both,
    a_call_that_is_reported_to_one_of_two_replicas_is_stored_once,
);

fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    value[member].as_array().unwrap_or_else(|| panic!("{member} of {value}"))
}

fn scores(story: &Value) -> Vec<f64> {
    list(story, "calls").iter().map(|call| call["score"].as_f64().unwrap()).collect()
}

async fn guarded(store: Arc<Store>) -> Sidecar {
    let sidecar = sidecar_over(store, Limits::default()).await;
    sidecar.api.guarded("bot").await;
    sidecar
}

/// What a setting would have done: how many calls would have been stopped, and the first of them.
async fn tried(sidecar: &Sidecar, settings: Value) -> (usize, Option<usize>, bool) {
    let change = Change::parse(settings.as_object().unwrap(), Names::KillSwitch).unwrap();
    let preview = sidecar.service.preview("bot", &change).await.unwrap();
    (preview.stopped, preview.stops.first().map(|stop| stop.call), preview.is_exact())
}

async fn a_story_lists_the_calls_of_the_loop_with_their_growing_scores(store: Arc<Store>) {
    let sidecar = guarded(store).await;
    let event = sidecar.looped("bot", json!({})).await;
    let story = sidecar.story(event).await;
    assert_eq!(scores(&story), SCORES);
    assert_eq!(story["note"], Value::Null, "they are exactly what the Envoy saw");
    assert_members(&story["calls"][0], json!({"number": 1, "age_ms": 5000, "repeats": [], "brought": "text"}));
    let last = &story["calls"][5];
    assert_members(last, json!({"number": 6, "age_ms": 0, "conversation": null, "envoy": "edge-1"}));
    assert_members(last, json!({"similar_prompts": 5, "similar_responses": 4, "answer": "the loop was recognised"}));
    let repeated: Vec<_> = list(last, "repeats").iter().map(|one| one["number"].as_u64().unwrap()).collect();
    assert_eq!(repeated, [5, 4, 3, 2, 1]);
    assert_members(&last["repeats"][1], json!({"by": "the same input, the same answer before it"}));
    let summary = story["summary"].as_str().unwrap();
    assert!(summary.starts_with("The kill switch deactivated agent bot: the same prompt"), "{summary}");
    assert!(summary.ends_with("(score 13, threshold 10)."), "{summary}");
    assert_eq!(story["reply"]["status"], 403);
    assert!(story["reply"]["message"].as_str().unwrap().starts_with("Agent bot is inactive"), "{story}");

    for (index, remedy, effect) in [
        (0, "activate", "With the settings as they are, call 6 of the last 6 stored calls would have been stopped."),
        (
            1,
            "observe",
            "With this setting, none of the last 6 stored calls would have been refused. 1 loop would have been recorded.",
        ),
        (2, "raise_threshold", "With this setting, none of the last 6 stored calls would have been stopped."),
    ] {
        assert_members(&story["remedies"][index], json!({"remedy": remedy, "effect": effect}));
    }
    assert_eq!(story["remedies"][2]["threshold"], 13.5);
    for (settings, expected) in [
        (json!({"threshold": 10}), (1, Some(6), true)),
        (json!({"threshold": 13}), (0, None, true)),
        (json!({"threshold": 3.5}), (2, Some(3), true)),
        (json!({"window_size": 5, "threshold": 9}), (1, Some(5), true)),
        (json!({"idle_reset_seconds": 1}), (1, Some(6), true)),
        (json!({"counting": "literal"}), (1, Some(6), false)),
        (json!({"tools": {"wait": "ignore"}}), (1, Some(6), false)),
    ] {
        assert_eq!(tried(&sidecar, settings.clone()).await, expected, "{settings}");
    }
}

async fn an_answer_that_comes_later_completes_its_stored_call(store: Arc<Store>) {
    let sidecar = guarded(store).await;
    for number in 1..=6 {
        sidecar.reported("bot", &[call(number, ToolTurn::None)]).await;
        if number < 6 {
            sidecar.reported("bot", &[answer(number, Answer::Text(text(2)))]).await;
        }
    }
    let event = sidecar.killed("bot", json!({})).await;
    let story = sidecar.story(event).await;
    assert_eq!(scores(&story), SCORES);
    assert_eq!(story["calls"][4]["answer"], "text");
    // Without the answers, the same calls are one that is under way.
    let without: Vec<_> = (1..=6).map(|number| call(number, ToolTurn::None)).collect();
    sidecar.api.guarded("other").await;
    sidecar.reported("other", &without).await;
    let event = sidecar.killed("other", json!({})).await;
    let story = sidecar.story(event).await;
    let note = story["note"].as_str().unwrap();
    assert!(note.contains("gets the score 0 instead of 13"), "{note}");
}

async fn the_latest_calls_are_kept_and_a_deleted_agent_has_none(store: Arc<Store>) {
    let limits = Limits { calls_per_agent: 4, score_retention: Duration::from_secs(60), ..Limits::default() };
    let sidecar = sidecar_over(Arc::clone(&store), limits).await;
    for id in ["bot", "other"] {
        sidecar.api.guarded(id).await;
    }
    let kept = async |id: &str| {
        let calls = sidecar.service.stored_calls(id).await.unwrap();
        calls.iter().map(|call| call.item.number).collect::<Vec<_>>()
    };
    for number in 1..=9 {
        sidecar.reported("bot", &[call(number, ToolTurn::None)]).await;
        sidecar.reported("other", &[call(number, ToolTurn::None)]).await;
    }
    assert_eq!((kept("bot").await, kept("other").await), (vec![6, 7, 8, 9], vec![6, 7, 8, 9]));
    sidecar.api.delete("/v1/agents/bot").await.ok();
    assert_eq!(kept("bot").await, [0; 0]);
    // An unknown agent is not created by what is reported of its calls.
    sidecar.reported("bot", &[call(10, ToolTurn::None)]).await;
    assert_eq!((kept("bot").await.len(), sidecar.api.get("/v1/agents/bot").await.status.as_u16()), (0, 404));
    sidecar.pass(120);
    sidecar.service.expire().await.unwrap();
    assert_eq!(kept("other").await, [0; 0], "they are kept as long as scores");
}

async fn the_latest_calls_of_all_envoys_are_kept_if_all_come_in_one_second(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits { calls_per_agent: 4, ..Limits::default() }).await;
    sidecar.api.guarded("bot").await;
    for odd in [1, 0] {
        let items: Vec<_> = (1..=8).filter(|number| number % 2 == odd).map(|it| call(it, ToolTurn::None)).collect();
        let report = report(&format!("edge-{odd}"), "bot", 8_050, &items);
        sidecar.api.report("/v1/entries", report).await.ok();
    }
    sidecar.service.write_observations().await.unwrap();
    let calls = sidecar.service.stored_calls("bot").await.unwrap();
    assert_eq!(calls.iter().map(|call| call.item.number).collect::<Vec<_>>(), [5, 6, 7, 8]);
}

async fn a_story_says_what_was_refused_since_and_who_was_told(store: Arc<Store>) {
    let (sidecar, receiver) = (guarded(store).await, Receiver::start().await);
    let rule = json!({"name": "On call", "channel": "webhook", "target": receiver.url});
    sidecar.api.post("/v1/alerts", rule).await.ok();
    let event = sidecar.looped("bot", json!({})).await;
    sidecar.deliver().await;
    assert_members(&sidecar.story(event).await["refused"], json!({"calls": 0, "last": null}));
    for refused in [2, 5] {
        let seen = json!({"agents": [{"agent_id": "bot", "requests": refused, "refused": refused}]});
        sidecar.api.report("/v1/observations", seen).await.ok();
        sidecar.service.write_observations().await.unwrap();
        sidecar.pass(1);
    }
    let story = sidecar.story(event).await;
    assert_members(&story["refused"], json!({"calls": 7, "last": "2024-01-15T10:30:07.050Z"}));
    assert_members(&story["told"][0], json!({"name": "On call", "channel": "webhook", "status": "delivered"}));
    // The next stop counts for itself.
    sidecar.api.post("/v1/agents/bot/activate", json!({})).await.ok();
    sidecar.api.report("/v1/kills", kill("again", "bot", 2)).await.ok();
    let seen = json!({"agents": [{"agent_id": "bot", "requests": 1, "refused": 1}]});
    sidecar.api.report("/v1/observations", seen).await.ok();
    sidecar.service.write_observations().await.unwrap();
    assert_eq!(sidecar.story(event).await["refused"]["calls"], 7);
}

async fn a_loop_over_two_envoys_has_a_story_with_the_calls_of_both(store: Arc<Store>) {
    let sidecar = guarded(store).await;
    // PostgreSQL: the first read connects, and finds nothing.
    sidecar.service.merge_entries().await.unwrap();
    for number in 1..=6 {
        let sent_ms = u64::from(number) * 1_000 + 400;
        sidecar.clock.store(START_MS + sent_ms, Ordering::SeqCst);
        let items = [call(number, ToolTurn::None), answer(number, Answer::Text(text(2)))];
        let envoy = format!("edge-{}", number % 2);
        sidecar.api.report("/v1/entries", report(&envoy, "bot", sent_ms, &items)).await.ok();
        sidecar.service.publish_entries().await.unwrap();
        sidecar.service.merge_entries().await.unwrap();
    }
    sidecar.service.write_observations().await.unwrap();
    let event = sidecar.api.events("event_type=kill_switch").await[0]["id"].as_u64().unwrap();
    let story = sidecar.story(event).await;
    assert_eq!((scores(&story), &story["note"]), (SCORES.to_vec(), &Value::Null), "{story}");
    let envoys: Vec<_> = list(&story, "calls").iter().map(|call| call["envoy"].as_str().unwrap()).collect();
    assert_eq!(envoys, ["edge-1", "edge-0", "edge-1", "edge-0", "edge-1", "edge-0"]);
}

async fn a_call_that_is_reported_to_one_of_two_replicas_is_stored_once(store: Arc<Store>) {
    let sidecar = guarded(Arc::clone(&store)).await;
    let other = sidecar_over(Arc::clone(&store), Limits::default()).await;
    for number in 1..=4 {
        let replica = if number % 2 == 0 { &sidecar } else { &other };
        replica.reported("bot", &[call(number, ToolTurn::None)]).await;
        // Its answer reaches the other replica.
        let replica = if number % 2 == 0 { &other } else { &sidecar };
        replica.reported("bot", &[answer(number, Answer::Text(text(2)))]).await;
    }
    for replica in [&sidecar, &other] {
        replica.service.publish_entries().await.unwrap();
        replica.service.merge_entries().await.unwrap();
        replica.service.write_observations().await.unwrap();
    }
    let calls = sidecar.service.stored_calls("bot").await.unwrap();
    let numbers: Vec<_> = calls.iter().map(|call| (call.item.number, call.end.is_some())).collect();
    assert_eq!(numbers, [(1, true), (2, true), (3, true), (4, true)]);
}

#[tokio::test]
async fn a_tool_that_a_kill_names_can_be_ignored_and_its_calls_are_known_by_it() {
    let sidecar = Sidecar::guarding("bot").await;
    let signature = ToolSignature::new(99);
    for number in 1..=6 {
        let mut items = vec![call(number, ToolTurn::Results(signature))];
        items.extend((number < 6).then(|| answer(number, Answer::Tools { text: None, signature })));
        sidecar.reported("bot", &items).await;
    }
    let event = sidecar.killed("bot", json!({"tools": ["wait_for_job"], "score": 13.0})).await;
    let story = sidecar.story(event).await;
    assert_eq!(story["calls"][5]["tools"], json!(["wait_for_job"]), "{story}");
    assert_eq!(story["calls"][5]["brought"], "results of a tool call");
    let ignore = &story["remedies"][2];
    assert_members(ignore, json!({"remedy": "ignore_tool", "tool": "wait_for_job"}));
    assert!(ignore["effect"].as_str().unwrap().contains("none of the last 6 stored calls"), "{ignore}");
    // The filter counts each of these 2.5 points, so the last one has another score than this report says.
    assert!(story["note"].as_str().unwrap().contains("gets the score 12.5 instead of 13"), "{story}");
}

#[tokio::test]
async fn a_kill_that_names_a_tool_which_settings_cannot_name_has_a_story_all_the_same() {
    for tool in ["a\nb", "a\u{1b}[2Jb", "", &"x".repeat(129)] {
        let sidecar = Sidecar::guarding("bot").await;
        let event = sidecar.looped("bot", json!({"tools": [tool, "read_file"]})).await;
        let story = sidecar.story(event).await;
        let offered: Vec<_> = list(&story, "remedies").iter().filter_map(|one| one["tool"].as_str()).collect();
        assert_eq!(offered, ["read_file"], "{tool:?}");
    }
}

#[tokio::test]
async fn a_story_without_stored_calls_says_so_and_shows_what_the_report_names() {
    let sidecar = Sidecar::with(Limits { calls_per_agent: 0, ..Limits::default() }).await;
    sidecar.api.guarded("bot").await;
    let score = json!({"at_ms": START_MS, "score": 11.0, "similar_prompts": 5, "similar_responses": 3, "repeated_tool_calls": 0});
    let seen = json!({"agents": [{"agent_id": "bot", "scores": [score]}]});
    sidecar.api.report("/v1/observations", seen).await.ok();
    let event = sidecar.looped("bot", json!({})).await;
    let story = sidecar.story(event).await;
    assert_eq!((list(&story, "calls").len(), list(&story, "matches").len(), list(&story, "scores").len()), (0, 1, 1));
    assert!(story["note"].as_str().unwrap().contains("are not stored"), "{story}");
    let effect = story["remedies"][0]["effect"].as_str().unwrap();
    assert!(effect.contains("of which only the scores are stored, would have been stopped"), "{effect}");
    assert_eq!(tried(&sidecar, json!({"threshold": 11})).await, (0, None, false), "an estimate");
}

#[tokio::test]
async fn only_loops_have_a_story_and_stops_of_conversations_can_be_ended() {
    let sidecar = Sidecar::guarding("bot").await;
    let created = sidecar.api.events("event_type=created").await[0]["id"].as_u64().unwrap();
    for id in [created.to_string(), "999999".to_owned(), "x".to_owned()] {
        let problem = sidecar.api.get(&format!("/v1/kills/{id}")).await.problem(404);
        assert!(problem["detail"].as_str().unwrap().starts_with("there is no kill with the event id"), "{problem}");
    }
    let stopped = sidecar.api.report("/v1/kills", stop("s1", "bot", 1)).await.ok()["event_id"].as_u64().unwrap();
    let story = sidecar.story(stopped).await;
    assert!(story["summary"].as_str().unwrap().contains("stopped conversation chat-1 of agent bot"), "{story}");
    assert_eq!(story["remedies"][0]["remedy"], "resume");
    assert!(story["reply"]["message"].as_str().unwrap().contains("Other conversations of the agent go on"), "{story}");
    let would = kill_with("o", "bot", 1, json!({"action": "observe"}));
    let would = sidecar.api.report("/v1/kills", would).await.ok()["event_id"].as_u64().unwrap();
    assert_eq!(sidecar.story(would).await["reply"], Value::Null, "nothing was refused");
    let repetition = json!({"action": "deactivate", "score": 0.0, "repetition": {"period": 2, "words": 200}});
    let cut = sidecar.api.report("/v1/kills", kill_with("c", "bot", 1, repetition)).await.ok();
    let story = sidecar.story(cut["event_id"].as_u64().unwrap()).await;
    assert!(story["note"].as_str().unwrap().contains("inside one answer"), "{story}");
    sidecar.api.delete("/v1/agents/bot").await.ok();
    let story = sidecar.story(stopped).await;
    assert_eq!((&story["agent"], list(&story, "remedies").len()), (&Value::Null, 0));
}
