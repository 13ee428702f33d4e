//! Which agent a request belongs to. The configured sources are tried in order, and the first one that is present wins.
//!
//! A source that is present but does not hold a valid id ends the search. Otherwise a client could choose a weaker source
//! by sending an invalid id in a stronger one.

use sha2::{Digest, Sha256};

use crate::config::{AgentSource, Forwarded};
use crate::headers::Headers;
use crate::host::StreamHost;

/// The result of looking for an agent id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A valid agent id.
    Agent(String),
    /// No source is present.
    Missing,
    /// The source holds something that is not a valid agent id.
    Bad(Vec<u8>),
}

/// Checks an agent id: 1 to 128 bytes of `[A-Za-z0-9._:@/-]`. `.` and `..` are not ids: in the path of a URL they mean a
/// folder, also if they are percent-encoded, so the agent's page could not be reached.
pub fn is_agent_id(id: &[u8]) -> bool {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || b"._:@/-".contains(b);
    (1..=128).contains(&id.len()) && id.iter().all(allowed) && id != b"." && id != b".."
}

/// Looks for the agent id. If the path must be forwarded without the id, it is rewritten and the headers are read again.
pub fn identify(sources: &[AgentSource], headers: &mut Headers, host: &impl StreamHost) -> Identity {
    let found = sources.iter().find_map(|source| read(source, headers, host)).filter(|id| !id.is_empty());
    match found {
        None => Identity::Missing,
        Some(id) if is_agent_id(&id) => Identity::Agent(String::from_utf8(id).unwrap_or_default()),
        Some(id) => Identity::Bad(id),
    }
}

fn read(source: &AgentSource, headers: &mut Headers, host: &impl StreamHost) -> Option<Vec<u8>> {
    match source {
        AgentSource::Header(name) => single(headers, name).map(|id| id.unwrap_or(CONFLICT).to_vec()),
        AgentSource::Property(path) => {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            host.property(&path).filter(|value| !value.is_empty())
        }
        AgentSource::ApiKey(name) => single(headers, name).map(|key| key.map_or_else(|| CONFLICT.to_vec(), key_id)),
        AgentSource::PathPrefix { prefix, forwarded } => {
            let (id, rest) = split_path(headers.get(":path")?, prefix)?;
            if *forwarded == Forwarded::Stripped {
                host.set_request_header(":path", Some(&rest));
                *headers = host.request_headers();
            }
            Some(id)
        }
    }
}

/// Stands for the id of a request that has several. It is not a valid id.
const CONFLICT: &[u8] = b"two different values";

/// Returns the value of a header, or `Some(None)` if the request has the header more than once with different values. A
/// request that names two agents could be counted as one of them here and taken for the other by the upstream.
fn single<'a>(headers: &'a Headers, name: &str) -> Option<Option<&'a [u8]>> {
    let first = headers.get(name)?;
    Some(headers.get_other(name, Some(first)).is_none().then_some(first))
}

/// Splits `/agents/<id>/v1/messages` into the id and the path without prefix and id.
fn split_path(path: &[u8], prefix: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let after = path.strip_prefix(prefix.as_bytes())?;
    let end = after.iter().position(|&byte| byte == b'/' || byte == b'?').unwrap_or(after.len());
    let (id, rest) = after.split_at(end);
    let rest = if rest.starts_with(b"/") { rest.to_vec() } else { [b"/", rest].concat() };
    Some((id.to_vec(), rest))
}

/// Returns `key:` and the first 128 bits of the key's SHA-256.
#[inline(never)] // keeps the hash function out of the path of agents that send their id
fn key_id(header: &[u8]) -> Vec<u8> {
    // If a request has the header `authorization` twice, Envoy makes one of both, with a comma between them.
    let mut keys = header.split(|byte| *byte == b',').map(without_scheme);
    let key = keys.next().unwrap_or_default();
    if keys.any(|other| other != key) {
        return CONFLICT.to_vec();
    }
    if key.is_empty() {
        return Vec::new();
    }
    let digest = Sha256::digest(key);
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("key:{hex}").into_bytes()
}

/// Returns a key without a leading `Bearer `, so that it gives the same id in every header.
fn without_scheme(key: &[u8]) -> &[u8] {
    let key = key.trim_ascii();
    match key.split_at_checked(7) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"bearer ") => key.trim_ascii(),
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_ids_are_short_and_have_no_special_characters() {
        for id in ["a", "team/bot-7", "svc:a@b.c_d", "...", ".a", "a/..", &"x".repeat(128)] {
            assert!(is_agent_id(id.as_bytes()), "{id}");
        }
        for id in ["", "a b", "a\n", "é", "a\"b", ".", "..", &"x".repeat(129)] {
            assert!(!is_agent_id(id.as_bytes()), "{id}");
        }
    }

    #[test]
    fn a_key_that_comes_twice_is_one_key_and_two_keys_are_a_malformed_id() {
        let id = key_id(b"Bearer one");
        assert!(is_agent_id(&id));
        for header in ["one", " bearer  one ", "Bearer one,Bearer one", "Bearer one, one"] {
            assert_eq!(key_id(header.as_bytes()), id, "{header}");
        }
        for header in ["Bearer one,Bearer two", "one,", ",one"] {
            assert!(!is_agent_id(&key_id(header.as_bytes())), "{header}");
        }
        assert_ne!(key_id(b"two"), id);
    }
}
