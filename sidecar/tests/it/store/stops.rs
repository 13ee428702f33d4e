//! Conversations that were stopped.

use super::*;

/// A stop of a conversation that lasts until 100.
pub fn stop(session_key: &str, releases: u32, stopped_ms: u64) -> SessionStop {
    SessionStop {
        id: 0,
        agent_id: "a".to_owned(),
        generation: 1,
        session_key: session_key.to_owned(),
        session_id: Some("4711".to_owned()),
        releases,
        kill_id: "k".to_owned(),
        event_id: 9,
        action: Action::Deactivate,
        reason: "the same prompt".to_owned(),
        stopped_ms,
        until_ms: 100,
        told_until_ms: 100,
        released: None,
    }
}

pub async fn a_stop_is_read_as_it_was_added_until_it_is_released_or_over(store: Arc<Store>) {
    let stops = async |at_ms: u64, generation: u64, before: Option<u64>| {
        let query = StopQuery { agent_id: "a".to_owned(), generation, at_ms, before, limit: 9 };
        store.stops(&query).await.unwrap()
    };
    let keys = |stops: &[SessionStop]| stops.iter().map(|stop| stop.session_key.clone()).collect::<Vec<_>>();
    let unnamed = SessionStop { session_id: None, action: Action::Block, ..stop("x", 0, 10) };
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.latest_stop("a", 1, "x").await.unwrap(), None);
    tx.add_stop(&unnamed).await.unwrap();
    tx.add_stop(&stop("y", 0, 20)).await.unwrap();
    let added = tx.latest_stop("a", 1, "x").await.unwrap().unwrap();
    assert_eq!(added, SessionStop { id: added.id, ..unnamed });
    assert_eq!(tx.latest_stop("a", 2, "x").await.unwrap(), None, "another generation");
    tx.commit().await.unwrap();
    let both = stops(99, 1, None).await;
    assert_eq!(keys(&both), ["y", "x"], "newest first");
    assert_eq!(keys(&stops(99, 1, Some(both[0].id)).await), ["x"], "the next page");
    assert!(stops(100, 1, None).await.is_empty(), "they are over");
    assert!(stops(99, 2, None).await.is_empty());

    let again = SessionStop { until_ms: 300, ..stop("x", 0, 200) };
    commit(&store, async |tx| tx.add_stop(&again).await.unwrap()).await;
    let mut renewed = stops(250, 1, None).await.remove(0);
    assert_eq!(renewed, SessionStop { id: renewed.id, ..again }, "it replaces the one before");
    renewed.released = Some((260, "token:operator".to_owned()));
    renewed.told_until_ms = 400;
    let mut tx = store.begin().await.unwrap();
    tx.release_stop(&renewed).await.unwrap();
    assert_eq!(tx.latest_stop("a", 1, "x").await.unwrap(), Some(renewed));
    tx.add_stop(&stop("x", 1, 270)).await.unwrap();
    assert_eq!(tx.latest_stop("a", 1, "x").await.unwrap().unwrap().releases, 1);
    tx.commit().await.unwrap();
    assert!(stops(270, 1, None).await.is_empty());
}

pub async fn filters_are_told_the_latest_stop_of_each_conversation(store: Arc<Store>) {
    let told = async |now_ms: u64, limit: u32| {
        let told = store.told_stops("a", 1, now_ms, limit).await.unwrap();
        told.into_iter().map(|stop| (stop.session_key, stop.releases, stop.released.is_some())).collect::<Vec<_>>()
    };
    let mut tx = store.begin().await.unwrap();
    for (key, stopped_ms) in [("x", 10), ("y", 20), ("z", 30)] {
        tx.add_stop(&stop(key, 0, stopped_ms)).await.unwrap();
    }
    tx.add_stop(&SessionStop { agent_id: "b".to_owned(), told_until_ms: 50, ..stop("x", 0, 10) }).await.unwrap();
    for (key, at_ms) in [("x", 40), ("y", 25)] {
        let mut released = tx.latest_stop("a", 1, key).await.unwrap().unwrap();
        released.released = Some((at_ms, "dashboard".to_owned()));
        tx.release_stop(&released).await.unwrap();
    }
    tx.add_stop(&stop("y", 1, 35)).await.unwrap();
    tx.commit().await.unwrap();
    let (x, y, z) = (("x".to_owned(), 0, true), ("y".to_owned(), 1, false), ("z".to_owned(), 0, false));
    assert_eq!(told(60, 9).await, [x.clone(), y.clone(), z], "those that changed last come first");
    assert_eq!(told(60, 2).await, [x, y]);
    assert!(told(100, 9).await.is_empty());
    let agents = async |now_ms: u64| {
        let mut agents: Vec<_> = store.agents_with_stops(now_ms).await.unwrap().into_iter().collect();
        agents.sort();
        agents
    };
    assert_eq!((agents(49).await.join(" "), agents(50).await.join(" ")), ("a b".to_owned(), "a".to_owned()));
}

pub async fn other_conversations_that_were_stopped_are_counted(store: Arc<Store>) {
    let mut tx = store.begin().await.unwrap();
    tx.add_stop(&stop("x", 0, 10)).await.unwrap();
    tx.add_stop(&stop("y", 0, 20)).await.unwrap();
    let mut released = tx.latest_stop("a", 1, "y").await.unwrap().unwrap();
    released.released = Some((25, "dashboard".to_owned()));
    tx.release_stop(&released).await.unwrap();
    tx.add_stop(&stop("y", 1, 30)).await.unwrap();
    tx.add_stop(&SessionStop { action: Action::Block, ..stop("blocked", 0, 30) }).await.unwrap();
    tx.add_stop(&SessionStop { generation: 2, ..stop("later", 0, 30) }).await.unwrap();
    tx.add_stop(&SessionStop { agent_id: "b".to_owned(), ..stop("other", 0, 30) }).await.unwrap();
    for (key, since_ms, count) in [("z", 0, 2), ("x", 0, 1), ("y", 0, 1), ("z", 9, 2), ("z", 10, 1), ("z", 30, 0)] {
        let counted = tx.other_stopped_sessions(&stop(key, 0, 40), since_ms).await.unwrap();
        assert_eq!(counted, count, "other than {key} after {since_ms}");
    }
}
