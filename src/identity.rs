//! Who is the agent: the configured sources in order, the first that holds anything wins.
//!
//! A source that is there but holds no valid id is not passed over: falling through to a weaker source would let a client
//! choose it.

use sha2::{Digest, Sha256};

use crate::config::{AgentSource, Forwarded};
use crate::headers::Headers;
use crate::host::StreamHost;
use crate::policy::is_agent_id;

/// What the sources say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// This agent.
    Agent(String),
    /// Nothing.
    Missing,
    /// Something that is no agent id.
    Bad(Vec<u8>),
}

/// Asks the sources. A path that is to be forwarded without the id is rewritten, and the headers are then read anew.
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
        AgentSource::Header(name) => headers.get(name).map(<[u8]>::to_vec),
        AgentSource::Property(path) => {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            host.property(&path).filter(|value| !value.is_empty())
        }
        AgentSource::ApiKey(header) => headers.get(header).map(key_id),
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

/// The id in `/agents/<id>/v1/messages`, and the path without prefix and id.
fn split_path(path: &[u8], prefix: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let after = path.strip_prefix(prefix.as_bytes())?;
    let end = after.iter().position(|&byte| byte == b'/' || byte == b'?').unwrap_or(after.len());
    let (id, rest) = after.split_at(end);
    let rest = if rest.starts_with(b"/") { rest.to_vec() } else { [b"/", rest].concat() };
    Some((id.to_vec(), rest))
}

/// `key:` and the first 128 bits of the key's SHA-256, `Bearer ` aside: the same id wherever the key is sent.
#[inline(never)] // most agents name themselves
fn key_id(header: &[u8]) -> Vec<u8> {
    let header = header.trim_ascii();
    let key = match header.split_at_checked(7) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"bearer ") => key.trim_ascii(),
        _ => header,
    };
    if key.is_empty() {
        return Vec::new();
    }
    let digest = Sha256::digest(key);
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("key:{hex}").into_bytes()
}
