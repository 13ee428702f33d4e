//! Finds out which conversation a request belongs to, by its body.
//!
//! A member of the body may hold an id. Otherwise the conversation is known by its *opening*, the first user message. Both
//! ends of the body are looked at, but not the messages in between, so that the length of a conversation costs nothing.

use super::json::{Elements, Json, Members, RawStr, start_of_string};
use super::messages::{Message, Role};
use crate::turn::{Conversation, conversation_key};

/// How many bytes of each text of the first user message are hashed. The end of a long text is not searched for.
const TEXT_BYTES: usize = 2048;
/// Longer ids are not ids.
const MAX_ID_BYTES: usize = 1024;

/// The names of the members that lead to a value in a body: `metadata`, `session_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyMember(pub Vec<String>);

impl BodyMember {
    /// Returns the id in the member with this name, if the path begins with it and leads to an id.
    fn id<'a>(&self, name: &[u8], value: Json<'a>) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_first()?;
        if name != first.as_bytes() {
            return None;
        }
        let value = rest.iter().try_fold(value, |value, name| value.get(name).ok().flatten())?;
        let is_number = || value.text().first().is_some_and(|first| first.is_ascii_digit());
        let id = value.string().map(RawStr::raw).or_else(|| is_number().then(|| value.text()))?;
        (1..=MAX_ID_BYTES).contains(&id.len()).then_some(id)
    }
}

/// The beginning of a body is not enough to find the first user message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort;

/// What has been found out about the conversation of one request.
#[derive(Clone, Debug)]
pub struct ConversationFinder<'a> {
    /// The members that may hold an id. The first one that does counts.
    members: &'a [BodyMember],
    /// The id, and the index of the member that holds it.
    found: Option<(usize, Vec<u8>)>,
    opening: u64,
}

impl<'a> ConversationFinder<'a> {
    /// Looks for ids in these members.
    pub fn new(members: &'a [BodyMember]) -> Self {
        Self { members, found: None, opening: 0 }
    }

    /// Looks at a member of the body.
    #[inline(never)] // most members are of no interest, and walking them must stay small
    pub fn take(&mut self, name: RawStr<'_>, value: Json<'_>) {
        let limit = self.found.as_ref().map_or(self.members.len(), |(index, _)| *index);
        let name = name.unescaped();
        for (index, member) in self.members.iter().enumerate().take(limit) {
            if let Some(id) = member.id(&name, value) {
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
            if let Some((name, value)) = members.next_value()
                && [b"messages".as_slice(), b"input", b"contents"].contains(&name.raw())
                && let Some(messages) = Elements::at_start_of(value)
            {
                self.opening = opening(messages)?;
                return Ok(());
            }
            match members.next() {
                Some(Ok((name, value))) => self.take(name, value),
                Some(Err(_)) | None => return Err(TooShort),
            }
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
            Some(Start::UserText(text)) => return Ok(conversation_key(text)),
            Some(Start::NotUser) => {
                messages.next().and_then(Result::ok).ok_or(TooShort)?;
            }
            None => {
                let message = messages.next().and_then(Result::ok).ok_or(TooShort)?;
                let message = Message::read(message).map_err(|_| TooShort)?;
                if message.role == Role::User {
                    return Ok(texts(&message).fold(0, with_text));
                }
            }
        }
    }
}

/// What the start of a message tells, if it has the form that most messages have: first the role, then the content.
enum Start<'a> {
    /// It is of the user, and its content is this text or begins with it.
    UserText(&'a [u8]),
    /// It is not of the user.
    NotUser,
}

impl<'a> Start<'a> {
    fn read(message: &'a [u8]) -> Option<Self> {
        let mut members = Members::at_start_of(message)?;
        let (name, role) = members.next()?.ok()?;
        match role.string()?.raw() {
            _ if name.raw() != b"role" => None,
            b"user" => {
                let (_, content) = members.next_value().filter(|(name, _)| name.raw() == b"content")?;
                start_of_string(content, TEXT_BYTES).filter(|text| !text.is_empty()).map(Self::UserText)
            }
            b"system" | b"developer" | b"assistant" => Some(Self::NotUser),
            _ => None,
        }
    }
}

/// Returns the texts of a message. Other members of its blocks, such as marks for a cache, may change from call to call.
fn texts<'a>(message: &Message<'a>) -> impl Iterator<Item = &'a [u8]> {
    let in_block = |block: Json<'a>| block.string().or_else(|| block.get("text").ok().flatten()?.string());
    let blocks = message.blocks().into_iter().flatten().flatten().filter_map(in_block);
    let whole = message.members.content.and_then(Json::string);
    whole.into_iter().chain(blocks).map(RawStr::raw).filter(|text| !text.is_empty())
}

/// Returns the hash of the texts so far and one more.
fn with_text(hash: u64, text: &[u8]) -> u64 {
    let of_text = conversation_key(text.get(..TEXT_BYTES).unwrap_or(text));
    if hash == 0 { of_text } else { conversation_key(&[hash.to_le_bytes(), of_text.to_le_bytes()].concat()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(paths: &[&str]) -> Vec<BodyMember> {
        paths.iter().map(|path| BodyMember(path.split('.').map(str::to_owned).collect())).collect()
    }

    fn find(body: &str, has_history: bool) -> Conversation {
        let members = members(&["conversation", "conversation.id", "metadata.session_id", "user"]);
        let mut finder = ConversationFinder::new(&members);
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
        let whole = ConversationFinder::new(&[]).read_start(body);
        assert_eq!(whole, Ok(()), "what follows is not needed");
        let text = body.windows(7).position(|part| part == b"\"hello\"").unwrap();
        for len in 2..text + 6 {
            assert_eq!(ConversationFinder::new(&[]).read_start(&body[..len]), Err(TooShort), "{len} bytes");
        }
    }
}
