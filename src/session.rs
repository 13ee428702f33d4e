//! Which conversation a request belongs to, as far as its headers tell. The body may tell the rest: see
//! [`decode::session`](crate::decode::session).

use std::borrow::Cow;

use percent_encoding::percent_decode;

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

/// Looks for the id of the conversation in the headers and properties of a request. Walks the headers once.
pub fn find(sources: &SessionSources, headers: &Headers, host: &impl StreamHost) -> Option<HeaderSession> {
    let mut found: Option<(usize, Cow<'_, [u8]>)> = None;
    for (name, value) in headers.iter() {
        let place = found.as_ref().map_or(usize::MAX, |(place, _)| *place);
        let better = sources.of_headers.iter().take_while(|(known, _)| *known < place);
        let hit = better.filter_map(|(known, source)| Some((*known, read(source, name, value)?))).next();
        found = hit.or(found);
    }
    let place = found.as_ref().map_or(usize::MAX, |(place, _)| *place);
    let property = |(known, source): &(usize, SessionSource)| match source {
        SessionSource::Property(path) if *known < place => Some((*known, read_property(path, host)?)),
        _ => None,
    };
    let of_property = sources.of_headers.iter().find_map(property);
    let (place, id) = of_property.or_else(|| found.map(|(place, id)| (place, id.into_owned())))?;
    Some(HeaderSession { place, conversation: Conversation::identified(&id) })
}

/// Returns the id in a header, if the source is that header.
fn read<'a>(source: &SessionSource, name: &[u8], value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let id: Cow<'_, [u8]> = match source {
        SessionSource::Header(known) if known.as_bytes() == name => value.trim_ascii().into(),
        SessionSource::Baggage(key) if name == b"baggage" => percent_decode(baggage_member(value, key)?).into(),
        _ => return None,
    };
    Some(id).filter(|id| !id.is_empty())
}

fn read_property(path: &[String], host: &impl StreamHost) -> Option<Vec<u8>> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    host.property(&path).filter(|id| !id.is_empty())
}

/// Returns the value of a member of a W3C `baggage` header, percent-encoded as it is: `key1=value1;property,key2=value2`.
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
