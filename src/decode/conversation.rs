//! A list of messages to what is new in it.
//!
//! Walked from the end, so that a long history costs nothing. Who speaks is told by `role` or, in lists of items, by
//! `type`; as with content, one reader serves the union of the formats. Messages of the model that follow each other are
//! one answer: the Responses API makes an item of every call.

use super::json::{Elements, ElementsBack, Json, Malformed, MembersBack, RawStr};
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
pub struct Messages<'a> {
    /// Read already, to see whether the list is one of messages.
    first: Option<Message<'a>>,
    list: ElementsBack<'a>,
    single: Option<Json<'a>>,
}

impl<'a> Messages<'a> {
    /// The messages in a value.
    pub fn of(value: Json<'a>) -> Self {
        Self { first: None, list: value.elements_back(), single: Some(value).filter(|value| value.is_object()) }
    }

    /// The conversation at the end of a body, found without reading what is before it: the last list whose last element
    /// says who speaks. Nothing where what is asked comes in another way. Of two such lists the last one is taken.
    pub fn at_end_of(mut members: MembersBack<'a>) -> Option<Self> {
        loop {
            if let Some(mut list) = members.next_list()
                && let Some(Ok(last)) = Message::next_of(&mut list)
                && last.parts.role.is_some()
            {
                return Some(Self { first: Some(last), list, single: None });
            }
            let (name, _) = members.next()?.ok()?;
            if name.look_up(asks).is_some() {
                return None;
            }
        }
    }
}

/// Whether a member of a body asks something, in one way or another.
fn asks(name: &[u8]) -> Option<()> {
    let known: [&[u8]; 7] = [b"messages", b"input", b"contents", b"prompt", b"images", b"params", b"jsonrpc"];
    known.contains(&name).then_some(())
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        Message::next_of(&mut self.list).or_else(|| self.single.take().map(Message::read))
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
                message.calls(&mut fresh.calls)?;
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
        message.push(text)?;
        text.part();
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

/// Whose words a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    Instructions,
    User,
    Result,
    Model,
}

/// A message, and who speaks in it.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    whole: Json<'a>,
    parts: Parts<'a>,
    speaker: Speaker,
    /// Whether a result travels in a user's message.
    in_user_message: bool,
}

/// The members of a message that matter.
#[derive(Clone, Copy, Default)]
struct Parts<'a> {
    role: Option<Json<'a>>,
    tag: Option<Json<'a>>,
    content: Option<Json<'a>>,
    /// Ollama's, beside the content.
    images: Option<Json<'a>>,
    calls: Option<Json<'a>>,
}

impl<'a> Parts<'a> {
    /// Takes a member, last to first: where a name occurs twice the last one counts.
    fn take(&mut self, name: RawStr<'a>, value: Json<'a>) {
        name.look_up(|name| {
            let part = match name {
                b"role" => &mut self.role,
                b"type" => &mut self.tag,
                b"content" | b"parts" | b"output" => &mut self.content,
                b"images" => &mut self.images,
                b"tool_calls" | b"function_call" => &mut self.calls,
                _ => return None,
            };
            Some(*part.get_or_insert(value))
        });
    }

    /// Items of the Responses API that are not messages say so by their type, all others by their role.
    fn speaker(&self) -> Speaker {
        self.tag.and_then(by_type).or_else(|| self.role.and_then(by_role)).unwrap_or(Speaker::User)
    }
}

impl<'a> Message<'a> {
    /// Reads the next message of a list, last to first.
    fn next_of(list: &mut ElementsBack<'a>) -> Option<Result<Self, Malformed>> {
        let mut parts = Parts::default();
        let whole = list.next_with_members(|name, value| parts.take(name, value))?;
        Some(whole.and_then(|whole| Self::new(whole, parts)))
    }

    fn read(whole: Json<'a>) -> Result<Self, Malformed> {
        let mut parts = Parts::default();
        for member in whole.members_back() {
            let (name, value) = member?;
            parts.take(name, value);
        }
        Self::new(whole, parts)
    }

    fn new(whole: Json<'a>, mut parts: Parts<'a>) -> Result<Self, Malformed> {
        if !whole.is_object() {
            parts.content = Some(whole);
        }
        let mut message = Self { whole, parts, speaker: parts.speaker(), in_user_message: false };
        if message.speaker == Speaker::User && message.holds(is_result)? {
            message.speaker = Speaker::Result;
            message.in_user_message = true;
        }
        Ok(message)
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
        for block in self.blocks().into_iter().flatten() {
            for member in block?.members() {
                let (name, value) = member?;
                if is_meant(&name.plain(), value) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The blocks of the content, if it is not simply a string.
    fn blocks(&self) -> Option<Elements<'a>> {
        self.parts.content.filter(|content| content.is_array()).map(Json::elements)
    }

    fn push(&self, text: &mut Fingerprinter) -> Result<(), Malformed> {
        if let Some(images) = self.parts.images.filter(|images| !images.is_null()) {
            text.opaque(images.text());
        }
        self.parts.content.map_or(Ok(()), |content| push_content(content, text))
    }

    /// The tool calls of a model's message, wherever its format puts them.
    fn calls(&self, calls: &mut ToolCalls) -> Result<(), Malformed> {
        if self.parts.tag.is_some_and(is_call) {
            return add_call(self.whole, calls);
        }
        if let Some(listed) = self.parts.calls {
            if listed.is_object() {
                add_call(listed, calls)?;
            }
            for call in listed.elements() {
                add_call(call?, calls)?;
            }
        }
        for block in self.blocks().into_iter().flatten() {
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

fn by_type(tag: Json<'_>) -> Option<Speaker> {
    match &*tag.string()?.plain() {
        // Neither says who spoke it nor what.
        b"item_reference" => Some(Speaker::Instructions),
        b"reasoning" => Some(Speaker::Model),
        tag if tag.ends_with(b"_call_output") => Some(Speaker::Result),
        tag if tag.ends_with(b"_call") => Some(Speaker::Model),
        _ => None,
    }
}

/// Whether an item of the Responses API calls a tool, rather than being a message that holds calls.
fn is_call(tag: Json<'_>) -> bool {
    tag.string().is_some_and(|tag| tag.plain().ends_with(b"_call"))
}

fn by_role(role: Json<'_>) -> Option<Speaker> {
    role.string()?.look_up(|role| match role {
        b"assistant" | b"model" | b"agent" | b"chatbot" | b"CHATBOT" => Some(Speaker::Model),
        b"tool" | b"function" => Some(Speaker::Result),
        b"system" | b"developer" => Some(Speaker::Instructions),
        _ => None,
    })
}
