//! Tokens and refused calls by day.

use std::sync::Arc;

use agent_kill_switch::wire::ModelUsage;
use kill_switch::model::UsageDay;
use kill_switch::store::{Expiry, Store};

use super::commit;

const DAY_MS: u64 = 86_400_000;

fn used(model: &str, calls: u64) -> ModelUsage {
    ModelUsage { model: model.to_owned(), calls, input_tokens: calls * 100, output_tokens: calls * 10 }
}

fn day(day: u64, refused: u64, models: &[ModelUsage]) -> UsageDay {
    UsageDay { day, refused, models: models.to_vec() }
}

async fn add(store: &Store, agent_id: &str, day: UsageDay) {
    commit(store, async |tx| tx.add_usage(agent_id, &day).await.unwrap()).await;
}

pub async fn usage_adds_up_by_agent_day_and_model(store: Arc<Store>) {
    add(&store, "a", day(10, 2, &[used("gpt", 1), used("", 1)])).await;
    add(&store, "a", day(10, 0, &[used("gpt", 2)])).await;
    add(&store, "a", day(11, 5, &[])).await;
    add(&store, "b", day(11, 1, &[used("claude", 4)])).await;
    let of_a = [day(10, 2, &[used("", 1), used("gpt", 3)]), day(11, 5, &[])];
    assert_eq!(store.usage_of("a", 0).await.unwrap(), of_a);
    assert_eq!(store.usage_of("a", 11).await.unwrap(), of_a[1..]);
    assert_eq!(store.usage_of("c", 0).await.unwrap(), []);
    let all = [of_a[0].clone(), day(11, 6, &[used("claude", 4)])];
    assert_eq!(store.usage(0).await.unwrap(), all);
    assert_eq!(store.usage(12).await.unwrap(), []);
}

pub async fn the_number_of_models_of_a_day_is_bounded(store: Arc<Store>) {
    for number in 0..25 {
        add(&store, "a", day(10, 0, &[used(&format!("model-{number:02}"), 1)])).await;
    }
    add(&store, "a", day(10, 3, &[used("model-07", 1)])).await;
    let [found] = store.usage_of("a", 0).await.unwrap().try_into().unwrap();
    assert_eq!(found.models.len(), 21);
    assert_eq!(found.models[0], used("", 5), "those that did not fit");
    assert_eq!((found.total().calls, found.refused, found.models[8].calls), (26, 3, 2));
}

pub async fn usage_is_kept_as_long_as_events(store: Arc<Store>) {
    add(&store, "a", day(10, 1, &[used("gpt", 1)])).await;
    add(&store, "a", day(11, 1, &[used("gpt", 1)])).await;
    let forever = Expiry {
        now_ms: 20 * DAY_MS,
        scores_before_ms: 0,
        deliveries_before_ms: 0,
        stops_before_ms: 0,
        events_before_ms: None,
    };
    commit(&store, async |tx| assert_eq!(tx.expire(&forever).await.unwrap(), 0)).await;
    // A day is deleted when all of it is older.
    let old = Expiry { events_before_ms: Some(12 * DAY_MS - 1), ..forever };
    commit(&store, async |tx| assert_eq!(tx.expire(&old).await.unwrap(), 2)).await;
    assert_eq!(store.usage(0).await.unwrap(), [day(11, 1, &[used("gpt", 1)])]);
}
