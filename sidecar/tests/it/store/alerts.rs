//! Alert rules and deliveries.

use super::*;

pub fn rule(rule_id: &str) -> AlertRule {
    AlertRule {
        rule_id: rule_id.to_owned(),
        name: "on call".to_owned(),
        agent_id: Some("a".to_owned()),
        channel: Channel::Webhook,
        target: "https://a.example/".to_owned(),
        secret: Some(vec![7; 32]),
        cooldown_seconds: 5,
        recovery: true,
        enabled: true,
        disabled_reason: String::new(),
        created_ms: 3,
    }
}

pub fn delivery(delivery_id: &str, rule_id: &str, event_id: u64, status: DeliveryStatus) -> Delivery {
    Delivery {
        seq: 0,
        delivery_id: delivery_id.to_owned(),
        rule_id: rule_id.to_owned(),
        channel: Channel::Webhook,
        kind: NoticeKind::KillSwitch,
        scope: wire::Scope::Agent,
        agent_id: "a".to_owned(),
        event_id: Some(event_id),
        payload: "{}".to_owned(),
        status,
        attempts: 0,
        created_ms: 10 * event_id,
        next_attempt_ms: 10 * event_id,
        give_up_ms: 100,
        last_attempt_ms: None,
        last_code: None,
        last_latency_ms: None,
        last_error: String::new(),
    }
}

pub async fn alert_rules_are_written_whole_and_their_deletion_gives_up_deliveries(store: Arc<Store>) {
    let mut tx = store.begin().await.unwrap();
    tx.save_alert_rule(&rule("r1")).await.unwrap();
    let changed = AlertRule { agent_id: None, enabled: false, disabled_reason: "gone".to_owned(), ..rule("r1") };
    tx.save_alert_rule(&changed).await.unwrap();
    tx.save_alert_rule(&rule("r2")).await.unwrap();
    tx.add_delivery(&delivery("d1", "r1", 1, DeliveryStatus::Pending)).await.unwrap();
    assert_eq!(tx.alert_rules().await.unwrap(), [changed.clone(), rule("r2")]);
    tx.commit().await.unwrap();
    assert_eq!(store.alert_rule("r1").await.unwrap(), Some(changed));
    let mut tx = store.begin().await.unwrap();
    assert!(tx.delete_alert_rule("r1").await.unwrap());
    assert!(!tx.delete_alert_rule("r1").await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(store.alert_rules().await.unwrap(), [rule("r2")]);
    let history = store.deliveries(&DeliveryQuery { limit: 5, ..DeliveryQuery::default() }).await.unwrap();
    assert_eq!(history[0].status, DeliveryStatus::GivenUp, "the history stays");
}

pub async fn an_event_is_delivered_once_under_each_rule_and_deliveries_are_filtered(store: Arc<Store>) {
    let mut tx = store.begin().await.unwrap();
    tx.add_delivery(&delivery("d1", "r1", 1, DeliveryStatus::Pending)).await.unwrap();
    tx.add_delivery(&delivery("again", "r1", 1, DeliveryStatus::Pending)).await.unwrap();
    tx.add_delivery(&delivery("d2", "r2", 1, DeliveryStatus::Pending)).await.unwrap();
    tx.add_delivery(&delivery("d3", "r1", 2, DeliveryStatus::HeldBack)).await.unwrap();
    let like = delivery("new", "r1", 4, DeliveryStatus::Pending);
    let sent = tx.last_sent(&like).await.unwrap();
    assert_eq!(sent, Some(10), "a delivery that was held back does not count");
    let dry_run = Delivery { kind: NoticeKind::WouldKill, ..like.clone() };
    assert_eq!(tx.last_sent(&dry_run).await.unwrap(), None);
    let about_session = Delivery { scope: wire::Scope::Session, ..like.clone() };
    assert_eq!(tx.last_sent(&about_session).await.unwrap(), None, "notices about agents and conversations are apart");
    tx.add_delivery(&Delivery { delivery_id: "d4".to_owned(), event_id: Some(3), ..about_session.clone() })
        .await
        .unwrap();
    assert_eq!((tx.last_sent(&about_session).await.unwrap(), tx.last_sent(&like).await.unwrap()), (Some(40), Some(10)));
    let last = tx.last_delivery("r1", "a", &[NoticeKind::WouldKill, NoticeKind::KillSwitch]).await.unwrap().unwrap();
    assert_eq!(last.delivery_id, "d3", "the latest one about the agent");
    let done = Delivery {
        status: DeliveryStatus::Delivered,
        attempts: 2,
        last_attempt_ms: Some(20),
        last_code: Some(204),
        last_latency_ms: Some(7),
        ..delivery("d2", "r2", 1, DeliveryStatus::Pending)
    };
    tx.save_delivery(&done).await.unwrap();
    tx.commit().await.unwrap();
    let ids = async |query: DeliveryQuery| {
        let found = store.deliveries(&DeliveryQuery { limit: 9, ..query }).await.unwrap();
        found.into_iter().map(|delivery| delivery.delivery_id).collect::<Vec<_>>()
    };
    assert_eq!(ids(DeliveryQuery::default()).await, ["d4", "d3", "d2", "d1"]);
    assert_eq!(ids(DeliveryQuery { rule_id: Some("r1".to_owned()), ..Default::default() }).await, ["d4", "d3", "d1"]);
    let delivered = DeliveryQuery { status: Some(DeliveryStatus::Delivered), ..Default::default() };
    assert_eq!(ids(delivered.clone()).await, ["d2"]);
    let kept = store.deliveries(&DeliveryQuery { limit: 1, ..delivered }).await.unwrap().remove(0);
    assert_eq!(kept, Delivery { seq: kept.seq, ..done });
    assert_eq!(store.pending_deliveries().await.unwrap(), 2);
    assert!(store.due_deliveries(9, 9).await.unwrap().is_empty());
    assert_eq!(store.due_deliveries(10, 9).await.unwrap()[0].delivery_id, "d1");
}
