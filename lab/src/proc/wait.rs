//! Waiting for a condition with a deadline, which is what tests do instead of sleeping.

use std::future::Future;
use std::time::{Duration, Instant};

/// How long to pause between two looks. Short against every deadline here, long against the cost of a look.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `condition` holds. Panics at the deadline, naming what was waited for.
pub async fn wait_until<F: Future<Output = bool>>(what: &str, deadline: Duration, mut condition: impl FnMut() -> F) {
    let look = || {
        let holds = condition();
        async { holds.await.then_some(()) }
    };
    wait_until_some(what, deadline, look).await;
}

/// Waits until `look` finds something, and returns it. Panics at the deadline, naming what was waited for.
pub async fn wait_until_some<T, F: Future<Output = Option<T>>>(
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> F,
) -> T {
    let started = Instant::now();
    let mut looks = 0;
    loop {
        looks += 1;
        if let Some(found) = look().await {
            return found;
        }
        assert!(started.elapsed() < deadline, "not within {deadline:?}, in {looks} looks: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}
