//! The one list of what a configuration may say: every field with its default and its bounds.
//!
//! Parsing, error messages, the suggestion for a misspelt name and the test that holds docs/configuration.md to the
//! code all read it, so that a bound stands in one place. What a field means, the documentation says.

/// A field whose value is text.
pub(super) struct Text {
    pub name: &'static str,
    pub default: Option<&'static str>,
    /// What it must be, in words that follow "must be".
    pub bounds: &'static str,
    pub fits: fn(&str) -> bool,
}

/// A field whose value is a whole number.
pub(super) struct Whole {
    pub name: &'static str,
    pub default: u32,
    pub min: u32,
    pub max: u32,
}

/// A field whose value is one of a few words, of which the first is the default.
pub(super) struct Choice {
    pub name: &'static str,
    pub words: [&'static str; 2],
}

/// A field whose value is true or false.
pub(super) struct Flag {
    pub name: &'static str,
    pub default: bool,
}

/// A field whose value is a list.
pub(super) struct List {
    pub name: &'static str,
    pub min: usize,
    pub max: usize,
    pub items: &'static str,
}

/// Any field.
pub(super) enum Field {
    Required(&'static Text),
    Text(&'static Text),
    Whole(&'static Whole),
    Choice(&'static Choice),
    Flag(&'static Flag),
    List(&'static List),
}

/// Every field at the top, in the order of the documentation.
pub(super) const FIELDS: &[Field] = &[
    Field::Required(&CLUSTER),
    Field::Text(&AUTHORITY),
    Field::Text(&TOKEN),
    Field::Text(&TOKEN_ENV),
    Field::List(&AGENT_ID),
    Field::Flag(&REQUIRE_AGENT),
    Field::Choice(&ON_NO_POLICY),
    Field::Text(&SESSION_HEADER),
    Field::Whole(&SESSION_SLOTS),
    Field::Choice(&HOLD),
    Field::Whole(&MAX_REQUEST_BYTES),
    Field::Whole(&MAX_EVENT_BYTES),
    Field::Choice(&ACCEPT_ENCODING),
    Field::List(&PATTERNS),
    Field::Choice(&INACTIVE_REPLY),
    Field::Text(&DASHBOARD_URL),
    Field::Choice(&EVIDENCE),
    Field::Text(&ENVOY_NAME),
    Field::Whole(&SYNC_WAIT_SECONDS),
    Field::Whole(&OBSERVE_INTERVAL_MS),
];

/// The fields of one entry of `agent_id`.
pub(super) const SOURCE_FIELDS: &[Field] = &[
    Field::Text(&HEADER),
    Field::Text(&PATH_PREFIX),
    Field::Flag(&STRIP),
    Field::List(&PROPERTY),
    Field::Text(&API_KEY),
];

/// The fields of one entry of `patterns`.
pub(super) const PATTERN_FIELDS: &[Field] = &[Field::Required(&PATTERN), Field::Required(&PLACEHOLDER)];

const HEADER_NAME: &str = "a header name of 1 to 64 letters, digits and hyphens, dots or underscores";

pub(super) const CLUSTER: Text = Text {
    name: "cluster",
    default: None,
    bounds: "the name of an Envoy cluster, 1 to 255 characters without spaces",
    fits: |text| is_visible(text, 255),
};
pub(super) const AUTHORITY: Text = Text {
    name: "authority",
    default: Some("kill-switch"),
    bounds: "a host name, optionally with a port, 1 to 255 characters without spaces or slashes",
    fits: |text| is_visible(text, 255) && !text.contains('/'),
};
pub(super) const TOKEN: Text = Text {
    name: "token",
    default: None,
    bounds: "1 to 4096 visible ASCII characters",
    fits: |text| is_visible(text, 4096),
};
pub(super) const TOKEN_ENV: Text = Text {
    name: "token_env",
    default: None,
    bounds: "the name of an environment variable, 1 to 128 letters, digits and underscores",
    fits: |text| is_made_of(text, 128, |b| b.is_ascii_alphanumeric() || b == b'_'),
};
pub(super) const AGENT_ID: List = List { name: "agent_id", min: 1, max: 8, items: "sources" };
pub(super) const REQUIRE_AGENT: Flag = Flag { name: "require_agent", default: false };
pub(super) const ON_NO_POLICY: Choice = Choice { name: "on_no_policy", words: ["allow", "deny"] };
pub(super) const SESSION_HEADER: Text =
    Text { name: "session_header", default: None, bounds: HEADER_NAME, fits: is_header_name };
pub(super) const SESSION_SLOTS: Whole = Whole { name: "session_slots", default: 8, min: 1, max: 64 };
pub(super) const HOLD: Choice = Choice { name: "hold", words: ["headers", "body"] };
pub(super) const MAX_REQUEST_BYTES: Whole =
    Whole { name: "max_request_bytes", default: 1 << 20, min: 1 << 10, max: 16 << 20 };
pub(super) const MAX_EVENT_BYTES: Whole =
    Whole { name: "max_event_bytes", default: 256 << 10, min: 1 << 10, max: 4 << 20 };
pub(super) const ACCEPT_ENCODING: Choice = Choice { name: "accept_encoding", words: ["identity", "keep"] };
pub(super) const PATTERNS: List = List { name: "patterns", min: 0, max: 32, items: "patterns" };
pub(super) const INACTIVE_REPLY: Choice = Choice { name: "inactive_reply", words: ["error", "completion"] };
pub(super) const DASHBOARD_URL: Text = Text {
    name: "dashboard_url",
    default: None,
    bounds: "an http or https URL of at most 1024 characters, without user or password",
    fits: is_url,
};
pub(super) const EVIDENCE: Choice = Choice { name: "evidence", words: ["none", "excerpt"] };
pub(super) const ENVOY_NAME: Text = Text {
    name: "envoy_name",
    default: None,
    bounds: "1 to 128 letters, digits and any of . _ : @ / -",
    fits: |text| crate::identity::is_agent_id(text.as_bytes()),
};
pub(super) const SYNC_WAIT_SECONDS: Whole = Whole { name: "sync_wait_seconds", default: 25, min: 1, max: 55 };
pub(super) const OBSERVE_INTERVAL_MS: Whole =
    Whole { name: "observe_interval_ms", default: 1_000, min: 100, max: 60_000 };

pub(super) const HEADER: Text = Text { name: "header", default: None, bounds: HEADER_NAME, fits: is_header_name };
pub(super) const PATH_PREFIX: Text = Text {
    name: "path_prefix",
    default: None,
    bounds: "a path that begins and ends with a slash, at most 255 characters, such as /agents/",
    fits: is_path_prefix,
};
pub(super) const STRIP: Flag = Flag { name: "strip", default: true };
pub(super) const PROPERTY: List = List { name: "property", min: 1, max: 16, items: "path segments" };
pub(super) const API_KEY: Text = Text { name: "api_key", default: None, bounds: HEADER_NAME, fits: is_header_name };

pub(super) const PATTERN: Text = Text {
    name: "pattern",
    default: None,
    bounds: "a regular expression of 1 to 512 bytes",
    fits: |text| (1..=512).contains(&text.len()),
};
pub(super) const PLACEHOLDER: Text = Text {
    name: "placeholder",
    default: None,
    bounds: "1 to 16 of A-Z, 0-9 and _ between < and >, such as <TICKET>",
    fits: is_placeholder,
};

impl Field {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Required(field) | Self::Text(field) => field.name,
            Self::Whole(field) => field.name,
            Self::Choice(field) => field.name,
            Self::Flag(field) => field.name,
            Self::List(field) => field.name,
        }
    }
}

impl Whole {
    pub fn bounds(&self) -> String {
        format!("a whole number from {} to {}", self.min, self.max)
    }
}

impl Choice {
    pub fn bounds(&self) -> String {
        let [first, second] = self.words;
        format!("{first} or {second}")
    }
}

impl Flag {
    pub const BOUNDS: &'static str = "true or false";
}

impl List {
    pub fn bounds(&self) -> String {
        format!("a list of {} to {} {}", self.min, self.max, self.items)
    }
}

fn is_made_of(text: &str, longest: usize, allowed: fn(u8) -> bool) -> bool {
    (1..=longest).contains(&text.len()) && text.bytes().all(allowed)
}

fn is_visible(text: &str, longest: usize) -> bool {
    is_made_of(text, longest, |b| b.is_ascii_graphic())
}

// Narrower than what HTTP allows: every header in real use fits, and a pseudo-header such as :authority does not.
fn is_header_name(text: &str) -> bool {
    is_made_of(text, 64, |b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
}

fn is_path_prefix(text: &str) -> bool {
    let plain = is_made_of(text, 255, |b| b.is_ascii_graphic() && !b"?#".contains(&b));
    plain && text.len() > 1 && text.starts_with('/') && text.ends_with('/')
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let host = rest.as_bytes().split(|b| b"/?#".contains(b)).next().unwrap_or_default();
    let plain = is_made_of(text, 1024, |b| b.is_ascii_graphic() && !b"\"<>\\".contains(&b));
    plain && !host.is_empty() && !host.contains(&b'@')
}

fn is_placeholder(text: &str) -> bool {
    let name = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or_default();
    is_made_of(name, 16, |b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// The known name that `given` was probably meant to be.
pub(super) fn nearest(given: &str, fields: &[Field]) -> Option<&'static str> {
    let given: String = given.chars().take(64).map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect();
    let near = fields.iter().map(|field| (edits(&given, field.name()), field.name()));
    let (distance, name) = near.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + name.len() / 5).then_some(name)
}

/// How many single-character insertions, removals and replacements lie between two texts.
fn edits(from: &str, to: &str) -> usize {
    // One row of the usual table: `row[j]` is the distance to the first `j` bytes of `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut left = i + 1;
        let mut diagonal = i;
        for (cell, b) in row.iter_mut().skip(1).zip(to.bytes()) {
            let replaced = diagonal + usize::from(a != b);
            diagonal = *cell;
            *cell = replaced.min(left + 1).min(diagonal + 1);
            left = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
#[path = "fields_tests.rs"]
mod tests;
