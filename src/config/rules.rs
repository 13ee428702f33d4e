//! What the texts in a configuration must be.

use super::raw::TextRule;

pub(super) const CLUSTER: TextRule = TextRule {
    must: "the name of an Envoy cluster, 1 to 255 characters without spaces",
    fits: |text| is_visible(text, 255),
};
pub(super) const AUTHORITY: TextRule = TextRule {
    must: "a host name, optionally with a port, 1 to 255 characters without spaces or slashes",
    fits: |text| is_visible(text, 255) && !text.contains('/'),
};
pub(super) const TOKEN: TextRule =
    TextRule { must: "1 to 4096 visible ASCII characters", fits: |text| is_visible(text, 4096) };
pub(super) const VARIABLE: TextRule = TextRule {
    must: "the name of an environment variable, 1 to 128 letters, digits and underscores",
    fits: |text| is_made_of(text, 128, |b| b.is_ascii_alphanumeric() || b == b'_'),
};
// Narrower than what HTTP allows: every header in real use fits, and a pseudo-header such as :authority does not.
pub(super) const HEADER_NAME: TextRule = TextRule {
    must: "a header name of 1 to 64 letters, digits and hyphens, dots or underscores",
    fits: |text| is_made_of(text, 64, |b| b.is_ascii_alphanumeric() || b"-._".contains(&b)),
};
pub(super) const ENVOY_NAME: TextRule = TextRule {
    must: "1 to 128 letters, digits and any of . _ : @ / -",
    fits: |text| crate::identity::is_agent_id(text.as_bytes()),
};
pub(super) const URL: TextRule =
    TextRule { must: "an http or https URL of at most 1024 characters, without user or password", fits: is_url };
pub(super) const PATH_PREFIX: TextRule = TextRule {
    must: "a path that begins and ends with a slash, at most 255 characters, such as /agents/",
    fits: is_path_prefix,
};
pub(super) const PROPERTY_SEGMENT: TextRule =
    TextRule { must: "non-empty text", fits: |text| !text.is_empty() && !text.contains('\0') };
pub(super) const BAGGAGE_KEY: TextRule = TextRule {
    must: "the name of a baggage member, 1 to 64 visible ASCII characters other than = , and ;",
    fits: |text| is_made_of(text, 64, |b| b.is_ascii_graphic() && !b"=,;".contains(&b)),
};
pub(super) const BODY_MEMBER: TextRule = TextRule {
    must: "names of members with dots between them, at most 255 bytes, such as metadata.session_id",
    fits: |text| (1..=255).contains(&text.len()) && text.split('.').all(|name| !name.is_empty()),
};
pub(super) const PATTERN: TextRule =
    TextRule { must: "a regular expression of 1 to 512 bytes", fits: |text| (1..=512).contains(&text.len()) };
pub(super) const PLACEHOLDER: TextRule =
    TextRule { must: "1 to 16 of A-Z, 0-9 and _ between < and >, such as <TICKET>", fits: is_placeholder };

fn is_made_of(text: &str, max_len: usize, allowed: fn(u8) -> bool) -> bool {
    (1..=max_len).contains(&text.len()) && text.bytes().all(allowed)
}

fn is_visible(text: &str, max_len: usize) -> bool {
    is_made_of(text, max_len, |b| b.is_ascii_graphic())
}

fn is_path_prefix(text: &str) -> bool {
    let is_path = is_made_of(text, 255, |b| b.is_ascii_graphic() && !b"?#".contains(&b));
    is_path && text.len() > 1 && text.starts_with('/') && text.ends_with('/')
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let host = rest.as_bytes().split(|b| b"/?#".contains(b)).next().unwrap_or_default();
    let is_safe_to_show = is_made_of(text, 1024, |b| b.is_ascii_graphic() && !b"\"<>\\".contains(&b));
    is_safe_to_show && !host.is_empty() && !host.contains(&b'@')
}

fn is_placeholder(text: &str) -> bool {
    let name = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or_default();
    is_made_of(name, 16, |b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}
