//! Which conversation a request belongs to, as far as its headers tell. The body may tell the rest: see
//! [`decode::session`](crate::decode::session).

use crate::config::{SessionSource, SessionSources};
use crate::headers::Headers;
use crate::host::StreamHost;
use crate::turn::Conversation;

/// A conversation that was found in the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderSession {
    /// The place of its source in the list of sources. Sources in the body may come before it.
    pub place: usize,
    /// The conversation.
    pub conversation: Conversation,
}

/// Looks for the id of the conversation in the headers and properties of a request.
pub fn find(sources: &SessionSources, headers: &Headers, host: &impl StreamHost) -> Option<HeaderSession> {
    let found = sources.of_headers.iter().find_map(|(place, source)| Some((*place, read(source, headers, host)?)));
    found.map(|(place, id)| HeaderSession { place, conversation: Conversation::identified(&id) })
}

fn read(source: &SessionSource, headers: &Headers, host: &impl StreamHost) -> Option<Vec<u8>> {
    let id = match source {
        SessionSource::Header(name) => headers.get(name)?.trim_ascii().to_vec(),
        SessionSource::Baggage(key) => baggage_member(headers.get("baggage")?, key)?.to_vec(),
        SessionSource::Property(path) => {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            host.property(&path)?
        }
    };
    Some(id).filter(|id| !id.is_empty())
}

/// Returns the value of a member of a W3C `baggage` header: `key1=value1;property,key2=value2`.
fn baggage_member<'a>(header: &'a [u8], key: &str) -> Option<&'a [u8]> {
    header.split(|&byte| byte == b',').find_map(|member| {
        let member = member.split(|&byte| byte == b';').next()?;
        let equals = member.iter().position(|&byte| byte == b'=')?;
        let (name, value) = member.split_at_checked(equals)?;
        (name.trim_ascii() == key.as_bytes()).then(|| value.get(1..).unwrap_or_default().trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_the_baggage_is_found_among_others() {
        let header = b"a=1;p=q, session.id = s-1 ;x, gen_ai.conversation.id=c%201,session.id=s-2";
        let cases =
            [("session.id", Some("s-1")), ("gen_ai.conversation.id", Some("c%201")), ("session", None), ("p", None)];
        for (key, value) in cases {
            assert_eq!(baggage_member(header, key), value.map(str::as_bytes), "{key}");
        }
    }
}
