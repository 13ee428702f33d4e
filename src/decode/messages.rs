//! A list of messages, walked from its end: the role of each, and the members that matter.
//!
//! Walking from the end means that a long history costs nothing. The role is told by `role` or, in lists of items, by
//! `type`; the same code reads the messages of all formats. Their content is only found here, not read.

use super::json::{Elements, ElementsBack, Json, MembersBack, RawStr};
use crate::scan::Malformed;

/// The messages of a list, last to first, or a single message.
pub struct Messages<'a> {
    /// The message that was read last. Each is read into the same place, since a message is too long to be moved often.
    current: Message<'a>,
    /// Whether that message has not been returned yet. It was read to see whether the list contains messages.
    is_new: bool,
    list: ElementsBack<'a>,
    single: Option<Json<'a>>,
}

impl<'a> Messages<'a> {
    /// Returns the messages in a value.
    pub fn of(value: Json<'a>) -> Self {
        let single = Some(value).filter(|value| value.is_object());
        Self { current: Message::default(), is_new: false, list: value.elements_back(), single }
    }

    /// Finds the conversation near the end of a body without reading what is before it: the last array whose last element
    /// has a role. Returns `None` if the input of the request comes in another way. Calls `each` with the members after it.
    pub fn at_end_of(mut members: MembersBack<'a>, each: &mut dyn FnMut(RawStr<'a>, Json<'a>)) -> Option<Self> {
        loop {
            if let Some(list) = members.next_array() {
                let mut messages = Self { current: Message::default(), is_new: true, list, single: None };
                let last = messages.current.read_next(&mut messages.list);
                if matches!(last, Some(Ok(()))) && messages.current.members.role.is_some() {
                    return Some(messages);
                }
            }
            let (name, value) = members.next()?.ok()?;
            if name.find(|name| is_input(name).then_some(())).is_some() {
                return None;
            }
            each(name, value);
        }
    }

    /// Returns the next message.
    #[inline(always)]
    pub fn read_next(&mut self) -> Option<Result<&Message<'a>, Malformed>> {
        if !std::mem::take(&mut self.is_new) {
            let read = match self.current.read_next(&mut self.list) {
                None => self.current.read_single(self.single.take()?),
                Some(read) => read,
            };
            if read.is_err() {
                return Some(Err(Malformed));
            }
        }
        Some(Ok(&self.current))
    }
}

/// Returns whether a member of a body holds the input of the request.
fn is_input(name: &[u8]) -> bool {
    matches!(name, b"messages" | b"input" | b"contents" | b"prompt" | b"images" | b"params" | b"jsonrpc")
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The operator. Also used for messages without content.
    Instructions,
    /// A person, or the program that drives the agent.
    #[default]
    User,
    /// A tool.
    ToolResult,
    /// The model.
    Model,
}

/// A message and its role.
#[derive(Clone, Copy, Default)]
pub struct Message<'a> {
    /// The whole message.
    pub json: Json<'a>,
    /// The members that matter.
    pub members: MessageMembers<'a>,
    /// Who wrote it.
    pub role: Role,
    /// Whether this is a tool result inside a user's message.
    in_user_message: bool,
    /// Whether this message or one read before it did not have the usual form. Then the rest probably do not either.
    is_unusual: bool,
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
    #[inline(always)]
    fn role(&self) -> Role {
        self.item_type.and_then(role_by_type).or_else(|| self.role.and_then(role_by_name)).unwrap_or(Role::User)
    }
}

impl<'a> Message<'a> {
    /// Reads a single message.
    pub fn read(json: Json<'a>) -> Result<Self, Malformed> {
        let mut message = Self::default();
        message.read_single(json).map(|()| message)
    }

    /// Reads the next message of a list, last to first, in place of this one.
    fn read_next(&mut self, list: &mut ElementsBack<'a>) -> Option<Result<(), Malformed>> {
        self.members = MessageMembers::default();
        if !self.is_unusual
            && let Some((json, [role, content])) = list.next_pair([b"role", b"content"])
        {
            (self.json, self.members.role, self.members.content) = (json, Some(role), Some(content));
            (self.role, self.in_user_message) = (role_by_name(role).unwrap_or(Role::User), false);
            return Some(Ok(()));
        }
        self.is_unusual = true;
        let json = list.next_with_members(|name, value| self.members.take(name, value))?;
        Some(json.and_then(|json| self.complete(json)))
    }

    fn read_single(&mut self, json: Json<'a>) -> Result<(), Malformed> {
        self.members = MessageMembers::default();
        for member in json.members_back() {
            let (name, value) = member?;
            self.members.take(name, value);
        }
        self.complete(json)
    }

    /// Finds out the role, when the members are known.
    fn complete(&mut self, json: Json<'a>) -> Result<(), Malformed> {
        self.json = json;
        if !json.is_object() {
            self.members.content = Some(json);
        }
        self.role = self.members.role();
        self.in_user_message = self.role == Role::User && self.has_block_member(is_result)?;
        if self.in_user_message {
            self.role = Role::ToolResult;
        }
        Ok(())
    }

    /// Returns whether the message consists of a text, without tool calls.
    pub fn is_text(&self) -> bool {
        let MessageMembers { item_type, content, calls, .. } = self.members;
        item_type.is_none() && calls.is_none() && content.is_some_and(|content| content.string().is_some())
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
        let Some(blocks) = self.blocks() else { return Ok(false) };
        for block in blocks {
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
    let is_result = name.find(|name| match name {
        b"toolResult" | b"functionResponse" | b"function_response" => Some(true),
        b"type" => Some(value.string().is_some_and(|name| name.is("tool_result"))),
        _ => None,
    });
    is_result == Some(true)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the role and the content of each message, last to first.
    fn read(list: &str) -> Vec<(Role, &str)> {
        let mut messages = Messages::of(Json::root(list.as_bytes()).unwrap());
        let mut read = Vec::new();
        while let Some(message) = messages.read_next() {
            let message = message.unwrap();
            let content = message.members.content.map(Json::text).unwrap_or_default();
            read.push((message.role, std::str::from_utf8(content).unwrap()));
        }
        read
    }

    #[test]
    fn the_usual_form_of_a_message_is_read_like_every_other_form() {
        let contents = ["", "Hi", r#"a \"quoted\" word"#, r"ends with \\", r#"{\"role\":\"user\",\"content\":\"x\"}"#];
        for (role, name) in [(Role::User, "user"), (Role::Model, "assistant"), (Role::Instructions, "system")] {
            for content in contents {
                let expected = format!("\"{content}\"");
                for form in [
                    format!(r#"{{"role":"{name}","content":"{content}"}}"#),
                    format!(r#"{{"role": "{name}", "content": "{content}"}}"#),
                    format!(r#"{{ "role" : "{name}" , "content" : "{content}" }}"#),
                    format!(r#"{{"content":"{content}","role":"{name}"}}"#),
                    format!(r#"{{"name":"a","role":"{name}","content":"{content}"}}"#),
                ] {
                    let list = format!("[{form},{form} , {form}]");
                    assert_eq!(read(&list), vec![(role, expected.as_str()); 3], "{list}");
                }
            }
        }
    }

    #[test]
    fn messages_of_other_forms_are_read_before_and_after_those_of_the_usual_form() {
        for (other, expected) in [
            (r#"{"role":"assistant","note":"a"}"#, (Role::Model, "")),
            (r#"{"roles":"assistant","content":"b"}"#, (Role::User, "\"b\"")),
            (r#"{"xrole":"assistant","content":"b"}"#, (Role::User, "\"b\"")),
            (r#"{"role":"assistant","x\"content":"b"}"#, (Role::Model, "")),
            (r#"{"role":"tool","content":["c"]}"#, (Role::ToolResult, "[\"c\"]")),
            (r#"{"role":"tool","content":null}"#, (Role::ToolResult, "null")),
            (r#"{"x":{"role":"tool","content":"c"}}"#, (Role::User, "")),
            (r#""role","content""#, (Role::User, "\"content\"")),
        ] {
            let usual = r#"{"role":"assistant","content":"a"}"#;
            let list = format!("[{usual},{other},{usual}]");
            let read = read(&list);
            assert_eq!((read.first(), read.last()), (Some(&(Role::Model, "\"a\"")), Some(&(Role::Model, "\"a\""))));
            assert_eq!(read.get(1), Some(&expected), "{other}");
            assert_eq!(self::read(&format!("[{other}]")).first(), Some(&expected), "{other}");
        }
    }
}
