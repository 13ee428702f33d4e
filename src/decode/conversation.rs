//! Finds what is new in a list of messages.
//!
//! The list is walked from its end, and only as far as necessary. Consecutive messages of the model are one answer: the
//! Responses API makes a separate item of every call.

use super::json::Json;
use super::messages::{Message, Messages, Role};
use super::text::push_content;
use super::tools::{ToolCalls, add_call};
use crate::fingerprint::Fingerprinter;
use crate::scan::Malformed;
use crate::wire::Counting;

/// The most messages that are read. If there are more since the model last spoke, the older ones are ignored: what is
/// remembered of a message takes many times the bytes of the shortest message.
const NEW_MESSAGES_MAX: usize = 1024;

/// The tools that a conversation is about.
#[derive(Debug, Default)]
pub struct ConversationTools {
    /// The calls that the model made last.
    pub calls: ToolCalls,
    /// Whether the new messages contain results of calls.
    pub has_results: bool,
    /// Whether the model has spoken in the conversation.
    pub has_history: bool,
}

/// Pushes the new text of a conversation into `text`, and returns the tools that it is about.
pub fn read(
    messages: &mut Messages<'_>,
    counting: Counting,
    text: &mut Fingerprinter,
) -> Result<ConversationTools, Malformed> {
    match counting {
        Counting::Literal => read_literal(messages, text),
        Counting::Progress => read_progress(messages, text),
    }
}

/// Reads the last user message, or the last message if there is none, and the tool calls of the model's last answer.
fn read_literal(messages: &mut Messages<'_>, text: &mut Fingerprinter) -> Result<ConversationTools, Malformed> {
    let mut last = None;
    let mut user = None;
    let mut tools = ConversationTools::default();
    let mut in_answer = false;
    let mut answer_done = false;
    while let Some(message) = messages.next() {
        let message = message?;
        last.get_or_insert(*message);
        let is_model = message.role == Role::Model;
        answer_done |= in_answer && !is_model;
        tools.has_history |= is_model;
        in_answer |= is_model;
        match message.role {
            Role::Model if !answer_done => add_calls(message, &mut tools.calls)?,
            Role::ToolResult => tools.has_results |= !in_answer,
            _ => {}
        }
        if user.is_none() && message.is_of_user()? {
            user = Some(*message);
        }
        if user.is_some() && answer_done {
            break;
        }
    }
    if let Some(message) = user.or(last) {
        push(&message, text)?;
    }
    Ok(tools)
}

/// Reads everything since the model last spoke, and the tool calls that it made then.
fn read_progress(messages: &mut Messages<'_>, text: &mut Fingerprinter) -> Result<ConversationTools, Malformed> {
    let mut tools = ConversationTools::default();
    let mut new = NewMessages::default();
    let mut in_answer = false;
    while let Some(message) = messages.next() {
        let message = message?;
        match message.role {
            // The start of an answer, which the client asks the model to continue.
            Role::Model if new.is_empty() => new.add_fallback(message),
            Role::Model => {
                add_calls(message, &mut tools.calls)?;
                in_answer = true;
                tools.has_history = true;
            }
            _ if in_answer => break,
            Role::Instructions => new.add_fallback(message),
            Role::User | Role::ToolResult => {
                tools.has_results |= message.role == Role::ToolResult;
                new.add(message);
            }
        }
    }
    for message in new.oldest_first() {
        push(message, text)?;
        text.end_part();
    }
    Ok(tools)
}

/// The messages since the model last spoke. Usually there is one; only more of them need a list.
#[derive(Default)]
struct NewMessages<'a> {
    /// The latest new message. If there is none, the last message of the list.
    latest: Option<Message<'a>>,
    has_new: bool,
    older: Vec<Message<'a>>,
}

impl<'a> NewMessages<'a> {
    fn is_empty(&self) -> bool {
        !self.has_new
    }

    /// Adds a message that is older than the others.
    fn add(&mut self, message: &Message<'a>) {
        if !self.has_new {
            self.latest = Some(*message);
            self.has_new = true;
        } else if self.older.len() + 1 < NEW_MESSAGES_MAX {
            self.older.push(*message);
        }
    }

    /// Adds a message that only counts if it is the last one and none is new.
    fn add_fallback(&mut self, message: &Message<'a>) {
        self.latest.get_or_insert(*message);
    }

    fn oldest_first(&self) -> impl Iterator<Item = &Message<'a>> {
        self.older.iter().rev().chain(&self.latest)
    }
}

/// Pushes the content of a message.
fn push(message: &Message<'_>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    if let Some(images) = message.members.images.filter(|images| !images.is_null()) {
        text.push_opaque(images.text());
    }
    message.members.content.map_or(Ok(()), |content| push_content(content, text))
}

/// Adds the tool calls of a model's message, wherever its format puts them.
fn add_calls(message: &Message<'_>, calls: &mut ToolCalls) -> Result<(), Malformed> {
    if message.members.item_type.is_some_and(is_call) {
        return add_call(message.json, calls);
    }
    if let Some(listed) = message.members.calls {
        if listed.is_object() {
            add_call(listed, calls)?;
        }
        for call in listed.elements() {
            add_call(call?, calls)?;
        }
    }
    let Some(blocks) = message.blocks() else { return Ok(()) };
    for block in blocks {
        add_call(block?, calls)?;
    }
    Ok(())
}

/// Returns whether an item of the Responses API is itself a tool call.
fn is_call(item_type: Json<'_>) -> bool {
    item_type.string().is_some_and(|name| name.unescaped().ends_with(b"_call"))
}
