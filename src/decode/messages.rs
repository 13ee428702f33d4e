//! A list of messages, walked from its end: the role of each, and the members that matter.
//!
//! Walking from the end means that a long history costs nothing. The role is told by `role` or, in lists of items, by
//! `type`; the same code reads the messages of all formats. Their content is only found here, not read.

use super::json::{Elements, ElementsBack, Json, MembersBack, RawStr};
use crate::scan::Malformed;

/// The messages of a list, last to first, or a single message.
pub struct Messages<'a> {
    /// The last message of the list, if it was read already to see whether the list contains messages.
    first: Option<Message<'a>>,
    list: ElementsBack<'a>,
    single: Option<Json<'a>>,
}

impl<'a> Messages<'a> {
    /// Returns the messages in a value.
    pub fn of(value: Json<'a>) -> Self {
        Self { first: None, list: value.elements_back(), single: Some(value).filter(|value| value.is_object()) }
    }

    /// Finds the conversation near the end of a body without reading what is before it: the last array whose last element
    /// has a role. Returns `None` if the input of the request comes in another way. Calls `each` with the members after it.
    pub fn at_end_of(mut members: MembersBack<'a>, each: &mut dyn FnMut(RawStr<'a>, Json<'a>)) -> Option<Self> {
        loop {
            if let Some(mut list) = members.next_array()
                && let Some(Ok(last)) = Message::next_of(&mut list)
                && last.members.role.is_some()
            {
                return Some(Self { first: Some(last), list, single: None });
            }
            let (name, value) = members.next()?.ok()?;
            if name.find(|name| is_input(name).then_some(())).is_some() {
                return None;
            }
            each(name, value);
        }
    }
}

/// Returns whether a member of a body holds the input of the request.
fn is_input(name: &[u8]) -> bool {
    matches!(name, b"messages" | b"input" | b"contents" | b"prompt" | b"images" | b"params" | b"jsonrpc")
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

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The operator. Also used for messages without content.
    Instructions,
    /// A person, or the program that drives the agent.
    User,
    /// A tool.
    ToolResult,
    /// The model.
    Model,
}

/// A message and its role.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// The whole message.
    pub json: Json<'a>,
    /// The members that matter.
    pub members: MessageMembers<'a>,
    /// Who wrote it.
    pub role: Role,
    /// Whether this is a tool result inside a user's message.
    in_user_message: bool,
}

/// The members of a message that matter.
#[derive(Clone, Copy, Default)]
pub struct MessageMembers<'a> {
    role: Option<Json<'a>>,
    /// The type of an item of the Responses API.
    pub item_type: Option<Json<'a>>,
    /// The content.
    pub content: Option<Json<'a>>,
    /// Images next to the content, in Ollama's format.
    pub images: Option<Json<'a>>,
    /// Tool calls next to the content.
    pub calls: Option<Json<'a>>,
}

impl<'a> MessageMembers<'a> {
    /// Takes a member. Members come last to first: if a name occurs twice, the last one counts.
    fn take(&mut self, name: RawStr<'a>, value: Json<'a>) {
        name.find(|name| {
            let member = match name {
                b"role" => &mut self.role,
                b"type" => &mut self.item_type,
                b"content" | b"parts" | b"output" => &mut self.content,
                b"images" => &mut self.images,
                b"tool_calls" | b"function_call" => &mut self.calls,
                _ => return None,
            };
            Some(*member.get_or_insert(value))
        });
    }

    /// Returns the role: by the type for items of the Responses API that are not messages, else by `role`.
    fn role(&self) -> Role {
        self.item_type.and_then(role_by_type).or_else(|| self.role.and_then(role_by_name)).unwrap_or(Role::User)
    }
}

impl<'a> Message<'a> {
    /// Reads the next message of a list, last to first.
    fn next_of(list: &mut ElementsBack<'a>) -> Option<Result<Self, Malformed>> {
        let mut members = MessageMembers::default();
        let json = list.next_with_members(|name, value| members.take(name, value))?;
        Some(json.and_then(|json| Self::new(json, members)))
    }

    /// Reads a single message.
    pub fn read(json: Json<'a>) -> Result<Self, Malformed> {
        let mut members = MessageMembers::default();
        for member in json.members_back() {
            let (name, value) = member?;
            members.take(name, value);
        }
        Self::new(json, members)
    }

    fn new(json: Json<'a>, mut members: MessageMembers<'a>) -> Result<Self, Malformed> {
        if !json.is_object() {
            members.content = Some(json);
        }
        let mut message = Self { json, members, role: members.role(), in_user_message: false };
        if message.role == Role::User && message.has_block_member(is_result)? {
            message.role = Role::ToolResult;
            message.in_user_message = true;
        }
        Ok(message)
    }

    /// Returns whether the message contains text of the user, possibly next to tool results.
    pub fn is_of_user(&self) -> Result<bool, Malformed> {
        match self.role {
            Role::User => Ok(true),
            Role::ToolResult if self.in_user_message => self.has_block_member(|name, _| name.is("text")),
            Role::ToolResult | Role::Instructions | Role::Model => Ok(false),
        }
    }

    /// Returns whether a block of the content has such a member.
    fn has_block_member(&self, is_meant: fn(RawStr<'_>, Json<'_>) -> bool) -> Result<bool, Malformed> {
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

    /// Returns the blocks of the content, if it is an array.
    pub fn blocks(&self) -> Option<Elements<'a>> {
        self.members.content.filter(|content| content.is_array()).map(Json::elements)
    }
}

/// Returns whether a block with this member is a tool result in a user's message (Anthropic, Gemini, Bedrock).
pub fn is_result(name: RawStr<'_>, value: Json<'_>) -> bool {
    let has_type = || name.is("type") && value.string().is_some_and(|name| name.is("tool_result"));
    ["toolResult", "functionResponse", "function_response"].iter().any(|result| name.is(result)) || has_type()
}

fn role_by_type(item_type: Json<'_>) -> Option<Role> {
    match &*item_type.string()?.unescaped() {
        // Has neither a role nor content.
        b"item_reference" => Some(Role::Instructions),
        b"reasoning" => Some(Role::Model),
        name if name.ends_with(b"_call_output") => Some(Role::ToolResult),
        name if name.ends_with(b"_call") => Some(Role::Model),
        _ => None,
    }
}

fn role_by_name(role: Json<'_>) -> Option<Role> {
    role.string()?.find(|name| match name {
        b"user" => Some(Role::User),
        b"assistant" | b"model" | b"agent" | b"chatbot" | b"CHATBOT" => Some(Role::Model),
        b"tool" | b"function" => Some(Role::ToolResult),
        b"system" | b"developer" => Some(Role::Instructions),
        _ => None,
    })
}
