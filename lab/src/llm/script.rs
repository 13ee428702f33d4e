//! Chooses the answer to a request.
//!
//! The first of these that has one decides: the request's own `x-lab-*` headers, the queue, the test's closure. Otherwise
//! the answer is made from a hash of the last message, so that the same question always gets the same answer.

use std::collections::VecDeque;
use std::sync::Mutex;

use axum::http::HeaderMap;

use crate::answer::Answer;
use crate::prose;
use crate::wire::Ask;

/// The whole answer, as JSON.
pub const SCRIPT: &str = "x-lab-script";
/// The text of the answer.
pub const ANSWER: &str = "x-lab-answer";
/// The status of the answer.
pub const STATUS: &str = "x-lab-status";
/// The delay before the first byte, in milliseconds.
pub const DELAY_MS: &str = "x-lab-delay-ms";

type Closure = Box<dyn Fn(&Ask) -> Option<Answer> + Send + Sync>;

/// The answers that a test has prepared.
#[derive(Default)]
pub struct Script {
    queue: Mutex<VecDeque<Answer>>,
    closure: Mutex<Option<Closure>>,
}

impl Script {
    /// Appends to the queue.
    pub fn enqueue(&self, answers: impl IntoIterator<Item = Answer>) {
        self.queue.lock().expect("nobody panics while queueing").extend(answers);
    }

    /// Sets the closure that is asked when the queue is empty.
    pub fn decide(&self, closure: impl Fn(&Ask) -> Option<Answer> + Send + Sync + 'static) {
        *self.closure.lock().expect("nobody panics while deciding") = Some(Box::new(closure));
    }

    /// Returns the answer to a request. A header that cannot be parsed is answered with a 400 that names it.
    pub fn answer(&self, ask: &Ask) -> Answer {
        match self.steered(ask) {
            Ok(answer) => answer.with_ids(),
            Err(mistake) => Answer::error(400, mistake),
        }
    }

    fn steered(&self, ask: &Ask) -> Result<Answer, String> {
        let header = |name| header_text(&ask.headers, name);
        let mut answer = match (header(SCRIPT)?, header(ANSWER)?) {
            (Some(script), _) => serde_json::from_str(script).map_err(|e| format!("{SCRIPT} ({script}): {e}"))?,
            (None, Some(text)) => Answer::text(text),
            (None, None) => self.prepared(ask).unwrap_or_else(|| Answer::text(prose::reply_to(&ask.last))),
        };
        if let Some(status) = header(STATUS)? {
            answer.status = status.parse().map_err(|_| format!("{STATUS} ({status}) must be a number"))?;
        }
        if let Some(delay) = header(DELAY_MS)? {
            answer.delay_ms = delay.parse().map_err(|_| format!("{DELAY_MS} ({delay}) must be a number"))?;
        }
        if !(200..600).contains(&answer.status) {
            return Err(format!("status ({}) must be from 200 to 599", answer.status));
        }
        Ok(answer)
    }

    fn prepared(&self, ask: &Ask) -> Option<Answer> {
        let queued = self.queue.lock().expect("nobody panics while queueing").pop_front();
        queued.or_else(|| self.closure.lock().expect("nobody panics while deciding").as_ref()?(ask))
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, String> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    std::str::from_utf8(value.as_bytes()).map(Some).map_err(|_| format!("{name} must be UTF-8"))
}
