//! A list of messages to what is new in it.
//!
//! Walked from the end, so that a long history costs nothing. Who speaks is told by `role` or, in lists of items, by
//! `type`; as with content, one reader serves the union of the formats. Messages of the model that follow each other are
//! one answer: the Responses API makes an item of every call.

use super::json::{ElementsBack, Json, Malformed};
use super::text::push_content;
use super::tools::{ToolCalls, add_call};
use crate::detect::fingerprint::Fingerprinter;
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

/// Messages, last to first: a list, or a single one.
#[derive(Clone)]
pub struct Messages<'a> {
    list: ElementsBack<'a>,
    single: Option<Json<'a>>,
}

impl<'a> Messages<'a> {
    /// The messages in a value.
    pub fn of(value: Json<'a>) -> Self {
        Self { list: value.elements_back(), single: Some(value).filter(|value| value.is_object()) }
    }

    /// The conversation at the end of a body, found without reading what is before it: the last list whose last element
    /// says who speaks. Nothing where what is asked comes in another way. Of two such lists the last one is taken.
    pub fn at_end_of(body: Json<'a>) -> Option<Self> {
        let mut members = body.members_back();
        loop {
            if let Some(list) = members.next_list()
                && let Some(Ok(last)) = list.clone().next()
                && last.get("role").is_ok_and(|role| role.is_some())
            {
                return Some(Self { list, single: None });
            }
            let (name, _) = members.next()?.ok()?;
            if ASKING.iter().any(|asking| name.is(asking)) {
                return None;
            }
        }
    }
}

/// Members of a body that ask something, in one way or another.
const ASKING: [&str; 7] = ["messages", "input", "contents", "prompt", "images", "params", "jsonrpc"];

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.list.next().or_else(|| self.single.take().map(Ok))?;
        Some(next.and_then(Message::read))
    }
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
            Speaker::Model if !answer_done => message.calls(&mut fresh.calls)?,
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
        message.push(text)?;
    }
    Ok(fresh)
}

/// All that came since the model last spoke, and what it called then.
fn read_progress(messages: Messages<'_>, text: &mut Fingerprinter) -> Result<Fresh, Malformed> {
    let mut fresh = Fresh::default();
    let mut news = Vec::new();
    let mut last = None;
    let mut calling = false;
    for message in messages {
        let message = message?;
        last.get_or_insert(message);
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
                if news.len() < NEWS_MAX {
                    news.push(message);
                }
            }
        }
    }
    if news.is_empty() {
        news.extend(last);
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
pub struct Message<'a> {
    whole: Json<'a>,
    speaker: Speaker,
    /// Whether a result travels in a user's message.
    in_user_message: bool,
    /// Whether it is an item of the Responses API that calls a tool, rather than a message that holds calls.
    is_call: bool,
    content: Option<Json<'a>>,
    /// Ollama's, beside the content.
    images: Option<Json<'a>>,
    calls: Option<Json<'a>>,
}

impl<'a> Message<'a> {
    fn read(whole: Json<'a>) -> Result<Self, Malformed> {
        let mut message = Self {
            whole,
            speaker: Speaker::User,
            in_user_message: false,
            is_call: false,
            content: None,
            images: None,
            calls: None,
        };
        if !whole.is_object() {
            message.content = Some(whole);
            return Ok(message);
        }
        for member in whole.members() {
            let (name, value) = member?;
            match &*name.plain() {
                b"role" => message.speaker = by_role(value).unwrap_or(message.speaker),
                b"type" => message.read_type(value),
                b"content" | b"parts" | b"output" => message.content = Some(value),
                b"images" => message.images = Some(value),
                b"tool_calls" | b"function_call" => message.calls = Some(value),
                _ => {}
            }
        }
        if message.speaker == Speaker::User && message.holds(is_result)? {
            message.speaker = Speaker::Result;
            message.in_user_message = true;
        }
        Ok(message)
    }

    /// Items of the Responses API that are not messages.
    fn read_type(&mut self, tag: Json<'_>) {
        let Some(tag) = tag.string() else { return };
        match &*tag.plain() {
            // Neither says who spoke it nor what.
            b"item_reference" => self.speaker = Speaker::Instructions,
            b"reasoning" => self.speaker = Speaker::Model,
            tag if tag.ends_with(b"_call_output") => self.speaker = Speaker::Result,
            tag if tag.ends_with(b"_call") => {
                self.speaker = Speaker::Model;
                self.is_call = true;
            }
            _ => {}
        }
    }

    /// Whether a person may have said this: also when tools' results travel in the same message.
    fn is_of_user(&self) -> Result<bool, Malformed> {
        match self.speaker {
            Speaker::User => Ok(true),
            Speaker::Result if self.in_user_message => self.holds(|name, _| name == b"text"),
            Speaker::Result | Speaker::Instructions | Speaker::Model => Ok(false),
        }
    }

    /// Whether a block of the content has such a member.
    fn holds(&self, is_meant: impl Fn(&[u8], Json<'_>) -> bool) -> Result<bool, Malformed> {
        for block in self.content.into_iter().flat_map(Json::elements) {
            for member in block?.members() {
                let (name, value) = member?;
                if is_meant(&name.plain(), value) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn push(&self, text: &mut Fingerprinter) -> Result<(), Malformed> {
        if let Some(images) = self.images.filter(|images| !images.is_null()) {
            text.opaque(images.text());
        }
        self.content.map_or(Ok(()), |content| push_content(content, text))
    }

    /// The tool calls of a model's message, wherever its format puts them.
    fn calls(&self, calls: &mut ToolCalls) -> Result<(), Malformed> {
        if self.is_call {
            return add_call(self.whole, calls);
        }
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
        Ok(())
    }
}

/// A tool's result in a user's message (Anthropic, Gemini, Bedrock).
fn is_result(name: &[u8], value: Json<'_>) -> bool {
    match name {
        b"toolResult" | b"functionResponse" | b"function_response" => true,
        b"type" => value.string().is_some_and(|tag| tag.is("tool_result")),
        _ => false,
    }
}

fn by_role(role: Json<'_>) -> Option<Speaker> {
    match &*role.string()?.plain() {
        b"assistant" | b"model" | b"agent" | b"chatbot" | b"CHATBOT" => Some(Speaker::Model),
        b"tool" | b"function" => Some(Speaker::Result),
        b"system" | b"developer" => Some(Speaker::Instructions),
        _ => None,
    }
}
