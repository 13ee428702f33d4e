//! Gates at which answers wait until a test lets them pass.
//!
//! A test that needs a stream in its middle can hold it there for exactly as long as it needs, instead of guessing how
//! long that takes on a busy machine. It can also see how many answers with a gate are under way, and so when the
//! upstream has noticed that a client has gone away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;

#[derive(Default)]
struct State {
    open: BTreeSet<String>,
    under_way: BTreeMap<String, usize>,
}

/// All gates of a mock LLM.
#[derive(Default)]
pub struct Gates(Arc<watch::Sender<State>>);

impl Gates {
    /// Opens a gate.
    pub fn open(&self, name: &str) {
        self.0.send_modify(|state| {
            state.open.insert(name.to_owned());
        });
    }

    /// Returns how many answers with this gate have begun and not ended.
    pub fn under_way(&self, name: &str) -> usize {
        self.0.borrow().under_way.get(name).copied().unwrap_or(0)
    }

    /// Returns the gate of one answer. The answer is under way as long as the gate or a clone of it exists. Without a name
    /// there is no gate.
    pub fn gate(&self, name: &str) -> Gate {
        if name.is_empty() {
            return Gate(None);
        }
        self.0.send_modify(|state| *state.under_way.entry(name.to_owned()).or_default() += 1);
        Gate(Some(Arc::new(Held { name: name.to_owned(), gates: self.0.clone() })))
    }
}

/// The gate of one answer, if it has one.
#[derive(Clone, Default)]
pub struct Gate(Option<Arc<Held>>);

impl Gate {
    pub fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// Waits until the gate is open.
    pub async fn pass(&self) {
        if let Some(Held { name, gates }) = self.0.as_deref() {
            // An error means that the mock LLM has ended, and its answers with it.
            let _ = gates.subscribe().wait_for(|state| state.open.contains(name)).await;
        }
    }
}

struct Held {
    name: String,
    gates: Arc<watch::Sender<State>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gates.send_modify(|state| {
            if let Some(under_way) = state.under_way.get_mut(&self.name) {
                *under_way -= 1;
            }
        });
    }
}
