//! The latest pause, and what kill reports stopped.

use kill_switch::model::{Pause, PauseCause};
use kill_switch::store::Stopped;

use super::*;

pub async fn the_latest_pause_is_read_as_it_was_saved_under_a_new_revision(store: Arc<Store>) {
    assert_eq!(store.pause().await.unwrap(), None);
    let pause = Pause {
        since_ms: 5,
        until_ms: 3_605,
        spares_after_ms: 4,
        cause: PauseCause::Storm,
        actor: "kill_switch".to_owned(),
        by: None,
        reason: "too many".to_owned(),
        event_id: 7,
        ended_ms: None,
    };
    let before = store.meta().await.unwrap().rev;
    let rev = commit(&store, async |tx| tx.save_pause(&pause).await.unwrap()).await;
    assert_eq!((rev, store.meta().await.unwrap().rev), (before + 1, before + 1), "filters are told");
    assert_eq!(store.pause().await.unwrap().as_ref(), Some(&pause));
    let other = Pause {
        cause: PauseCause::Manual,
        by: Some("Ada".to_owned()),
        ended_ms: Some(9),
        event_id: 8,
        ..pause.clone()
    };
    commit(&store, async |tx| {
        assert_eq!(tx.pause().await.unwrap().as_ref(), Some(&pause));
        tx.save_pause(&other).await.unwrap();
    })
    .await;
    assert_eq!(store.pause().await.unwrap(), Some(other), "there is one row");
}

pub async fn what_kill_reports_stopped_in_a_range_of_time_is_counted(store: Arc<Store>) {
    use KillOutcome::{Applied, Blocked, Duplicate, Observed, Stale};
    let reports = [
        ("k0", "early", Applied, 100),
        ("k1", "a", Applied, 101),
        ("k2", "a", Duplicate, 102),
        ("k3", "b", Blocked, 110),
        ("k4", "b", Blocked, 120),
        ("k5", "c", KillOutcome::Stopped, 130),
        ("k6", "c", KillOutcome::Stopped, 140),
        ("k7", "d", Observed, 150),
        ("k8", "e", Stale, 160),
        ("k9", "f", Blocked, 200),
        ("k10", "late", Applied, 201),
    ];
    commit(&store, async |tx| {
        for (kill_id, agent_id, outcome, detected_ms) in reports {
            let scope = if ["c", "f"].contains(&agent_id) { wire::Scope::Session } else { wire::Scope::Agent };
            let (kill_id, agent_id) = (kill_id.to_owned(), agent_id.to_owned());
            let (generation, event_id, received_ms) = (1, 1, 1_000);
            let record =
                KillRecord { kill_id, agent_id, generation, outcome, event_id, received_ms, detected_ms, scope };
            tx.record_kill(&record).await.unwrap();
        }
        // The one of k5 was replaced by that of k6.
        for (key, kill_id, agent_id) in [("x", "k6", "c"), ("x", "k9", "f"), ("y", "k10", "c")] {
            let (kill_id, agent_id) = (kill_id.to_owned(), agent_id.to_owned());
            tx.add_stop(&SessionStop { kill_id, agent_id, ..stop(key, 0, 1) }).await.unwrap();
        }
    })
    .await;
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.count_stopped(100, 200).await.unwrap(), 5, "a, b once, two conversations of c, f");
    assert_eq!(tx.count_stopped(101, 199).await.unwrap(), 3);
    assert_eq!(tx.last_detection(100, 200).await.unwrap(), Some(140), "those that stopped nothing do not count");
    assert_eq!(tx.last_detection(200, 201).await.unwrap(), Some(200));
    assert_eq!(tx.last_detection(202, 300).await.unwrap(), None);
    let stops = tx.stops_made(100, 200).await.unwrap();
    assert_eq!(stops.iter().map(|stop| stop.kill_id.as_str()).collect::<Vec<_>>(), ["k6", "k9"]);
    let stopped = |agent_id: &str, outcome: KillOutcome, is_session: bool| Stopped {
        agent_id: agent_id.to_owned(),
        generation: 1,
        outcome,
        is_session,
    };
    let expected = [
        stopped("a", Applied, false),
        stopped("b", Blocked, false),
        stopped("c", KillOutcome::Stopped, true),
        stopped("f", Blocked, true),
    ];
    assert_eq!(tx.stopped(100, 200).await.unwrap(), expected);
}
