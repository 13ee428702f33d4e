//! A record of the requests that reached the mock LLM.
//!
//! A request is recorded when its headers arrive and completed when its body has arrived. A proxy that forwards headers
//! early and then aborts leaves an entry that is not whole.

use std::collections::VecDeque;
use std::sync::Mutex;

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use serde_json::Value;
use tokio::sync::watch;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// The request's number, from 1.
    pub number: u64,
    pub method: String,
    pub path: String,
    pub headers: HeaderMap,
    /// The body; empty until all of it has arrived.
    pub body: Bytes,
    /// Whether all of the body has arrived.
    pub whole: bool,
}

impl Received {
    /// Returns a header's value, or an empty string.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the body as JSON, or null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The last `keep` requests, and the number of all.
pub struct Journal {
    keep: usize,
    entries: Mutex<VecDeque<Received>>,
    begun: watch::Sender<u64>,
}

impl Journal {
    pub fn new(keep: usize) -> Journal {
        Journal { keep, entries: Mutex::default(), begun: watch::Sender::new(0) }
    }

    /// Records a request whose headers have arrived, and returns its number.
    pub fn begin(&self, head: &Parts) -> u64 {
        let mut entries = self.lock();
        let number = *self.begun.borrow() + 1;
        entries.push_back(Received {
            number,
            method: head.method.to_string(),
            path: head.uri.to_string(),
            headers: head.headers.clone(),
            body: Bytes::new(),
            whole: false,
        });
        if entries.len() > self.keep {
            entries.pop_front();
        }
        // Under the lock, so that numbers are unique and an entry exists before its number is announced.
        self.begun.send_replace(number);
        number
    }

    /// Adds the body to a request.
    pub fn complete(&self, number: u64, body: Bytes) {
        if let Some(entry) = self.lock().iter_mut().find(|entry| entry.number == number) {
            entry.body = body;
            entry.whole = true;
        }
        self.begun.send_modify(|_| ());
    }

    /// Returns the kept requests, oldest first.
    pub fn entries(&self) -> Vec<Received> {
        self.lock().iter().cloned().collect()
    }

    /// Returns how many requests have begun, kept or not.
    pub fn count(&self) -> u64 {
        *self.begun.borrow()
    }

    /// Returns a receiver that is notified of every change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.begun.subscribe()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Received>> {
        self.entries.lock().expect("nobody panics while writing the journal")
    }
}
