//! Where an agent's id is looked for: `agent_id`, an ordered list of sources of which the first hit wins.
//!
//! Only says where to look. Reading headers and properties, hashing a key and checking the id found belong to the
//! stream, since they need a request.

use super::error::ConfigError;
use super::fields::{AGENT_ID, API_KEY, HEADER, PATH_PREFIX, PROPERTY, SOURCE_FIELDS, STRIP};
use super::json::Json;
use super::object::{Object, invalid};

/// One place that may hold the agent's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentSource {
    /// A request header, in lower case.
    Header(String),
    /// The path segment after a prefix that begins and ends with a slash.
    PathPrefix {
        /// The prefix, such as `/agents/`.
        prefix: String,
        /// What the upstream sees of it.
        forwarded: Forwarded,
    },
    /// An Envoy property, by its path.
    Property(Vec<String>),
    /// A header in lower case that holds an API key: the id is the beginning of the key's SHA-256.
    ApiKey(String),
}

/// Whether prefix and id are taken out of the path before the request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// `/agents/a1/v1/messages` goes on as `/v1/messages`.
    Stripped,
    /// The path goes on as it came.
    Whole,
}

/// What a source must name.
const ONE_KIND: &str = "an object with one of header, path_prefix, property and api_key";

/// The sources, or the default one.
pub(super) fn sources(config: &Object) -> Result<Vec<AgentSource>, ConfigError> {
    let Some(items) = config.list(&AGENT_ID)? else {
        return Ok(vec![AgentSource::Header("x-agent-id".to_owned())]);
    };
    items.iter().enumerate().map(|(index, item)| source(index, item)).collect()
}

fn source(index: usize, item: &Json) -> Result<AgentSource, ConfigError> {
    let object = Object::item(&AGENT_ID, index, item, SOURCE_FIELDS)?;
    let place = || format!("{}[{index}]", AGENT_ID.name);

    let kinds = [HEADER.name, PATH_PREFIX.name, PROPERTY.name, API_KEY.name];
    // Owned, since joining exists once for each kind of text, and the module has this one anyway.
    let given: Vec<String> = kinds.into_iter().filter(|kind| object.has(kind)).map(str::to_owned).collect();
    if given.len() > 1 {
        return Err(invalid(&place(), &given.join(" and "), ONE_KIND));
    }
    if object.has(STRIP.name) && !object.has(PATH_PREFIX.name) {
        return Err(invalid(&object.path(STRIP.name), &object.flag(&STRIP)?, "given with path_prefix only"));
    }

    if let Some(name) = object.text(&HEADER)? {
        return Ok(AgentSource::Header(name.to_ascii_lowercase()));
    }
    if let Some(prefix) = object.text(&PATH_PREFIX)? {
        let forwarded = if object.flag(&STRIP)? { Forwarded::Stripped } else { Forwarded::Whole };
        return Ok(AgentSource::PathPrefix { prefix: prefix.to_owned(), forwarded });
    }
    if let Some(segments) = object.list(&PROPERTY)? {
        return Ok(AgentSource::Property(property(&object, segments)?));
    }
    match object.text(&API_KEY)? {
        Some(name) => Ok(AgentSource::ApiKey(name.to_ascii_lowercase())),
        None => Err(invalid(&place(), &item, ONE_KIND)),
    }
}

fn property(object: &Object, segments: &[Json]) -> Result<Vec<String>, ConfigError> {
    let segment = |(index, segment): (usize, &Json)| match segment {
        Json::Text(text) if !text.is_empty() && !text.contains('\0') => Ok(text.clone()),
        other => Err(invalid(&format!("{}[{index}]", object.path(PROPERTY.name)), &other, "non-empty text")),
    };
    segments.iter().enumerate().map(segment).collect()
}
