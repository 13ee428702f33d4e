//! What is counted over all agents, events, stops and notices, and in which order agents are ranked.

use kill_switch::store::{AgentCount, EventCount};

use super::alerts::{delivery, rule};
use super::*;

pub async fn agents_loops_stops_and_failed_notices_are_counted(store: Arc<Store>) {
    let agent = |id: &str, enabled, action, by: Option<DeactivatedBy>| {
        let mut agent = Agent::new(id, 1);
        agent.policy.kill_switch_enabled = enabled;
        agent.policy.action = action;
        (agent.policy.active, agent.policy.deactivated_by) = (by.is_none(), by);
        agent
    };
    let mut deleted = Agent::new("deleted", 1);
    deleted.deleted = true;
    let agents = [
        agent("a", true, Action::Deactivate, None),
        agent("b", true, Action::Deactivate, None),
        agent("c", false, Action::Observe, None),
        agent("d", true, Action::Deactivate, Some(DeactivatedBy::KillSwitch)),
        deleted,
    ];
    save(&store, &agents).await;
    let mut counted = store.count_agents().await.unwrap();
    counted.sort_by_key(|group| group.count);
    assert_eq!(counted.iter().map(|group| group.count).collect::<Vec<_>>(), [1, 1, 2], "tombstones do not count");
    let guarded = AgentCount {
        active: true,
        deactivated_by: None,
        kill_switch_enabled: true,
        action: Action::Deactivate,
        count: 2,
    };
    assert_eq!(counted[2], guarded);
    let observing = AgentQuery { observing: Some(true), limit: 10, ..AgentQuery::default() };
    let listed = store.agents(&observing).await.unwrap();
    assert_eq!(listed.iter().map(Agent::id).collect::<Vec<_>>(), ["c"]);
    let stopping = AgentQuery { observing: Some(false), active: Some(true), ..observing };
    assert_eq!(store.agents(&stopping).await.unwrap().len(), 2);

    commit(&store, async |tx| {
        use EventType::{Activated, Blocked, KillSwitch, WouldKill};
        for (event_type, at_ms) in [
            (KillSwitch, 999),
            (KillSwitch, 1_000),
            (Blocked, 1_099),
            (KillSwitch, 1_099),
            (Activated, 1_100),
            (WouldKill, 1_299),
            (KillSwitch, 1_300),
        ] {
            tx.append_event(&event("a", event_type, at_ms)).await.unwrap();
        }
        for (agent_id, session, generation, until_ms) in
            [("a", "x", 1, 5_000), ("a", "over", 1, 2_000), ("a", "of another", 2, 5_000), ("deleted", "x", 1, 5_000)]
        {
            let agent_id = agent_id.to_owned();
            let stop =
                SessionStop { agent_id, generation, until_ms, told_until_ms: until_ms, ..stop(session, 0, 1_000) };
            tx.add_stop(&stop).await.unwrap();
        }
    })
    .await;
    let mut loops = store.count_loops(1_000, 1_300, 100).await.unwrap();
    loops.sort_by_key(|counted| (counted.period, counted.event_type.as_str()));
    let counted = |event_type, period, count| EventCount { event_type, period, count };
    let expected =
        [counted(EventType::Blocked, 0, 1), counted(EventType::KillSwitch, 0, 2), counted(EventType::WouldKill, 2, 1)];
    assert_eq!(loops, expected);
    assert_eq!(store.count_stopped_sessions(3_000).await.unwrap(), 1);

    commit(&store, async |tx| {
        tx.save_alert_rule(&rule("r")).await.unwrap();
        for (number, rule_id, kind, created_ms, status, attempts) in [
            (1, "r", NoticeKind::KillSwitch, 100, DeliveryStatus::GivenUp, 3),
            (2, "r", NoticeKind::KillSwitch, 100, DeliveryStatus::Pending, 1),
            (3, "r", NoticeKind::KillSwitch, 100, DeliveryStatus::Pending, 0),
            (4, "r", NoticeKind::KillSwitch, 100, DeliveryStatus::Delivered, 1),
            (5, "r", NoticeKind::Test, 100, DeliveryStatus::GivenUp, 1),
            (6, "gone", NoticeKind::KillSwitch, 100, DeliveryStatus::GivenUp, 1),
            (7, "r", NoticeKind::KillSwitch, 99, DeliveryStatus::GivenUp, 1),
        ] {
            let base = delivery(&format!("d{number}"), rule_id, number, status);
            let one = Delivery { kind, created_ms, attempts, ..base };
            tx.add_delivery(&one).await.unwrap();
            tx.save_delivery(&one).await.unwrap();
        }
    })
    .await;
    assert_eq!(store.count_failed_deliveries(100).await.unwrap(), (1, 1));
}

pub async fn agents_close_to_their_threshold_come_first(store: Arc<Store>) {
    let agents = [("silent", 10.0), ("low", 10.0), ("high", 20.0), ("none", 10.0), ("busy", 10.0)];
    for (id, threshold) in agents {
        let mut agent = Agent::new(id, 1);
        agent.policy.kill_switch_threshold = threshold;
        save(&store, &[agent]).await;
    }
    let sample = |at_ms, score| ScoreSample { at_ms, sequence: 0, score, signals: Signals::default() };
    commit(&store, async |tx| {
        for (id, seen_ms, score) in [("silent", 900, 9.9), ("low", 1_500, 4.0), ("high", 1_400, 9.0)] {
            tx.touch_agents(vec![(id, seen_ms, seen_ms)]).await.unwrap();
            tx.append_scores(&[(id, &[sample(1, 20.0), sample(2, score)])], 10).await.unwrap();
        }
        tx.touch_agents(vec![("busy", 1_600, 1_600)]).await.unwrap();
    })
    .await;
    let ranked = store.ranked_agents(1_000, 10).await.unwrap();
    assert_eq!(ranked, ["high", "low", "busy", "silent", "none"]);
    assert_eq!(store.ranked_agents(1_000, 1).await.unwrap(), ["high"]);
}
