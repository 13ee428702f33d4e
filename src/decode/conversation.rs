//! A list of messages to what is new in it.
//!
//! Walked from the end, only as far as need be. Messages of the model that follow each other are one answer: the
//! Responses API makes an item of every call.

use super::json::Json;
use super::messages::{Message, Messages, Speaker};
use super::text::push_content;
use super::tools::{ToolCalls, add_call};
use crate::fingerprint::Fingerprinter;
use crate::scan::Malformed;
use crate::wire::Counting;

/// Messages that are read at once. Of more than that since the model last spoke, the older ones are left out: what is
/// kept of each message is many times as large as the shortest message.
const NEWS_MAX: usize = 1024;

/// What a request brings.
#[derive(Debug, Default)]
pub struct Fresh {
    /// The calls that the model made last.
    pub calls: ToolCalls,
    /// Whether results of those calls are part of what is new.
    pub has_results: bool,
}

/// Pushes what is new in `messages` into `text`.
pub fn read(messages: Messages<'_>, counting: Counting, text: &mut Fingerprinter) -> Result<Fresh, Malformed> {
    match counting {
        Counting::Literal => read_literal(messages, text),
        Counting::Progress => read_progress(messages, text),
    }
}

/// The last user message; without one, the last message. Tool calls: those of the model's last answer.
fn read_literal(messages: Messages<'_>, text: &mut Fingerprinter) -> Result<Fresh, Malformed> {
    let mut last = None;
    let mut user = None;
    let mut fresh = Fresh::default();
    let mut in_answer = false;
    let mut answer_done = false;
    for message in messages {
        let message = message?;
        last.get_or_insert(message);
        let is_model = message.speaker == Speaker::Model;
        answer_done |= in_answer && !is_model;
        in_answer |= is_model;
        match message.speaker {
            Speaker::Model if !answer_done => calls(&message, &mut fresh.calls)?,
            Speaker::Result => fresh.has_results |= !in_answer,
            _ => {}
        }
        if user.is_none() && message.is_of_user()? {
            user = Some(message);
        }
        if user.is_some() && answer_done {
            break;
        }
    }
    if let Some(message) = user.or(last) {
        push(&message, text)?;
    }
    Ok(fresh)
}

/// All that came since the model last spoke, and what it called then.
fn read_progress(messages: Messages<'_>, text: &mut Fingerprinter) -> Result<Fresh, Malformed> {
    let mut fresh = Fresh::default();
    let mut news = News::default();
    let mut last = None;
    let mut calling = false;
    for message in messages {
        let message = message?;
        last.get_or_insert(message);
        match message.speaker {
            // The beginning of an answer that the client asks the model to go on with.
            Speaker::Model if news.is_empty() => {}
            Speaker::Model => {
                calls(&message, &mut fresh.calls)?;
                calling = true;
            }
            _ if calling => break,
            Speaker::Instructions => {}
            Speaker::User | Speaker::Result => {
                fresh.has_results |= message.speaker == Speaker::Result;
                news.add(message);
            }
        }
    }
    for message in news.or(last).oldest_first() {
        push(message, text)?;
        text.end_part();
    }
    Ok(fresh)
}

/// What came since the model last spoke. Mostly that is one message: only more of them need a list.
#[derive(Default)]
struct News<'a> {
    latest: Option<Message<'a>>,
    older: Vec<Message<'a>>,
}

impl<'a> News<'a> {
    fn is_empty(&self) -> bool {
        self.latest.is_none()
    }

    /// Adds a message that came before the others.
    fn add(&mut self, message: Message<'a>) {
        if self.latest.is_none() {
            self.latest = Some(message);
        } else if self.older.len() + 1 < NEWS_MAX {
            self.older.push(message);
        }
    }

    /// These, or where there are none, another message.
    fn or(self, other: Option<Message<'a>>) -> Self {
        Self { latest: self.latest.or(other), ..self }
    }

    fn oldest_first(&self) -> impl Iterator<Item = &Message<'a>> {
        self.older.iter().rev().chain(&self.latest)
    }
}

/// Pushes what a message says.
fn push(message: &Message<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    if let Some(images) = message.parts.images.filter(|images| !images.is_null()) {
        text.push_opaque(images.text());
    }
    message.parts.content.map_or(Ok(()), |content| push_content(content, text))
}

/// The tool calls of a model's message, wherever its format puts them.
fn calls(message: &Message<'_>, calls: &mut ToolCalls) -> Result<(), Malformed> {
    if message.parts.tag.is_some_and(is_call) {
        return add_call(message.whole, calls);
    }
    if let Some(listed) = message.parts.calls {
        if listed.is_object() {
            add_call(listed, calls)?;
        }
        for call in listed.elements() {
            add_call(call?, calls)?;
        }
    }
    for block in message.blocks().into_iter().flatten() {
        add_call(block?, calls)?;
    }
    Ok(())
}

/// Whether an item of the Responses API calls a tool, rather than being a message that holds calls.
fn is_call(tag: Json<'_>) -> bool {
    tag.string().is_some_and(|tag| tag.plain().ends_with(b"_call"))
}
