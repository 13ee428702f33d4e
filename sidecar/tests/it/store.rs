//! What a store must do with either database: one suite that runs against both.

pub mod alerts;
pub mod overview;
pub mod pause;
pub mod stops;
pub mod usage;

use std::sync::Arc;

use agent_kill_switch::wire::{self, Action, DeactivatedBy, ScoreSample, Signals};
use kill_switch::model::{
    Agent, AlertRule, Channel, Delivery, DeliveryStatus, EventType, KillOutcome, KillRecord, NewEvent, NoticeKind,
    Scope, SessionStop, Token,
};
use kill_switch::store::{AgentQuery, DeliveryQuery, EventQuery, EventRange, Expiry, Session, StopQuery, Store, Tx};
use serde_json::json;
use tokio::task::JoinSet;

use alerts::{
    alert_rules_are_written_whole_and_their_deletion_gives_up_deliveries,
    an_event_is_delivered_once_under_each_rule_and_deliveries_are_filtered,
};
use overview::{agents_close_to_their_threshold_come_first, agents_loops_stops_and_failed_notices_are_counted};
use pause::{
    the_latest_pause_is_read_as_it_was_saved_under_a_new_revision,
    what_kill_reports_stopped_in_a_range_of_time_is_counted,
};
use stops::{
    a_stop_is_read_as_it_was_added_until_it_is_released_or_over, filters_are_told_the_latest_stop_of_each_conversation,
    other_conversations_that_were_stopped_are_counted, stop,
};
use usage::{
    the_number_of_models_of_a_day_is_bounded, usage_adds_up_by_agent_day_and_model, usage_is_kept_as_long_as_events,
};

/// Runs each test against a new SQLite file and a new PostgreSQL database.
macro_rules! every_store {
    ($($behaviour:ident),* $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $behaviour() {
                    let dir = tempfile::tempdir().unwrap();
                    let store = super::Store::sqlite(&dir.path().join("test.db")).await.unwrap();
                    super::$behaviour(super::Arc::new(store)).await;
                }
            )*
        }

        mod postgres {
            $(
                #[tokio::test]
                async fn $behaviour() {
                    let Some(url) = crate::support::postgres::database().await else { return };
                    super::$behaviour(super::open_postgres(&url).await).await;
                }
            )*
        }
    };
}

every_store![
    a_new_database_is_empty_at_revision_0_with_an_epoch,
    an_agent_is_read_as_it_was_saved,
    every_save_gets_the_next_revision,
    a_transaction_that_is_not_committed_changes_nothing,
    writers_wait_for_each_other,
    tombstones_are_only_listed_as_changes,
    agents_are_listed_in_order_filtered_and_paged,
    first_seen_and_last_seen_only_move_apart,
    events_are_numbered_and_read_in_both_directions,
    only_one_kill_of_a_generation_is_applied,
    a_stop_is_read_as_it_was_added_until_it_is_released_or_over,
    filters_are_told_the_latest_stop_of_each_conversation,
    other_conversations_that_were_stopped_are_counted,
    the_latest_pause_is_read_as_it_was_saved_under_a_new_revision,
    what_kill_reports_stopped_in_a_range_of_time_is_counted,
    agents_loops_stops_and_failed_notices_are_counted,
    agents_close_to_their_threshold_come_first,
    only_the_latest_scores_are_kept,
    scores_are_in_the_order_of_the_calls,
    usage_adds_up_by_agent_day_and_model,
    the_number_of_models_of_a_day_is_bounded,
    usage_is_kept_as_long_as_events,
    tokens_are_read_as_they_were_added_and_revoked_once,
    alert_rules_are_written_whole_and_their_deletion_gives_up_deliveries,
    an_event_is_delivered_once_under_each_rule_and_deliveries_are_filtered,
    only_what_has_expired_is_deleted,
    the_database_says_whether_it_can_be_written,
    numbers_become_visible_in_ascending_order,
    the_character_0_in_a_text_loses_nothing_else,
    the_first_password_stays_and_a_new_one_ends_its_sessions,
];

pub async fn open_postgres(url: &str) -> Arc<Store> {
    Arc::new(Store::postgres(url).await.unwrap())
}

/// Does something in one transaction and commits it.
pub async fn commit<T>(store: &Store, act: impl AsyncFnOnce(&mut Tx) -> T) -> T {
    let mut tx = store.begin().await.unwrap();
    let done = act(&mut tx).await;
    tx.commit().await.unwrap();
    done
}

async fn save(store: &Store, agents: &[Agent]) -> Vec<u64> {
    commit(store, async |tx| {
        let mut revs = Vec::new();
        for agent in agents {
            revs.push(tx.save_agent(agent).await.unwrap());
        }
        revs
    })
    .await
}

fn event(agent_id: &str, event_type: EventType, at_ms: u64) -> NewEvent {
    NewEvent {
        at_ms,
        event_type,
        agent_id: agent_id.to_owned(),
        generation: 1,
        actor: "test".to_owned(),
        reason: "quotes ' and \" and \u{202e} survive".to_owned(),
        detail: json!({"score": 13.5, "tools": ["a"]}).as_object().unwrap().clone(),
    }
}

pub fn events(range: EventRange) -> EventQuery {
    EventQuery { range, agent_id: None, event_type: None, since_ms: None, until_ms: None, limit: 100 }
}

async fn a_new_database_is_empty_at_revision_0_with_an_epoch(store: Arc<Store>) {
    let meta = store.meta().await.unwrap();
    assert_eq!(meta.rev, 0);
    assert!(meta.epoch.len() >= 16);
    assert_eq!(store.meta().await.unwrap(), meta, "the epoch never changes");
    assert!(store.agents(&AgentQuery { limit: 10, ..AgentQuery::default() }).await.unwrap().is_empty());
    assert!(store.tokens().await.unwrap().is_empty());
}

async fn an_agent_is_read_as_it_was_saved(store: Arc<Store>) {
    let mut agent = Agent::new("team/a:1@x", 3);
    agent.name = "Ünïcödé 'name'".to_owned();
    agent.policy.active = false;
    agent.policy.deactivated_by = Some(DeactivatedBy::KillSwitch);
    agent.policy.kill_switch_threshold = 12.25;
    agent.policy.kill_switch_enabled = true;
    agent.policy.idle_reset_seconds = 0;
    agent.policy.scope = wire::Scope::Session;
    agent.policy.session_stop_seconds = 60;
    agent.policy.escalate_after = 64;
    agent.policy.answer_loop = wire::AnswerLoop::Cut;
    agent.policy.tools.set("wait 'for' jöb", Some(wire::ToolRule::Ignore));
    agent.policy.tools.set("get_status", Some(wire::ToolRule::CountFrom(20)));
    agent.policy.reason = Some("the same tool call".to_owned());
    agent.first_seen_ms = Some(5);
    agent.last_seen_ms = Some(7);
    agent.discovered = true;
    agent.rev = save(&store, std::slice::from_ref(&agent)).await[0];
    assert_eq!(store.agent("team/a:1@x").await.unwrap(), Some(agent.clone()));
    assert_eq!(store.begin().await.unwrap().agent("team/a:1@x").await.unwrap(), Some(agent));
    assert_eq!(store.agent("TEAM/A:1@X").await.unwrap(), None, "ids are case-sensitive");
}

async fn every_save_gets_the_next_revision(store: Arc<Store>) {
    let (a, b) = (Agent::new("a", 1), Agent::new("b", 1));
    assert_eq!(save(&store, &[a.clone(), b, a]).await, [1, 2, 3]);
    assert_eq!(store.meta().await.unwrap().rev, 3);
    let changes = store.changes(0, 10).await.unwrap().agents;
    assert_eq!(changes.iter().map(|agent| (agent.id(), agent.rev)).collect::<Vec<_>>(), [("b", 2), ("a", 3)]);
    assert_eq!(store.changes(2, 10).await.unwrap().agents.len(), 1);
    assert_eq!(store.changes(0, 1).await.unwrap().agents.len(), 1);
}

async fn a_transaction_that_is_not_committed_changes_nothing(store: Arc<Store>) {
    let mut tx = store.begin().await.unwrap();
    tx.save_agent(&Agent::new("a", 1)).await.unwrap();
    let id = tx.append_event(&event("a", EventType::Created, 1)).await.unwrap();
    tx.enqueue_alert(id, 1, 2).await.unwrap();
    assert_eq!(store.agent("a").await.unwrap(), None, "it is not visible before its commit");
    drop(tx);
    assert_eq!(store.agent("a").await.unwrap(), None);
    assert_eq!(store.meta().await.unwrap().rev, 0);
    assert!(store.events(&events(EventRange::After(0))).await.unwrap().is_empty());
    assert!(store.pending_alerts().await.unwrap().is_empty());
}

async fn writers_wait_for_each_other(store: Arc<Store>) {
    no_update_is_lost(&[store]).await;
}

/// Twenty writers at each store increment the same number. All stores use the same database.
pub async fn no_update_is_lost(stores: &[Arc<Store>]) {
    save(&stores[0], &[Agent::new("a", 0)]).await;
    let mut increments = JoinSet::new();
    for store in stores.iter().flat_map(|store| std::iter::repeat_n(store, 20)) {
        let store = Arc::clone(store);
        increments.spawn(async move {
            let mut tx = store.begin().await.unwrap();
            let mut agent = tx.agent("a").await.unwrap().unwrap();
            tokio::task::yield_now().await;
            agent.policy.generation += 1;
            tx.save_agent(&agent).await.unwrap();
            tx.commit().await.unwrap();
        });
    }
    let count = increments.len() as u64;
    increments.join_all().await;
    assert_eq!(stores[0].agent("a").await.unwrap().unwrap().policy.generation, count, "no update was lost");
}

async fn tombstones_are_only_listed_as_changes(store: Arc<Store>) {
    let mut agent = Agent::new("a", 4);
    agent.deleted = true;
    agent.discovered = true;
    save(&store, &[agent]).await;
    assert_eq!(store.agent("a").await.unwrap(), None);
    assert!(store.agents(&AgentQuery { limit: 10, ..AgentQuery::default() }).await.unwrap().is_empty());
    assert!(store.changes(0, 10).await.unwrap().agents[0].deleted);
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.agent("a").await.unwrap().unwrap().policy.generation, 4);
    assert_eq!(tx.discovered_agents().await.unwrap(), 0);
}

async fn agents_are_listed_in_order_filtered_and_paged(store: Arc<Store>) {
    let mut agents = ["b", "a_b", "aXb", "c", "a%b"].map(|id| Agent::new(id, 1));
    agents[0].name = "Billing Bot".to_owned();
    agents[3].policy.active = false;
    agents[3].policy.deactivated_by = Some(DeactivatedBy::Manual);
    agents[3].policy.kill_switch_enabled = true;
    save(&store, &agents).await;
    let base = AgentQuery { limit: 10, ..AgentQuery::default() };
    let search = |text: &str| AgentQuery { search: Some(text.to_owned()), ..base.clone() };
    for (query, ids) in [
        (base.clone(), vec!["a%b", "aXb", "a_b", "b", "c"]),
        (AgentQuery { limit: 2, ..base.clone() }, vec!["a%b", "aXb"]),
        (AgentQuery { after: Some("aXb".to_owned()), ..base.clone() }, vec!["a_b", "b", "c"]),
        (search("A_B"), vec!["a_b"]),
        (search("%"), vec!["a%b"]),
        (search("billing"), vec!["b"]),
        (search("' OR 1=1 --"), vec![]),
        (AgentQuery { active: Some(false), ..base.clone() }, vec!["c"]),
        (AgentQuery { deactivated_by: Some(DeactivatedBy::Manual), ..base.clone() }, vec!["c"]),
        (AgentQuery { deactivated_by: Some(DeactivatedBy::KillSwitch), ..base.clone() }, vec![]),
        (AgentQuery { kill_switch_enabled: Some(false), active: Some(true), limit: 1, ..base.clone() }, vec!["a%b"]),
    ] {
        let found = store.agents(&query).await.unwrap();
        assert_eq!(found.iter().map(Agent::id).collect::<Vec<_>>(), ids, "{query:?}");
    }
}

async fn first_seen_and_last_seen_only_move_apart(store: Arc<Store>) {
    save(&store, &[Agent::new("a", 1)]).await;
    for (at, first, last) in [(50, 50, 50), (70, 50, 70), (60, 50, 70), (40, 40, 70)] {
        commit(&store, async |tx| tx.touch_agents(vec![("a", at, at)]).await.unwrap()).await;
        let agent = store.agent("a").await.unwrap().unwrap();
        assert_eq!((agent.first_seen_ms, agent.last_seen_ms), (Some(first), Some(last)), "seen at {at}");
    }
    assert_eq!(store.meta().await.unwrap().rev, 1, "filters need not be told");
}

async fn events_are_numbered_and_read_in_both_directions(store: Arc<Store>) {
    let mut tx = store.begin().await.unwrap();
    for (agent_id, event_type, at_ms) in
        [("a", EventType::Created, 10), ("b", EventType::KillSwitch, 20), ("a", EventType::KillSwitch, 30)]
    {
        tx.append_event(&event(agent_id, event_type, at_ms)).await.unwrap();
    }
    tx.commit().await.unwrap();
    let ids = async |query: EventQuery| {
        let found = store.events(&query).await.unwrap();
        found.iter().map(|event| event.id).collect::<Vec<_>>()
    };
    let newest = || events(EventRange::Before(None));
    assert_eq!(ids(newest()).await, [3, 2, 1]);
    assert_eq!(ids(events(EventRange::Before(Some(3)))).await, [2, 1]);
    assert_eq!(ids(events(EventRange::After(1))).await, [2, 3]);
    assert_eq!(ids(EventQuery { agent_id: Some("a".to_owned()), ..newest() }).await, [3, 1]);
    assert_eq!(ids(EventQuery { event_type: Some(EventType::KillSwitch), limit: 1, ..newest() }).await, [3]);
    assert_eq!(ids(EventQuery { since_ms: Some(20), until_ms: Some(30), ..newest() }).await, [2]);
    let stored = store.events(&newest()).await.unwrap().remove(0).body;
    assert_eq!(stored, event("a", EventType::KillSwitch, 30));
}

async fn only_one_kill_of_a_generation_is_applied(store: Arc<Store>) {
    let record = |kill_id: &str, outcome: KillOutcome| KillRecord {
        kill_id: kill_id.to_owned(),
        agent_id: "a".to_owned(),
        generation: 1,
        outcome,
        event_id: 9,
        received_ms: 5,
        detected_ms: 4,
        scope: wire::Scope::Session,
    };
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.applied_kill("a", 1).await.unwrap(), None);
    tx.record_kill(&record("k1", KillOutcome::Applied)).await.unwrap();
    tx.record_kill(&record("k2", KillOutcome::Duplicate)).await.unwrap();
    tx.record_kill(&record("k3", KillOutcome::Blocked)).await.unwrap();
    tx.record_kill(&record("k4", KillOutcome::Blocked)).await.unwrap();
    tx.record_kill(&record("k6", KillOutcome::Stopped)).await.unwrap();
    tx.record_kill(&record("k7", KillOutcome::Stopped)).await.unwrap();
    assert_eq!(tx.kill("k2").await.unwrap(), Some(record("k2", KillOutcome::Duplicate)));
    assert_eq!(tx.applied_kill("a", 1).await.unwrap(), Some(record("k1", KillOutcome::Applied)));
    assert_eq!(tx.applied_kill("a", 2).await.unwrap(), None);
    tx.commit().await.unwrap();
    let refuses = async |kill: &KillRecord| store.begin().await.unwrap().record_kill(kill).await.is_err();
    assert!(refuses(&record("k5", KillOutcome::Applied)).await, "the database itself refuses a second one");
    assert!(refuses(&record("k1", KillOutcome::Stale)).await);
}

fn samples(scores: std::ops::Range<u32>, at_ms: u64) -> Vec<ScoreSample> {
    let signals = Signals { similar_prompts: 1, similar_responses: 2, repeated_tool_calls: 3, ..Signals::default() };
    scores.map(|score| ScoreSample { at_ms, sequence: score, score: f64::from(score), signals }).collect()
}

async fn only_the_latest_scores_are_kept(store: Arc<Store>) {
    let mut tx = store.begin().await.unwrap();
    tx.append_scores(&[("a", &samples(0..8, 100))], 10).await.unwrap();
    tx.append_scores(&[("b", &samples(0..3, 100))], 10).await.unwrap();
    tx.append_scores(&[("a", &samples(8..15, 200))], 10).await.unwrap();
    tx.commit().await.unwrap();
    let (five, rest) = (samples(5..8, 100), samples(8..15, 200));
    assert_eq!(store.scores("a", 0, 100).await.unwrap(), [five, rest.clone()].concat());
    assert_eq!(store.scores("a", 150, 100).await.unwrap(), rest);
    assert_eq!(store.scores("a", 0, 2).await.unwrap(), samples(13..15, 200));
    assert_eq!(store.scores("b", 0, 100).await.unwrap().len(), 3);
}

async fn scores_are_in_the_order_of_the_calls(store: Arc<Store>) {
    let mut tx = store.begin().await.unwrap();
    tx.append_scores(&[("a", &[samples(2..3, 100), samples(4..5, 100), samples(5..6, 101)].concat())], 4)
        .await
        .unwrap();
    tx.append_scores(&[("a", &[samples(1..2, 100), samples(3..4, 100), samples(9..10, 99)].concat())], 4)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let expected = [samples(2..5, 100), samples(5..6, 101)].concat();
    assert_eq!(store.scores("a", 0, 100).await.unwrap(), expected, "the oldest calls made room");
    assert_eq!(store.scores("a", 0, 2).await.unwrap(), expected[2..]);
}

async fn tokens_are_read_as_they_were_added_and_revoked_once(store: Arc<Store>) {
    let token = Token {
        token_id: "t1".to_owned(),
        name: "ci".to_owned(),
        scope: Scope::Enforcer,
        hash: [7; 32],
        created_ms: 5,
        revoked_ms: None,
    };
    commit(&store, async |tx| tx.add_token(&token).await.unwrap()).await;
    assert_eq!(store.tokens().await.unwrap(), std::slice::from_ref(&token));
    let mut tx = store.begin().await.unwrap();
    assert!(tx.revoke_token("t1", 9).await.unwrap());
    assert!(!tx.revoke_token("t1", 10).await.unwrap());
    assert!(!tx.revoke_token("t2", 10).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(store.tokens().await.unwrap(), [Token { revoked_ms: Some(9), ..token }]);
}

async fn only_what_has_expired_is_deleted(store: Arc<Store>) {
    let mut tx = store.begin().await.unwrap();
    for at_ms in [10, 20] {
        let id = tx.append_event(&event("a", EventType::KillSwitch, at_ms)).await.unwrap();
        tx.enqueue_alert(id, at_ms, at_ms + 100).await.unwrap();
        tx.append_scores(&[("a", &samples(0..1, at_ms))], 10).await.unwrap();
    }
    for told_until_ms in [10, 20] {
        let key = told_until_ms.to_string();
        tx.add_stop(&SessionStop { told_until_ms, ..stop(&key, 0, 5) }).await.unwrap();
    }
    let keep_events = Expiry {
        now_ms: 110,
        scores_before_ms: 15,
        deliveries_before_ms: 0,
        stops_before_ms: 15,
        events_before_ms: None,
    };
    tx.expire(&keep_events).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(store.events(&events(EventRange::After(0))).await.unwrap().len(), 2);
    assert_eq!(store.pending_alerts().await.unwrap(), [2]);
    assert_eq!(store.scores("a", 0, 10).await.unwrap(), samples(0..1, 20));
    let stops = store.told_stops("a", 1, 0, 9).await.unwrap();
    assert_eq!(stops.iter().map(|stop| stop.session_key.as_str()).collect::<Vec<_>>(), ["20"]);
    let expire_events = Expiry { events_before_ms: Some(15), ..keep_events };
    commit(&store, async |tx| tx.expire(&expire_events).await.unwrap()).await;
    let left = store.events(&events(EventRange::After(0))).await.unwrap();
    assert_eq!(left.iter().map(|event| event.id).collect::<Vec<_>>(), [2]);
}

async fn the_database_says_whether_it_can_be_written(store: Arc<Store>) {
    store.check_writable(5).await.unwrap();
    store.close().await;
    assert!(store.check_writable(6).await.is_err());
}

async fn numbers_become_visible_in_ascending_order(store: Arc<Store>) {
    no_number_is_missed(&[Arc::clone(&store), store]).await;
}

/// Each store, all of the same database, has some writers and a reader that only asks for what comes after the last
/// number it has seen. A number that becomes visible too late is never seen by that reader.
pub async fn no_number_is_missed(stores: &[Arc<Store>]) {
    const WRITERS: usize = 4;
    const WRITES: usize = 15;
    let total = stores.len() * WRITERS * WRITES;
    let mut tasks = JoinSet::new();
    for (place, store) in stores.iter().enumerate() {
        for writer in 0..WRITERS {
            let store = Arc::clone(store);
            tasks.spawn(async move {
                for write in 0..WRITES {
                    let id = format!("agent-{place}-{writer}-{write}");
                    let mut tx = store.begin().await.unwrap();
                    tx.append_event(&event(&id, EventType::Created, 1)).await.unwrap();
                    tokio::task::yield_now().await;
                    tx.save_agent(&Agent::new(&id, 1)).await.unwrap();
                    tx.commit().await.unwrap();
                }
            });
        }
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let (mut rev, mut id, mut agents, mut seen) = (0, 0, 0, 0);
            while agents < total || seen < total {
                let changes = store.changes(rev, 7).await.unwrap().agents;
                rev = changes.last().map_or(rev, |agent| agent.rev);
                agents += changes.len();
                let events = store.events(&EventQuery { limit: 7, ..events(EventRange::After(id)) }).await.unwrap();
                id = events.last().map_or(id, |event| event.id);
                seen += events.len();
            }
            assert_eq!((agents, seen), (total, total));
        });
    }
    tokio::time::timeout(crate::support::SOON, tasks.join_all()).await.expect("a reader missed a number");
}

async fn the_character_0_in_a_text_loses_nothing_else(store: Arc<Store>) {
    let mut odd = event("a", EventType::KillSwitch, 1);
    odd.reason = "before\0after".to_owned();
    odd.detail.insert("excerpt".to_owned(), json!("a\0b \u{1f600}"));
    let id = commit(&store, async |tx| tx.append_event(&odd).await.unwrap()).await;
    let stored = store.events(&events(EventRange::After(0))).await.unwrap().remove(0);
    assert_eq!((stored.id, &stored.body.detail), (id, &odd.detail));
    assert!(stored.body.reason.starts_with("before") && stored.body.reason.ends_with("after"));
    assert_eq!(store.agent("a\0").await.unwrap(), None);
    let search = AgentQuery { search: Some("\0".to_owned()), limit: 1, ..AgentQuery::default() };
    assert!(store.agents(&search).await.unwrap().is_empty());
}

async fn the_first_password_stays_and_a_new_one_ends_its_sessions(store: Arc<Store>) {
    assert_eq!(store.password().await.unwrap(), None);
    assert!(store.set_first_password("one").await.unwrap());
    assert!(!store.set_first_password("two").await.unwrap());
    assert_eq!(store.password().await.unwrap().as_deref(), Some("one"));
    let by_password = Session { hash: [1; 32], token_hash: None, expires_ms: 100 };
    let by_token = Session { hash: [2; 32], token_hash: Some([3; 32]), expires_ms: 100 };
    for session in [&by_password, &by_token] {
        store.open_session(session, 50).await.unwrap();
        assert_eq!(store.session(&session.hash, 99).await.unwrap().as_ref(), Some(session));
        assert_eq!(store.session(&session.hash, 100).await.unwrap(), None, "it has expired");
    }
    store.set_password("three").await.unwrap();
    assert_eq!(store.session(&by_password.hash, 50).await.unwrap(), None);
    assert_eq!(store.session(&by_token.hash, 50).await.unwrap(), Some(by_token.clone()));
    store.end_session(&by_token.hash).await.unwrap();
    assert_eq!(store.session(&by_token.hash, 50).await.unwrap(), None);
}
