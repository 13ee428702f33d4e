//! Where an agent's id is looked for: `agent_id`, an ordered list of sources of which the first hit wins.
//!
//! This only says where to look. Reading headers and properties, hashing a key and checking the id that was found need a
//! request, and are done in `crate::identity`.

use super::error::ConfigError;
use super::raw::{RawSource, Setting, each, flag, items, object, required_text, text};
use super::rules::{HEADER_NAME, PATH_PREFIX, PROPERTY_SEGMENT};
use serde_json::value::RawValue;

/// One place that may hold the agent's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentSource {
    /// A request header, in lower case.
    Header(String),
    /// The path segment after a prefix that begins and ends with a slash.
    PathPrefix {
        /// The prefix, such as `/agents/`.
        prefix: String,
        /// How much of the path the upstream sees.
        forwarded: Forwarded,
    },
    /// An Envoy property, by its path.
    Property(Vec<String>),
    /// A header, in lower case, that holds an API key. The id is the beginning of the key's SHA-256.
    ApiKey(String),
}

/// Whether prefix and id are removed from the path before the request is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// `/agents/a1/v1/messages` is forwarded as `/v1/messages`.
    Stripped,
    /// The path is forwarded unchanged.
    Whole,
}

/// Reads `agent_id`.
pub(super) fn sources(setting: Setting) -> Result<Vec<AgentSource>, ConfigError> {
    match items("agent_id", setting, 1..=8, "sources")? {
        Some(items) => each("agent_id", &items, source),
        None => Ok(vec![AgentSource::Header("x-agent-id".to_owned())]),
    }
}

fn source(item: &RawValue) -> Result<AgentSource, ConfigError> {
    let raw: RawSource = object(item)?;
    let strip_given = raw.strip.is_some();
    let strip = flag("strip", raw.strip, true)?;
    if strip_given && raw.path_prefix.is_none() {
        return Err(ConfigError::invalid("strip", strip.to_string(), "given with path_prefix only"));
    }
    let forwarded = if strip { Forwarded::Stripped } else { Forwarded::Whole };
    let header_name = |field, setting| text(field, setting, &HEADER_NAME).map(|name| Some(name?.to_ascii_lowercase()));
    let segment = |item: &RawValue| required_text("", Some(item), &PROPERTY_SEGMENT);

    let header = header_name("header", raw.header)?.map(AgentSource::Header);
    let path = text("path_prefix", raw.path_prefix, &PATH_PREFIX)?;
    let path = path.map(|prefix| AgentSource::PathPrefix { prefix, forwarded });
    let property = match items("property", raw.property, 1..=16, "path segments")? {
        Some(items) => Some(AgentSource::Property(each("property", &items, segment)?)),
        None => None,
    };
    let api_key = header_name("api_key", raw.api_key)?.map(AgentSource::ApiKey);

    let kinds = [("header", header), ("path_prefix", path), ("property", property), ("api_key", api_key)];
    let mut given = kinds.into_iter().filter_map(|(field, source)| Some((field, source?)));
    let not_one = |given: String| {
        ConfigError::invalid("", given, "an object with one of header, path_prefix, property and api_key")
    };
    match (given.next(), given.next()) {
        (Some((_, source)), None) => Ok(source),
        (Some((first, _)), Some((second, _))) => Err(not_one(format!("{first} and {second}"))),
        (None, _) => Err(not_one("an object".to_owned())),
    }
}
