//! Finds what is new in a list of messages.
//!
//! The list is walked from its end, and only as far as necessary. Consecutive messages of the model are one answer: the
//! Responses API makes a separate item of every call.

use super::action::action_in;
use super::failure::{is_failure_flag, looks_like_failure};
use super::json::Json;
use super::messages::{Message, MessageMembers, Messages, Role};
use super::request::Reading;
use super::text::{find, push_result};
use super::tools::{ToolCalls, add_call};
use crate::fingerprint::Fingerprinter;
use crate::scan::Malformed;
use crate::turn::{Format, ToolSignature};
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
    /// The action that the model wrote into its last answer, if it called no tools.
    pub action: Option<ToolSignature>,
}

/// Pushes the new text of a conversation into `text`, and returns the tools that it is about.
pub fn read(
    messages: &mut Messages<'_>,
    format: Format,
    reading: &Reading<'_>,
    text: &mut Fingerprinter,
) -> Result<ConversationTools, Malformed> {
    match reading.counting {
        Counting::Literal => read_literal(messages, text),
        Counting::Progress => read_progress(messages, format, reading, text),
    }
}

/// Reads the last user message, or the last message if there is none, and the tool calls of the model's last answer.
fn read_literal(messages: &mut Messages<'_>, text: &mut Fingerprinter) -> Result<ConversationTools, Malformed> {
    let mut last = None;
    let mut user = None;
    let mut tools = ConversationTools::default();
    let mut in_answer = false;
    let mut answer_done = false;
    while let Some(message) = messages.read_next() {
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
        push(&message, None, text)?;
    }
    Ok(tools)
}

/// Reads everything since the model last spoke, and the tool calls or the action that it answered with then.
fn read_progress(
    messages: &mut Messages<'_>,
    format: Format,
    reading: &Reading<'_>,
    text: &mut Fingerprinter,
) -> Result<ConversationTools, Malformed> {
    let mut tools = ConversationTools::default();
    let mut new = NewMessages::default();
    // The last message, if it is not among the new ones. It counts if there are none.
    let mut fallback = None;
    let mut answer = None;
    let mut has_input = false;
    while let Some(message) = messages.read_next() {
        let message = message?;
        match message.role {
            // The start of an answer, which the client asks the model to continue.
            Role::Model if new.is_empty() => {
                fallback.get_or_insert(*message);
            }
            Role::Model => {
                add_calls(message, &mut tools.calls)?;
                if answer.is_none() {
                    answer = Some(message.members.content);
                    // Usually, the message before is then not the model's. Only the Responses API splits each answer.
                    if format != Format::OpenAiResponses && !tools.has_results && message.is_text() {
                        break;
                    }
                }
            }
            _ if answer.is_some() => break,
            Role::Instructions if message.members.content.is_none() => {
                if new.is_empty() {
                    fallback.get_or_insert(*message);
                }
            }
            Role::Instructions => new.add(message),
            Role::User | Role::ToolResult => {
                tools.has_results |= message.role == Role::ToolResult;
                has_input = true;
                new.add(message);
            }
        }
    }
    tools.has_history = answer.is_some();
    if !tools.has_results && tools.calls.is_empty() {
        tools.action = answer.flatten().and_then(action_in);
    }
    // Some clients send results as instructions. Beside a real result they are reminders.
    let instructions_are_new = tools.has_history && !tools.has_results;
    if !has_input && !instructions_are_new {
        new = NewMessages { latest: fallback.or(new.latest), older: Vec::new() };
    } else if new.is_empty() {
        new.latest = fallback;
    }
    let is_result = tools.has_results || tools.action.is_some();
    for message in new.oldest_first() {
        if message.role == Role::Instructions && has_input && !instructions_are_new {
            continue;
        }
        if is_result && is_failing(message)? {
            text.mark_failing();
        }
        let id = if message.role == Role::ToolResult { quoted_id(message) } else { &[] };
        push(message, Some(id).filter(|_| !reading.keep_quoted_ids), text)?;
        text.end_part();
    }
    Ok(tools)
}

/// The messages since the model last spoke. Usually there is one; only more of them need a list.
#[derive(Default)]
struct NewMessages<'a> {
    latest: Option<Message<'a>>,
    older: Vec<Message<'a>>,
}

impl<'a> NewMessages<'a> {
    fn is_empty(&self) -> bool {
        self.latest.is_none()
    }

    /// Adds a message that is older than the others.
    fn add(&mut self, message: &Message<'a>) {
        if self.latest.is_none() {
            self.latest = Some(*message);
        } else if self.older.len() + 1 < NEW_MESSAGES_MAX {
            self.older.push(*message);
        }
    }

    fn oldest_first(&self) -> impl Iterator<Item = &Message<'a>> {
        self.older.iter().rev().chain(&self.latest)
    }
}

/// Whether a message says that a tool failed.
#[inline(never)] // rare
fn is_failing(message: &Message<'_>) -> Result<bool, Malformed> {
    // Of the APIs whose messages may have a flag, only the Responses API puts it next to the content.
    let status = if message.members.item_type.is_some() { message.json.get("status")? } else { None };
    let looks_failing = || message.members.content.is_some_and(|content| looks_like_failure(content.text()));
    Ok(status.is_some_and(is_failure_flag) || looks_failing())
}

/// Returns the id of the call whose result a message is, or nothing. The id is searched for near both ends of the message,
/// because the content between them may be long. Inside a string, the quote in what is searched for would be escaped.
#[inline(never)] // rare
fn quoted_id<'a>(message: &Message<'a>) -> &'a [u8] {
    const NAME: &[u8] = b"call_id\":";
    const NEAR: usize = 160;
    let text = message.json.text();
    let start = text.get(..NEAR).unwrap_or(text);
    let end = text.last_chunk::<NEAR>().map_or(text, |end| end);
    let at = find(start, NAME).or_else(|| Some(text.len() - end.len() + find(end, NAME)?));
    let value = at.and_then(|at| text.get(at + NAME.len()..)).unwrap_or_default().trim_ascii_start();
    let id = value.strip_prefix(b"\"").unwrap_or_default();
    id.split(|&byte| byte == b'"').next().unwrap_or_default()
}

/// Pushes the content of a message, without the ids of tool calls that their results quote, unless `id` is `None`.
fn push(message: &Message<'_>, id: Option<&[u8]>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    let MessageMembers { images, content, .. } = message.members;
    if let Some(images) = images.filter(|images| !images.is_null()) {
        text.push_opaque(images.text());
    }
    content.map_or(Ok(()), |content| push_result(content, id, text))
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
