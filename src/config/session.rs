//! Where the id of a conversation is looked for: `session`, an ordered list of sources of which the first hit wins.

use super::error::ConfigError;
use super::raw::{RawSessionSource, Setting, each, exactly_one, header_name, items, object, property, text};
use super::rules::{BAGGAGE_KEY, BODY_MEMBER};
use crate::decode::session::{BodyMember, BodyMembers};
use serde_json::value::RawValue;

/// The sources of session ids. The number of each is its place in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSources {
    /// What is looked at when the headers arrive.
    pub of_headers: Vec<(usize, SessionSource)>,
    /// What is looked at when the body arrives.
    pub of_body: Vec<BodyMember>,
    /// The places of `of_body` in the list.
    body_places: Vec<usize>,
    /// The bits of the names with which the paths of `of_body` begin.
    first_names: u64,
}

/// A source of session ids that needs no body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionSource {
    /// A request header, in lower case.
    Header(String),
    /// A member of the `baggage` header.
    Baggage(String),
    /// An Envoy property, by its path.
    Property(Vec<String>),
}

impl SessionSources {
    /// Returns the members of a body that come before this place in the list.
    #[inline(always)]
    pub fn of_body_before(&self, place: usize) -> BodyMembers<'_> {
        let before = self.body_places.partition_point(|&known| known < place);
        BodyMembers::new(self.of_body.get(..before).unwrap_or_default(), self.first_names)
    }

    fn add(&mut self, place: usize, source: AnySource) {
        match source {
            AnySource::OfHeaders(source) => self.of_headers.push((place, source)),
            AnySource::OfBody(member) => {
                self.first_names |= member.first_name_bit();
                self.of_body.push(member);
                self.body_places.push(place);
            }
        }
    }
}

enum AnySource {
    OfHeaders(SessionSource),
    OfBody(BodyMember),
}

/// The headers that clients and gateways use for session ids today.
const HEADERS: [&str; 7] = [
    "mcp-session-id",
    "x-session-id",
    "session-id",
    "x-claude-code-session-id",
    "x-opencode-session",
    "x-litellm-session-id",
    "x-agent-session",
];
const BAGGAGE: [&str; 2] = ["session.id", "gen_ai.conversation.id"];
/// The members of bodies in which the known APIs and their clients put an id of the conversation or of its user.
const MEMBERS: [&str; 11] = [
    "conversation",
    "conversation.id",
    "prompt_cache_key",
    "metadata.session_id",
    "metadata.conversation_id",
    "metadata.user_id",
    "safety_identifier",
    "user",
    "contextId",
    "params.message.contextId",
    "threadId",
];

/// Reads `session`, or its short form `session_header`.
pub(super) fn sources(setting: Setting, header: Setting) -> Result<SessionSources, ConfigError> {
    let mut sources = SessionSources::default();
    let list = match (items("session", setting, 0..=32, "sources")?, header_name("session_header", header)?) {
        (Some(_), Some(name)) => {
            return Err(ConfigError::invalid("session_header", format!("{name:?}"), "absent where session is given"));
        }
        (Some(items), None) => each("session", &items, source)?,
        (None, Some(name)) => vec![AnySource::OfHeaders(SessionSource::Header(name))],
        (None, None) => defaults(),
    };
    list.into_iter().enumerate().for_each(|(place, source)| sources.add(place, source));
    Ok(sources)
}

fn defaults() -> Vec<AnySource> {
    let headers = HEADERS.map(|name| AnySource::OfHeaders(SessionSource::Header(name.to_owned())));
    let baggage = BAGGAGE.map(|key| AnySource::OfHeaders(SessionSource::Baggage(key.to_owned())));
    let members = MEMBERS.map(|path| AnySource::OfBody(member(path)));
    headers.into_iter().chain(baggage).chain(members).collect()
}

fn member(path: &str) -> BodyMember {
    BodyMember(path.split('.').map(str::to_owned).collect())
}

fn source(item: &RawValue) -> Result<AnySource, ConfigError> {
    let raw: RawSessionSource = object(item)?;
    let header = header_name("header", raw.header)?;
    let baggage = text("baggage", raw.baggage, &BAGGAGE_KEY)?;
    let body = text("body", raw.body, &BODY_MEMBER)?;
    let property = property("property", raw.property)?;
    let given = [
        ("header", header.is_some()),
        ("baggage", baggage.is_some()),
        ("body", body.is_some()),
        ("property", property.is_some()),
    ];
    exactly_one(&given, "header, baggage, body and property")?;
    Ok(match (header, baggage, body) {
        (Some(name), ..) => AnySource::OfHeaders(SessionSource::Header(name)),
        (_, Some(key), _) => AnySource::OfHeaders(SessionSource::Baggage(key)),
        (.., Some(path)) => AnySource::OfBody(member(&path)),
        _ => AnySource::OfHeaders(SessionSource::Property(property.unwrap_or_default())),
    })
}
