//! The configuration as it was written: which settings there are, and reading one of them.
//!
//! serde checks the names of the settings and that none is given twice. Their values stay JSON text until they are
//! converted, so that an error can name the setting by its whole path, show what was given and say what it must be,
//! which serde's own errors do not. A setting that is null counts as absent: templating tools write null for "leave the
//! default".

use super::error::ConfigError;
use super::rules;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::ops::RangeInclusive;

/// A setting as it was written. `None` if it is absent or null.
pub(super) type Setting<'a> = Option<&'a RawValue>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct RawConfig<'a> {
    pub cluster: Setting<'a>,
    pub authority: Setting<'a>,
    pub token: Setting<'a>,
    pub token_env: Setting<'a>,
    pub agent_id: Setting<'a>,
    pub require_agent: Setting<'a>,
    pub on_no_policy: Setting<'a>,
    pub on_unjudged: Setting<'a>,
    pub judge_unknown: Setting<'a>,
    pub session: Setting<'a>,
    pub session_header: Setting<'a>,
    pub session_slots: Setting<'a>,
    pub max_session_bytes: Setting<'a>,
    pub hold: Setting<'a>,
    pub max_request_bytes: Setting<'a>,
    pub max_event_bytes: Setting<'a>,
    pub accept_encoding: Setting<'a>,
    pub patterns: Setting<'a>,
    pub inactive_reply: Setting<'a>,
    pub dashboard_url: Setting<'a>,
    pub evidence: Setting<'a>,
    pub envoy_name: Setting<'a>,
    pub sync_wait_seconds: Setting<'a>,
    pub observe_interval_ms: Setting<'a>,
    pub fleet: Setting<'a>,
}

/// One entry of `agent_id`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct RawSource<'a> {
    pub header: Setting<'a>,
    pub path_prefix: Setting<'a>,
    pub strip: Setting<'a>,
    pub property: Setting<'a>,
    pub api_key: Setting<'a>,
}

/// One entry of `session`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct RawSessionSource<'a> {
    pub header: Setting<'a>,
    pub baggage: Setting<'a>,
    pub body: Setting<'a>,
    pub property: Setting<'a>,
}

/// One entry of `patterns`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct RawPattern<'a> {
    pub pattern: Setting<'a>,
    pub placeholder: Setting<'a>,
}

/// What the text of a setting must be.
pub(super) struct TextRule {
    /// In words that follow "must be".
    pub must: &'static str,
    pub fits: fn(&str) -> bool,
}

/// Reads an object. Unknown and repeated names are refused.
pub(super) fn object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, ConfigError> {
    // A derived `Deserialize` also accepts a list of the values, without their names.
    if !raw.get().starts_with('{') {
        return Err(ConfigError::invalid("", shown(raw), "a JSON object"));
    }
    serde_json::from_str(raw.get()).map_err(|error| refused_name(&error.to_string()))
}

/// Reads a text, or returns `None` if it is not given.
pub(super) fn text(field: &str, setting: Setting, rule: &TextRule) -> Result<Option<String>, ConfigError> {
    let read = |raw: &RawValue| parse::<String>(raw).filter(|text| (rule.fits)(text));
    optional(field, setting, &read, &|| rule.must.to_owned())
}

/// Reads a text that must be given.
pub(super) fn required_text(field: &str, setting: Setting, rule: &TextRule) -> Result<String, ConfigError> {
    let missing = || ConfigError::Missing { field: field.to_owned(), must: rule.must.to_owned() };
    text(field, setting, rule)?.ok_or_else(missing)
}

/// Reads a whole number. `8.0` is one, too, since a protobuf Struct has no other kind of number.
pub(super) fn whole(
    field: &str,
    setting: Setting,
    default: u32,
    bounds: RangeInclusive<u32>,
) -> Result<u32, ConfigError> {
    let (min, max) = bounds.into_inner();
    let fits = |number: &f64| number.fract() == 0.0 && (f64::from(min)..=f64::from(max)).contains(number);
    let read = |raw: &RawValue| parse::<f64>(raw).filter(fits).map(|number| number as u32);
    let must = || format!("a whole number from {min} to {max}");
    Ok(optional(field, setting, &read, &must)?.unwrap_or(default))
}

/// Reads true or false.
pub(super) fn flag(field: &str, setting: Setting, default: bool) -> Result<bool, ConfigError> {
    let read = |raw: &RawValue| match raw.get() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    Ok(optional(field, setting, &read, &|| "true or false".to_owned())?.unwrap_or(default))
}

/// Reads one of two words, and returns the value that it stands for. The first one is the default.
pub(super) fn choice<T>(
    field: &str,
    setting: Setting,
    [(default, default_value), (other, other_value)]: [(&str, T); 2],
) -> Result<T, ConfigError> {
    Ok(if is_other_word(field, setting, default, other)? { other_value } else { default_value })
}

// Not generic and never inlined, so that it is compiled once rather than for each type of value.
#[inline(never)]
fn is_other_word(field: &str, setting: Setting, default: &str, other: &str) -> Result<bool, ConfigError> {
    let read = |raw: &RawValue| match parse::<String>(raw)? {
        word if word == default => Some(false),
        word if word == other => Some(true),
        _ => None,
    };
    Ok(optional(field, setting, &read, &|| format!("{default} or {other}"))?.unwrap_or_default())
}

/// Reads the items of a list, or returns `None` if it is not given.
pub(super) fn items<'a>(
    field: &str,
    setting: Setting<'a>,
    bounds: RangeInclusive<usize>,
    plural: &str,
) -> Result<Option<Vec<&'a RawValue>>, ConfigError> {
    let must = || format!("a list of {} to {} {plural}", bounds.start(), bounds.end());
    match optional(field, setting, &parse::<Vec<&RawValue>>, &must)? {
        Some(items) if !bounds.contains(&items.len()) => {
            Err(ConfigError::invalid(field, format!("a list of {}", items.len()), must()))
        }
        items => Ok(items),
    }
}

/// Reads each item of a list. An error names the item by its index.
pub(super) fn each<T>(
    field: &str,
    items: &[&RawValue],
    read: fn(&RawValue) -> Result<T, ConfigError>,
) -> Result<Vec<T>, ConfigError> {
    let located =
        |(index, raw): (usize, &&RawValue)| read(raw).map_err(|error| error.within(&format!("{field}[{index}]")));
    items.iter().enumerate().map(located).collect()
}

/// Reads the name of a header, in lower case, or returns `None` if it is not given.
pub(super) fn header_name(field: &str, setting: Setting) -> Result<Option<String>, ConfigError> {
    text(field, setting, &rules::HEADER_NAME).map(|name| Some(name?.to_ascii_lowercase()))
}

/// Reads the path of an Envoy property, or returns `None` if it is not given.
pub(super) fn property(field: &str, setting: Setting) -> Result<Option<Vec<String>>, ConfigError> {
    let segment = |item: &RawValue| required_text("", Some(item), &rules::PROPERTY_SEGMENT);
    items(field, setting, 1..=16, "path segments")?.map(|items| each(field, &items, segment)).transpose()
}

/// Checks that exactly one of some settings is given. They are named in words after "an object with one of".
#[inline(never)]
pub(super) fn exactly_one(given: &[(&str, bool)], names: &str) -> Result<(), ConfigError> {
    let mut given = given.iter().filter(|(_, given)| *given).map(|(name, _)| *name);
    let found = match (given.next(), given.next()) {
        (Some(_), None) => return Ok(()),
        (Some(first), Some(second)) => format!("{first} and {second}"),
        (None, _) => "an object".to_owned(),
    };
    Err(ConfigError::invalid("", found, format!("an object with one of {names}")))
}

fn optional<'a, T>(
    field: &str,
    setting: Setting<'a>,
    read: &dyn Fn(&'a RawValue) -> Option<T>,
    must: &dyn Fn() -> String,
) -> Result<Option<T>, ConfigError> {
    let Some(raw) = setting else { return Ok(None) };
    let given = || if field == "token" { "hidden".to_owned() } else { shown(raw) };
    read(raw).map(Some).ok_or_else(|| ConfigError::invalid(field, given(), must()))
}

fn parse<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// A value as an error message shows it: short, and without the contents of lists and objects, which may be secret.
fn shown(raw: &RawValue) -> String {
    match raw.get() {
        list if list.starts_with('[') => "a list".to_owned(),
        object if object.starts_with('{') => "an object".to_owned(),
        scalar => shortened(scalar),
    }
}

pub(super) fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Turns serde's message about the names in an object into an error of our own. It has each name in backticks: the one
/// that is refused first, then those that are known.
fn refused_name(message: &str) -> ConfigError {
    let mut parts = message.split('`');
    match (parts.next(), parts.next()) {
        (Some("unknown field "), Some(name)) => {
            let field = shortened(&format!("{name:?}"));
            ConfigError::Unknown { field, nearest: nearest(name, parts.skip(1).step_by(2)) }
        }
        (Some("duplicate field "), Some(name)) => ConfigError::Duplicate { field: name.to_owned() },
        _ => ConfigError::NotJson { reason: message.to_owned() },
    }
}

/// Returns the known name that `given` was probably meant to be.
fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let given: String = given.chars().take(64).map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect();
    let (edits, name) = known.map(|name| (strsim::levenshtein(&given, name), name)).min_by_key(|(edits, _)| *edits)?;
    (edits <= 1 + name.len() / 5).then(|| name.to_owned())
}
