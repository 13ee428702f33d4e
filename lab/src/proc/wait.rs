//! Waits for a condition with a deadline. Tests do this instead of sleeping for a fixed time.

use std::future::Future;
use std::time::{Duration, Instant};

/// The pause between two checks. It is short compared with every deadline, and long compared with the time of a check.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `condition` is true. If that takes longer than `deadline`, panics with a message that contains `what`.
pub async fn wait_until<F: Future<Output = bool>>(what: &str, deadline: Duration, mut condition: impl FnMut() -> F) {
    let check = || {
        let holds = condition();
        async { holds.await.then_some(()) }
    };
    wait_until_some(what, deadline, check).await;
}

/// Waits until `check` returns a value, and returns that value. If that takes longer than `deadline`, panics with a message
/// that contains `what`.
pub async fn wait_until_some<T, F: Future<Output = Option<T>>>(
    what: &str,
    deadline: Duration,
    mut check: impl FnMut() -> F,
) -> T {
    let started = Instant::now();
    let mut checks = 0;
    loop {
        checks += 1;
        if let Some(found) = check().await {
            return found;
        }
        assert!(started.elapsed() < deadline, "timed out after {deadline:?} and {checks} checks: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}
