//! A list of messages to what is new in it.
//!
//! Walked from the end, so that a long history costs nothing. Who speaks is told by `role` or, in lists of items, by
//! `type`; as with content, one reader serves the union of the formats.

use super::json::{Json, Malformed};
use super::text::push_content;
use super::tools::ToolCalls;
use crate::detect::fingerprint::Fingerprinter;
use crate::wire::Counting;

/// What a request brings.
#[derive(Debug, Default)]
pub struct Fresh {
    /// The calls that the model made last.
    pub calls: ToolCalls,
    /// Whether results of those calls are part of what is new.
    pub has_results: bool,
}

/// Pushes what is new in `messages` into `text`.
pub fn read(messages: Json<'_>, counting: Counting, text: &mut Fingerprinter) -> Result<Fresh, Malformed> {
    match counting {
        Counting::Literal => read_literal(messages, text),
        Counting::Progress => read_progress(messages, text),
    }
}

/// The last user message; without one, the last message. Tool calls: those of the model's last message.
fn read_literal(messages: Json<'_>, text: &mut Fingerprinter) -> Result<Fresh, Malformed> {
    let mut last = None;
    let mut user = None;
    let mut fresh = Fresh::default();
    let mut model_done = false;
    for message in messages.elements_back() {
        let message = Message::read(message?)?;
        last.get_or_insert(message);
        match message.speaker {
            Speaker::User if user.is_none() => user = Some(message),
            Speaker::Model if !model_done => {
                message.calls(&mut fresh.calls)?;
                model_done = true;
            }
            Speaker::Result => fresh.has_results |= !model_done,
            _ => {}
        }
        if user.is_some() && model_done {
            break;
        }
    }
    if let Some(message) = user.or(last) {
        message.push(text)?;
    }
    Ok(fresh)
}

/// All that came since the model last spoke, and what it called then.
fn read_progress(messages: Json<'_>, text: &mut Fingerprinter) -> Result<Fresh, Malformed> {
    let mut fresh = Fresh::default();
    let mut news = Vec::new();
    let mut calling = false;
    for message in messages.elements_back() {
        let message = Message::read(message?)?;
        match message.speaker {
            // The beginning of an answer that the client asks the model to go on with.
            Speaker::Model if news.is_empty() => {}
            Speaker::Model => {
                message.calls(&mut fresh.calls)?;
                calling = true;
            }
            _ if calling => break,
            Speaker::Instructions => {}
            Speaker::User | Speaker::Result => {
                fresh.has_results |= message.speaker == Speaker::Result;
                news.push(message);
            }
        }
    }
    if news.is_empty() {
        news.extend(messages.elements_back().next().transpose()?.map(Message::read).transpose()?);
    }
    for message in news.iter().rev() {
        message.push(text)?;
        text.part();
    }
    Ok(fresh)
}

/// Whose words a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    Instructions,
    User,
    Result,
    Model,
}

/// The members of a message that matter.
#[derive(Clone, Copy)]
struct Message<'a> {
    whole: Json<'a>,
    speaker: Speaker,
    content: Option<Json<'a>>,
    calls: Option<Json<'a>>,
}

impl<'a> Message<'a> {
    fn read(whole: Json<'a>) -> Result<Self, Malformed> {
        let mut message = Self { whole, speaker: Speaker::User, content: None, calls: None };
        if !whole.is_object() {
            message.content = Some(whole);
            return Ok(message);
        }
        for member in whole.members() {
            let (name, value) = member?;
            match () {
                () if name.is("role") => message.speaker = by_role(value).unwrap_or(message.speaker),
                () if name.is("type") => message.speaker = by_type(value).unwrap_or(message.speaker),
                () if name.is("content") || name.is("parts") || name.is("output") => message.content = Some(value),
                () if name.is("tool_calls") || name.is("function_call") => message.calls = Some(value),
                () => {}
            }
        }
        if message.speaker == Speaker::User && message.holds_result()? {
            message.speaker = Speaker::Result;
        }
        Ok(message)
    }

    /// Whether a user's message is in truth a tool's result (Anthropic, Gemini, Bedrock).
    fn holds_result(&self) -> Result<bool, Malformed> {
        let Some(blocks) = self.content.filter(|content| content.is_array()) else { return Ok(false) };
        for block in blocks.elements() {
            for member in block?.members() {
                let (name, value) = member?;
                let tagged = name.is("type") && value.string().is_some_and(|tag| tag.is("tool_result"));
                let named = ["toolResult", "functionResponse", "function_response"].iter().any(|known| name.is(known));
                if tagged || named {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn push(&self, text: &mut Fingerprinter) -> Result<(), Malformed> {
        match self.content {
            Some(content) => push_content(content, text),
            None => Ok(()),
        }
    }

    /// The tool calls of a model's message, wherever its format puts them.
    fn calls(&self, calls: &mut ToolCalls) -> Result<(), Malformed> {
        if let Some(listed) = self.calls {
            if listed.is_object() {
                add_call(listed, calls)?;
            }
            for call in listed.elements() {
                add_call(call?, calls)?;
            }
        }
        for block in self.content.into_iter().flat_map(Json::elements) {
            add_call(block?, calls)?;
        }
        if self.whole.get("type")?.and_then(Json::string).is_some_and(|tag| tag.is("function_call")) {
            add_call(self.whole, calls)?;
        }
        Ok(())
    }
}

fn by_role(role: Json<'_>) -> Option<Speaker> {
    let role = role.string()?;
    let is_any = |names: &[&str]| names.iter().any(|name| role.is(name));
    match () {
        () if is_any(&["assistant", "model", "agent", "chatbot", "CHATBOT"]) => Some(Speaker::Model),
        () if is_any(&["tool", "function"]) => Some(Speaker::Result),
        () if is_any(&["system", "developer"]) => Some(Speaker::Instructions),
        () => None,
    }
}

/// Items of the Responses API that are not messages.
fn by_type(tag: Json<'_>) -> Option<Speaker> {
    let tag = tag.string()?;
    match () {
        () if tag.raw().ends_with(b"_call_output") => Some(Speaker::Result),
        () if tag.raw().ends_with(b"_call") || tag.is("reasoning") => Some(Speaker::Model),
        () => None,
    }
}

/// Adds a tool call: `{function: {name, arguments}}`, `{name, arguments | input | args}`, or one of these inside
/// `toolUse` or `functionCall`. What has no name is no call.
pub fn add_call(call: Json<'_>, calls: &mut ToolCalls) -> Result<(), Malformed> {
    let mut inner = call;
    for name in ["function", "toolUse", "functionCall", "function_call"] {
        if let Some(value) = call.get(name)?.filter(|value| value.is_object()) {
            inner = value;
        }
    }
    let mut name = None;
    let mut arguments = None;
    for member in inner.members() {
        let (key, value) = member?;
        if key.is("name") {
            name = Some(value);
        } else if ["arguments", "input", "args", "parameters"].iter().any(|known| key.is(known)) {
            arguments = Some(value);
        }
    }
    match name {
        Some(name) => calls.add(name, arguments),
        None => Ok(()),
    }
}
