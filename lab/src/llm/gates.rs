//! Gates at which answers wait until a test lets them pass.
//!
//! A test that needs a stream in its middle can hold it there for exactly as long as it needs, instead of guessing how
//! long that takes on a busy machine.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// The gates that are open.
#[derive(Default)]
pub struct Gates(watch::Sender<BTreeSet<String>>);

impl Gates {
    /// Opens a gate.
    pub fn open(&self, name: &str) {
        self.0.send_modify(|open| {
            open.insert(name.to_owned());
        });
    }

    /// One gate, to be waited at. A gate without a name is always open.
    pub fn gate(&self, name: &str) -> Gate {
        Gate { name: name.to_owned(), open: self.0.subscribe() }
    }
}

/// One gate.
#[derive(Clone)]
pub struct Gate {
    name: String,
    open: watch::Receiver<BTreeSet<String>>,
}

impl Gate {
    /// Waits until the gate is open.
    pub async fn pass(mut self) {
        if !self.name.is_empty() {
            // An error means that the mock LLM has ended, and its answers with it.
            let _ = self.open.wait_for(|open| open.contains(&self.name)).await;
        }
    }
}
