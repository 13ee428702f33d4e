//! Where an agent's id is looked for: `agent_id`, an ordered list of sources of which the first hit wins.
//!
//! This only says where to look. Reading headers and properties, hashing a key and checking the id that was found need a
//! request, and are done in `crate::identity`.

use super::error::ConfigError;
use super::raw::{RawSource, Setting, each, exactly_one, flag, header_name, items, object, property, text};
use super::rules::PATH_PREFIX;
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
    let header = header_name("header", raw.header)?;
    let path = text("path_prefix", raw.path_prefix, &PATH_PREFIX)?;
    let property = property("property", raw.property)?;
    let api_key = header_name("api_key", raw.api_key)?;
    let given = [
        ("header", header.is_some()),
        ("path_prefix", path.is_some()),
        ("property", property.is_some()),
        ("api_key", api_key.is_some()),
    ];
    exactly_one(&given, "header, path_prefix, property and api_key")?;
    Ok(match (header, path, property) {
        (Some(name), ..) => AgentSource::Header(name),
        (_, Some(prefix), _) => AgentSource::PathPrefix { prefix, forwarded },
        (.., Some(path)) => AgentSource::Property(path),
        _ => AgentSource::ApiKey(api_key.unwrap_or_default()),
    })
}
