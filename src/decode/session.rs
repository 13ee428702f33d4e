//! Finds out which conversation a request belongs to, by its body.
//!
//! A member of the body may hold an id. Otherwise the conversation is known by its *opening*, the first user message. Both
//! ends of the body are looked at, but not the messages in between, so that the length of a conversation costs nothing.

use super::json::bounds::closing_quote;
use super::json::{Elements, Json, Members, RawStr};
use super::messages::{Message, Role, is_result};
use crate::turn::{Conversation, conversation_key};

/// How many bytes of the first user message are read at most. Conversations that begin with the same template usually differ
/// before that, and so do images.
const MESSAGE_BYTES: usize = 16 << 10;
/// How many bytes of each part of it are hashed. There is room for other parts before a long one, so that marks for a cache in
/// them, which may come and go, do not change where the long one is cut.
const PART_BYTES: usize = 12 << 10;
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
    fn id(&self, name: &[u8], value: Json<'_>) -> Option<Vec<u8>> {
        let (_, rest) = self.0.split_first().filter(|(first, _)| first.as_bytes() == name)?;
        let value = rest.iter().try_fold(value, |value, name| value.get(name).ok().flatten())?;
        let is_number = || value.text().first().is_some_and(|first| first.is_ascii_digit());
        let id = value.string().map(RawStr::unescaped).or_else(|| is_number().then(|| value.text().into()))?;
        let id = id.trim_ascii();
        (1..=MAX_ID_BYTES).contains(&id.len()).then(|| id.to_vec())
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
                self.found = Some((index, id));
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

/// Returns the hash of the first user message. It is never 0.
fn opening(mut messages: Elements<'_>) -> Result<u64, TooShort> {
    loop {
        match messages.next_start().and_then(Start::read) {
            Some(Start::OfUser(hash)) => return Ok(hash),
            Some(Start::OfOthers(members)) => messages.skip_rest_of(members).ok_or(TooShort)?,
            None => {
                let message = messages.next().and_then(Result::ok).ok_or(TooShort)?;
                let message = Message::read(message).map_err(|_| TooShort)?;
                if message.role == Role::User {
                    let content = message.members.content.map_or(b"".as_slice(), Json::text);
                    let hash = Contents::of(content, MESSAGE_BYTES).hash;
                    // A message without content is the beginning of a conversation as well.
                    return Ok(if hash == 0 { conversation_key(b"") } else { hash });
                }
            }
        }
    }
}

/// What the start of a message tells, if it has the form that most messages have: first the role, then the content.
enum Start<'a> {
    /// It is of the user, and this is the hash of its content.
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
        members.skip_name(b"content").or_else(|| members.skip_name(b"parts"))?;
        let content = members.start_of_value();
        let read = MESSAGE_BYTES.checked_sub(message.len() - content.len())?;
        let contents = Contents::of(content, read);
        let is_enough = contents.hash != 0 && !contents.has_result && (contents.complete || contents.is_cut);
        is_enough.then_some(Self::OfUser(contents.hash))
    }
}

/// What identifies the content of a message: its texts, and what is attached to them.
#[derive(Default)]
struct Contents {
    /// The hash of all of it, or 0 if there is nothing.
    hash: u64,
    /// Whether the content of the message has been read to its end.
    complete: bool,
    /// Whether there is more of the message than is read.
    is_cut: bool,
    /// Whether the message contains the result of a tool.
    has_result: bool,
}

impl Contents {
    /// Reads at most `max` bytes of the content of a message or the start of it: one text, or blocks.
    fn of(content: &[u8], max: usize) -> Self {
        let mut contents = Self { is_cut: content.len() >= max, ..Self::default() };
        let content = content.get(..max).unwrap_or(content);
        contents.complete = contents.add_text(content).or_else(|| contents.add_blocks(content)).is_some();
        contents
    }

    /// Adds a text. Returns `None` if there is none, or if its end is missing.
    fn add_text(&mut self, text: &[u8]) -> Option<()> {
        let text = text.strip_prefix(b"\"")?;
        let end = closing_quote(text);
        if end.is_some() || self.is_cut {
            self.add(end.and_then(|end| text.get(..end)).unwrap_or(text));
        }
        end.map(|_| ())
    }

    /// Adds the blocks of a message. Returns `None` if their end is missing.
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

    /// Adds the text of a block, or what is attached in it, such as an image. Other members of a block with a text, and marks
    /// for a cache, may change from call to call. The start of a long text or attachment counts even if its end is missing.
    fn add_block<'a>(&mut self, mut members: Members<'a>) -> Option<Members<'a>> {
        let mut attached = Self { is_cut: self.is_cut, ..Self::default() };
        let mut has_text = false;
        while let Some(name) = members.next_name() {
            let start = members.start_of_value();
            let value = members.value();
            match name.raw() {
                b"text" => {
                    has_text = true;
                    let _ = self.add_text(start);
                }
                name if name == b"type" || name.starts_with(b"cache") => {}
                _ if value.is_some() || self.is_cut => attached.add(value.map_or(start, Json::text)),
                _ => {}
            }
            let Some(value) = value else {
                self.add_attached(attached, has_text);
                return None;
            };
            self.has_result |= is_result(name, value);
        }
        self.add_attached(attached, has_text);
        Some(members)
    }

    fn add_attached(&mut self, attached: Self, has_text: bool) {
        if !has_text && attached.hash != 0 {
            self.add(&attached.hash.to_le_bytes());
        }
    }

    /// Adds a part to the hash. Parts without content do not count.
    fn add(&mut self, part: &[u8]) {
        let part = part.get(..PART_BYTES).unwrap_or(part);
        self.hash = match (part.is_empty(), self.hash) {
            (true, hash) => hash,
            (false, 0) => conversation_key(part),
            (false, hash) => conversation_key(&[hash.to_le_bytes(), conversation_key(part).to_le_bytes()].concat()),
        };
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
            (r#"{"conversation": "  ", "user": " u\u00e9\"1 "}"#, "u\u{e9}\"1"),
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
        let long = |end: &str| format!(r#"{}{end}{}"#, "x".repeat(12_000), "y".repeat(30_000));
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
        let body = |image: &str, end: &str| {
            let image = image.repeat(MESSAGE_BYTES);
            format!(
                r#"{{"messages": [{{"role": "user", "content": [{{"text": "What is this?"}}, {{"image": "{image}{end}"}}]}}]}}"#
            )
        };
        let one = body("a", "1");
        assert_eq!(find(&one, true), find(&body("a", "2"), true), "the difference is beyond what is read");
        assert_ne!(find(&one, true), find(&body("b", "1"), true));
        let read = |len| ConversationFinder::new(BodyMembers::default()).read_start(&one.as_bytes()[..len]);
        assert_eq!((read(MESSAGE_BYTES), read(MESSAGE_BYTES + 50)), (Err(TooShort), Ok(())));
    }

    #[test]
    fn conversations_with_the_same_text_are_told_apart_by_what_is_attached_to_it() {
        let text = r#"{"type": "text", "text": "What is in this?"}, "#;
        let attached = |name: &str| {
            let long = name.repeat(6_000);
            [
                format!(r#"{{"type": "image_url", "image_url": {{"url": "https://host/{name}.png"}}}}"#),
                format!(r#"{{"image_url": {{"url": "data:image/png;base64,{long}"}}, "type": "image_url"}}"#),
                format!(r#"{{"type": "input_file", "file_id": "file-{name}"}}"#),
                format!(r#"{{"type": "document", "source": {{"type": "base64", "data": "{long}"}}}}"#),
                format!(r#"{{"type": "input_audio", "input_audio": {{"data": "{name}", "format": "wav"}}}}"#),
            ]
        };
        let mut seen = std::collections::BTreeSet::new();
        for (name, text) in [("one", text), ("two", text), ("one", ""), ("two", "")] {
            for block in attached(name) {
                for members in [r#""role": "user", "content""#, r#""role": "user", "parts""#] {
                    let body = |mark: &str| {
                        let block = block.replacen('{', &format!("{{{mark}"), 1);
                        format!(
                            r#"{{"messages": [{{{members}: [{text}{block}]}}, {{"role": "assistant", "content": "A cat"}}]}}"#
                        )
                    };
                    let plain = find(&body(""), true);
                    assert_eq!(plain, find(&body(r#""cache_control": {"type": "ephemeral"}, "#), true), "{block:.60}");
                    seen.insert(plain.tag());
                }
            }
        }
        assert_eq!((seen.len(), seen.contains(&0)), (20, false), "every message begins another conversation");
    }

    #[test]
    fn a_first_message_without_content_begins_a_conversation_as_well() {
        for content in [r#""""#, "[]", "null", r#"[{"type": "text", "text": ""}]"#] {
            let body =
                format!(r#"{{"messages": [{{"role": "user", "content": {content}}}, {{"role": "assistant"}}]}}"#);
            assert_eq!(find(&body, true), Conversation::Continued { key: conversation_key(b"") }, "{content}");
        }
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
