//! Finds out which conversation a request belongs to, by its body.
//!
//! A member of the body may hold an id. Otherwise the conversation is known by its *opening*, the first user message. Both
//! ends of the body are looked at, but not the messages in between, so that the length of a conversation costs nothing.

use super::json::bounds::start_of_string;
use super::json::{Elements, Json, Members, RawStr};
use super::messages::{Message, Role, is_result};
use crate::turn::{Conversation, conversation_key};

/// How many bytes of each text of the first user message are hashed. The end of a long text is not searched for.
const TEXT_BYTES: usize = 2048;
/// How many bytes of the first user message are read at most. Images often follow.
const MESSAGE_BYTES: usize = 16 << 10;
/// Longer ids are not ids.
const MAX_ID_BYTES: usize = 1024;

/// The names of the members that lead to a value in a body: `metadata`, `session_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyMember(pub Vec<String>);

impl BodyMember {
    /// Returns the bit of the name with which the path begins.
    pub fn first_name_bit(&self) -> u64 {
        self.0.first().map_or(0, |name| name_bit(name.as_bytes()))
    }

    /// Returns the id in the member with this name, if the path begins with it and leads to an id.
    fn id<'a>(&self, name: &[u8], value: Json<'a>) -> Option<&'a [u8]> {
        let (_, rest) = self.0.split_first().filter(|(first, _)| first.as_bytes() == name)?;
        let value = rest.iter().try_fold(value, |value, name| value.get(name).ok().flatten())?;
        let is_number = || value.text().first().is_some_and(|first| first.is_ascii_digit());
        let id = value.string().map(RawStr::raw).or_else(|| is_number().then(|| value.text()))?;
        (1..=MAX_ID_BYTES).contains(&id.len()).then_some(id)
    }
}

/// The members that may hold an id. The first one that does counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct BodyMembers<'a> {
    paths: &'a [BodyMember],
    /// The bits of the names with which the paths begin. They rule out most members of a body.
    first_names: u64,
}

impl<'a> BodyMembers<'a> {
    /// Looks for ids in these members. `first_names` must have the bits of them all, and may have others.
    pub fn new(paths: &'a [BodyMember], first_names: u64) -> Self {
        Self { paths, first_names }
    }

    /// Returns how many members may hold an id.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Returns whether no member may hold an id.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }
}

/// Returns the bit of a name. It depends on the length and the first letter, which is cheap and tells most names apart.
fn name_bit(name: &[u8]) -> u64 {
    let first = name.first().map_or(0, |&byte| usize::from(byte));
    1 << ((first + 5 * name.len()) % 64)
}

/// The beginning of a body is not enough to find the first user message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort;

/// What has been found out about the conversation of one request.
#[derive(Clone, Debug)]
pub struct ConversationFinder<'a> {
    members: BodyMembers<'a>,
    /// The id, and the index of the member that holds it.
    found: Option<(usize, Vec<u8>)>,
    opening: u64,
}

impl<'a> ConversationFinder<'a> {
    /// Looks for ids in these members.
    pub fn new(members: BodyMembers<'a>) -> Self {
        Self { members, found: None, opening: 0 }
    }

    /// Looks at a member of the body. Names with escapes are not recognised.
    #[inline(always)]
    pub fn take(&mut self, name: RawStr<'_>, value: Json<'_>) {
        if self.members.first_names & name_bit(name.raw()) != 0 {
            self.look_at(name.raw(), value);
        }
    }

    #[inline(never)]
    fn look_at(&mut self, name: &[u8], value: Json<'_>) {
        let limit = self.found.as_ref().map_or(self.members.paths.len(), |(index, _)| *index);
        for (index, member) in self.members.paths.iter().take(limit).enumerate() {
            if let Some(id) = member.id(name, value) {
                self.found = Some((index, id.to_vec()));
                return;
            }
        }
    }

    /// Reads the start of a body: the members before the messages, and the first user message. A whole body may be too
    /// short as well, if it has no user message.
    #[inline(never)]
    pub fn read_start(&mut self, body: &[u8]) -> Result<(), TooShort> {
        let Some(mut members) = Members::at_start_of(body) else { return Ok(()) };
        loop {
            let name = members.next_name().ok_or(TooShort)?;
            if matches!(name.raw(), b"messages" | b"input" | b"contents")
                && let Some(messages) = Elements::at_start_of(members.start_of_value())
            {
                self.opening = opening(messages)?;
                return Ok(());
            }
            self.take(name, members.value().ok_or(TooShort)?);
        }
    }

    /// Returns the conversation. `has_history` tells whether the model has spoken in it.
    pub fn finish(self, has_history: bool) -> Conversation {
        match (self.found, self.opening) {
            (Some((_, id)), _) => Conversation::identified(&id),
            (None, opening) if opening != 0 && has_history => Conversation::Continued { key: opening },
            (None, opening) => Conversation::New { opening },
        }
    }
}

/// Returns the hash of the first user message, or 0 if it has no text.
fn opening(mut messages: Elements<'_>) -> Result<u64, TooShort> {
    loop {
        match messages.next_start().and_then(Start::read) {
            Some(Start::OfUser(hash)) => return Ok(hash),
            Some(Start::OfOthers(members)) => messages.skip_rest_of(members).ok_or(TooShort)?,
            None => {
                let message = messages.next().and_then(Result::ok).ok_or(TooShort)?;
                let message = Message::read(message).map_err(|_| TooShort)?;
                if message.role == Role::User {
                    return Ok(message.members.content.map_or(0, |content| Texts::of(content.text()).hash));
                }
            }
        }
    }
}

/// What the start of a message tells, if it has the form that most messages have: first the role, then the content.
enum Start<'a> {
    /// It is of the user, and this is the hash of its texts.
    OfUser(u64),
    /// It is not of the user. These are its members after the role.
    OfOthers(Members<'a>),
}

impl<'a> Start<'a> {
    fn read(message: &'a [u8]) -> Option<Self> {
        let mut members = Members::at_start_of(message)?;
        members.skip_name(b"role")?;
        if members.skip_string(b"user").is_none() {
            let is_known = matches!(members.value()?.string()?.raw(), b"system" | b"developer" | b"assistant");
            return is_known.then_some(Self::OfOthers(members));
        }
        members.skip_name(b"content")?;
        let content = members.start_of_value();
        let read = MESSAGE_BYTES.checked_sub(message.len() - content.len())?;
        let texts = Texts::of(content.get(..read).unwrap_or(content));
        let is_enough = texts.hash != 0 && !texts.has_result && (texts.complete || content.len() >= read);
        is_enough.then_some(Self::OfUser(texts.hash))
    }
}

/// The texts of a message.
#[derive(Default)]
struct Texts {
    /// The hash of all of them, or 0 if there are none.
    hash: u64,
    /// Whether the content of the message has been read to its end.
    complete: bool,
    /// Whether the message contains the result of a tool.
    has_result: bool,
}

impl Texts {
    /// Reads the content of a message or the start of it: one text, or blocks of which some have a text.
    fn of(content: &[u8]) -> Self {
        let mut texts = Self::default();
        texts.complete = texts.add_text(content).or_else(|| texts.add_blocks(content)).is_some();
        texts
    }

    /// Adds a text. Returns `None` if there is none.
    fn add_text(&mut self, text: &[u8]) -> Option<()> {
        self.hash = with_text(self.hash, start_of_string(text, TEXT_BYTES)?);
        Some(())
    }

    /// Adds the texts of blocks. Returns `None` if their end is missing.
    fn add_blocks(&mut self, content: &[u8]) -> Option<()> {
        let mut blocks = Elements::at_start_of(content)?;
        while !blocks.is_at_end() {
            let block = blocks.next_start()?;
            match Members::at_start_of(block) {
                Some(members) => blocks.skip_rest_of(self.add_block(members)?)?,
                None => {
                    let _ = self.add_text(block);
                    blocks.next()?.ok()?;
                }
            }
        }
        Some(())
    }

    /// Adds the text of a block. Other members of it, such as marks for a cache, may change from call to call. The start of
    /// a text counts even if the block is cut.
    fn add_block<'a>(&mut self, mut members: Members<'a>) -> Option<Members<'a>> {
        while let Some(name) = members.next_name() {
            if name.raw() == b"text" {
                let _ = self.add_text(members.start_of_value());
            }
            self.has_result |= is_result(name, members.value()?);
        }
        Some(members)
    }
}

/// Returns the hash of the texts so far and one more.
fn with_text(hash: u64, text: &[u8]) -> u64 {
    let of_text = || conversation_key(text.get(..TEXT_BYTES).unwrap_or(text));
    match (text.is_empty(), hash) {
        (true, _) => hash,
        (false, 0) => of_text(),
        (false, _) => conversation_key(&[hash.to_le_bytes(), of_text().to_le_bytes()].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(paths: &[&str]) -> Vec<BodyMember> {
        paths.iter().map(|path| BodyMember(path.split('.').map(str::to_owned).collect())).collect()
    }

    fn find(body: &str, has_history: bool) -> Conversation {
        let members = members(&["conversation", "conversation.id", "metadata.session_id", "user"]);
        let first_names = members.iter().fold(0, |names, member| names | member.first_name_bit());
        let mut finder = ConversationFinder::new(BodyMembers::new(&members, first_names));
        let json = Json::root(body.as_bytes()).unwrap();
        json.members().flatten().for_each(|(name, value)| finder.take(name, value));
        let _ = finder.read_start(body.as_bytes());
        finder.finish(has_history)
    }

    #[test]
    fn the_first_member_of_the_list_that_holds_an_id_counts() {
        for (body, id) in [
            (r#"{"user": "u1", "metadata": {"session_id": "s1"}, "messages": []}"#, "s1"),
            (r#"{"metadata": {"session_id": ""}, "messages": [], "user": "u1"}"#, "u1"),
            (r#"{"user": 4711, "metadata": null, "messages": []}"#, "4711"),
            (r#"{"conversation": {"id": "c1"}, "user": "u1", "input": "hello"}"#, "c1"),
            (r#"{"conversation": "c2", "user": "u1", "input": "hello"}"#, "c2"),
        ] {
            assert_eq!(find(body, true), Conversation::identified(id.as_bytes()), "{body}");
        }
    }

    #[test]
    fn without_an_id_a_conversation_is_known_by_its_first_user_message() {
        let key = conversation_key(b"Hello there");
        let system = r#"{"role": "system", "content": "Be kind."}"#;
        for body in [
            r#"{"messages": [{"role": "user", "content": "Hello there"}, {"role": "assistant", "content": "Hi"}]}"#.to_owned(),
            format!(r#"{{"model": "m", "messages": [{system}, {{"role": "user", "content": [{{"type": "text", "text": "Hello there", "cache_control": {{}}}}]}}]}}"#),
            r#"{"messages":[{ "role" : "user" , "content" : "Hello there" }]}"#.to_owned(),
            r#"{"messages": [{"content": "Hello there", "role": "user"}]}"#.to_owned(),
            r#"{"messages": [{"r\u006fle": "user", "content": "Hello there"}]}"#.to_owned(),
            r#"{"messages": [{"role": "users", "content": "Hello there"}]}"#.to_owned(),
            r#"{"messages": [{"role": "assistant", "name": "a", "content": "Hi"}, {"role": "user", "content": "Hello there"}]}"#.to_owned(),
            r#"{"contents": [{"role": "user", "parts": [{"text": "Hello there"}]}]}"#.to_owned(),
            r#"{"input": [{"role": "developer", "content": "x"}, {"role": "user", "content": [{"type": "input_text", "text": "Hello there"}]}]}"#.to_owned(),
        ] {
            assert_eq!(find(&body, true), Conversation::Continued { key }, "{body}");
            assert_eq!(find(&body, false), Conversation::New { opening: key }, "{body}");
        }
        let blocks = r#"[{"text": "Hello there"}, {"text": "again"}]"#;
        let long = |end: &str| format!(r#"{}{end}{}"#, "x".repeat(2_000), "y".repeat(3000));
        let others =
            ["\"Hello there!\"".to_owned(), blocks.to_owned(), format!("{:?}", long("a")), format!("{:?}", long("b"))];
        let keys = others
            .map(|content| find(&format!(r#"{{"messages": [{{"role": "user", "content": {content}}}]}}"#), true).tag());
        let different: std::collections::BTreeSet<u64> = keys.into_iter().chain([key]).collect();
        assert_eq!(different.len(), 5, "each is another conversation");
        assert_eq!(find(r#"{"input": "Hello there"}"#, false), Conversation::default());
    }

    #[test]
    fn the_start_of_a_body_may_be_too_short() {
        let body = br#"{"model": "m", "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "hello"}, "#;
        let whole = ConversationFinder::new(BodyMembers::default()).read_start(body);
        assert_eq!(whole, Ok(()), "what follows is not needed");
        let text = body.windows(7).position(|part| part == b"\"hello\"").unwrap();
        for len in 2..text + 6 {
            let start = ConversationFinder::new(BodyMembers::default()).read_start(&body[..len]);
            assert_eq!(start, Err(TooShort), "{len} bytes");
        }
    }

    #[test]
    fn only_the_start_of_a_long_first_message_is_read() {
        let body = |image: &str| {
            let image = image.repeat(MESSAGE_BYTES);
            format!(
                r#"{{"messages": [{{"role": "user", "content": [{{"text": "What is this?"}}, {{"image": "{image}"}}]}}]}}"#
            )
        };
        let (body, other) = (body("a"), body("b"));
        assert_eq!(find(&body, true), Conversation::Continued { key: conversation_key(b"What is this?") });
        assert_eq!(find(&body, true), find(&other, true), "the image is beyond what is read");
        let read = |len| ConversationFinder::new(BodyMembers::default()).read_start(&body.as_bytes()[..len]);
        assert_eq!((read(MESSAGE_BYTES), read(MESSAGE_BYTES + 50)), (Err(TooShort), Ok(())));
    }

    #[test]
    fn a_message_with_a_tool_result_is_not_the_first_one_of_the_user_however_long_it_is() {
        for length in [1, MESSAGE_BYTES] {
            let result = format!(r#"{{"type": "tool_result", "content": "{}"}}"#, "r".repeat(length));
            let first = format!(r#"{{"role": "user", "content": [{{"text": "Go on"}}, {result}]}}"#);
            let body = format!(r#"{{"messages": [{first}, {{"role": "user", "content": "Hello there"}}]}}"#);
            assert_eq!(
                find(&body, true),
                Conversation::Continued { key: conversation_key(b"Hello there") },
                "{length}"
            );
        }
    }

    #[test]
    fn a_conversation_is_the_same_however_long_it_has_become() {
        let document = "d".repeat(MESSAGE_BYTES);
        let result = r#"[{"type": "tool_result", "content": "x"}, {"type": "text", "text": "Go on"}]"#;
        for first in [
            r#"{"role": "user", "content": [{"type": "text", "text": "Hello there"}]}"#.to_owned(),
            r#"{"role": "user", "content": [{"text": "Hello"}, {"text": "there"}, {"image": "x"}]}"#.to_owned(),
            format!(r#"{{"role": "user", "content": {result}}}, {{"role": "user", "content": "Hello there"}}"#),
            format!(r#"{{"role": "user", "content": [{{"text": "Read this"}}, {{"text": "{document}"}}]}}"#),
        ] {
            let short = format!(r#"{{"messages": [{first}, {{"role": "assistant", "content": "Hi"}}]}}"#);
            let long = format!(r#"{{"messages": [{first}, {{"role": "assistant", "content": "{document}"}}]}}"#);
            assert_eq!(find(&short, true), find(&long, true), "{first:.80}");
            assert_ne!(find(&short, true), Conversation::default(), "{first:.80}");
        }
        let asked = |document: &str| {
            let blocks = format!(r#"[{{"text": "Read this"}}, {{"text": "{document}"}}]"#);
            find(&format!(r#"{{"messages": [{{"role": "user", "content": {blocks}}}]}}"#), true)
        };
        assert_ne!(asked(&document), asked(&"e".repeat(MESSAGE_BYTES)), "a text that is cut tells them apart");
    }
}
