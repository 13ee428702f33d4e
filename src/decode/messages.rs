//! A list of messages, walked from its end: who speaks in each, and the parts of it that matter.
//!
//! A long history costs nothing that way. Who speaks is told by `role` or, in lists of items, by `type`; one reader serves
//! the union of the formats. What a message says is left to others: here its parts are only found.

use super::json::{Elements, ElementsBack, Json, MembersBack, RawStr};
use crate::scan::Malformed;

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
            if asks(&name.plain()) {
                return None;
            }
        }
    }
}

/// Whether a member of a body asks something, in one way or another.
fn asks(name: &[u8]) -> bool {
    let known: [&[u8]; 7] = [b"messages", b"input", b"contents", b"prompt", b"images", b"params", b"jsonrpc"];
    known.contains(&name)
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

/// Whose words a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// The operator's, and what says nothing.
    Instructions,
    /// A person's, or whatever drives the agent.
    User,
    /// A tool's result.
    Result,
    /// The model's.
    Model,
}

/// A message, and who speaks in it.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// All of it.
    pub whole: Json<'a>,
    /// Its parts.
    pub parts: Parts<'a>,
    /// Who speaks.
    pub speaker: Speaker,
    /// Whether a result travels in a user's message.
    in_user_message: bool,
}

/// The members of a message that matter.
#[derive(Clone, Copy, Default)]
pub struct Parts<'a> {
    role: Option<Json<'a>>,
    /// The type, of an item of the Responses API.
    pub tag: Option<Json<'a>>,
    /// What it says.
    pub content: Option<Json<'a>>,
    /// Ollama's, beside the content.
    pub images: Option<Json<'a>>,
    /// Tool calls beside the content.
    pub calls: Option<Json<'a>>,
}

impl<'a> Parts<'a> {
    /// Takes a member, last to first: where a name occurs twice the last one counts.
    fn take(&mut self, name: RawStr<'a>, value: Json<'a>) {
        let part = match &*name.plain() {
            b"role" => &mut self.role,
            b"type" => &mut self.tag,
            b"content" | b"parts" | b"output" => &mut self.content,
            b"images" => &mut self.images,
            b"tool_calls" | b"function_call" => &mut self.calls,
            _ => return,
        };
        part.get_or_insert(value);
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
    pub fn is_of_user(&self) -> Result<bool, Malformed> {
        match self.speaker {
            Speaker::User => Ok(true),
            Speaker::Result if self.in_user_message => self.holds(|name, _| name.is("text")),
            Speaker::Result | Speaker::Instructions | Speaker::Model => Ok(false),
        }
    }

    /// Whether a block of the content has such a member.
    fn holds(&self, is_meant: fn(RawStr<'_>, Json<'_>) -> bool) -> Result<bool, Malformed> {
        for block in self.blocks().into_iter().flatten() {
            for member in block?.members() {
                let (name, value) = member?;
                if is_meant(name, value) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The blocks of the content, if it is not simply a string.
    pub fn blocks(&self) -> Option<Elements<'a>> {
        self.parts.content.filter(|content| content.is_array()).map(Json::elements)
    }
}

/// A tool's result in a user's message (Anthropic, Gemini, Bedrock).
fn is_result(name: RawStr<'_>, value: Json<'_>) -> bool {
    let is_tag = || name.is("type") && value.string().is_some_and(|tag| tag.is("tool_result"));
    ["toolResult", "functionResponse", "function_response"].iter().any(|result| name.is(result)) || is_tag()
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

fn by_role(role: Json<'_>) -> Option<Speaker> {
    const ROLES: [(&str, Speaker); 9] = [
        ("assistant", Speaker::Model),
        ("tool", Speaker::Result),
        ("system", Speaker::Instructions),
        ("developer", Speaker::Instructions),
        ("model", Speaker::Model),
        ("agent", Speaker::Model),
        ("chatbot", Speaker::Model),
        ("CHATBOT", Speaker::Model),
        ("function", Speaker::Result),
    ];
    let role = role.string()?.plain();
    ROLES.iter().find(|(known, _)| *known.as_bytes() == *role).map(|(_, speaker)| *speaker)
}
