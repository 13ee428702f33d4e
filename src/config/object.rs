//! A JSON object whose member names are all known and given once, read field by field.
//!
//! Each reader checks type and bounds and names the field by its whole path (`agent_id[1].header`). A field that is
//! null counts as not given: templating tools write that for "leave the default".

use super::error::ConfigError;
use super::fields::{Choice, Field, Flag, List, TOKEN, Text, Whole, nearest};
use super::json::Json;
use std::fmt;

/// One object, and where in the configuration it stands.
pub(super) struct Object<'a> {
    /// What precedes a field's name in messages: nothing at the top, `agent_id[1].` further down.
    prefix: String,
    members: &'a [(String, Json)],
}

impl<'a> Object<'a> {
    /// The whole configuration.
    pub fn top(json: &'a Json, fields: &[Field]) -> Result<Self, ConfigError> {
        let Json::Object(members) = json else {
            return Err(invalid("the configuration", &json, "a JSON object"));
        };
        Self { prefix: String::new(), members }.checked(fields)
    }

    /// One item of a list of objects.
    pub fn item(list: &List, index: usize, json: &'a Json, fields: &[Field]) -> Result<Self, ConfigError> {
        let place = format!("{}[{index}]", list.name);
        let Json::Object(members) = json else {
            return Err(invalid(&place, &json, "an object"));
        };
        Self { prefix: place + ".", members }.checked(fields)
    }

    fn checked(self, fields: &[Field]) -> Result<Self, ConfigError> {
        for (index, (name, _)) in self.members.iter().enumerate() {
            if !fields.iter().any(|field| field.name() == name) {
                let field = self.path(&Json::Text(name.clone()).to_string());
                return Err(ConfigError::Unknown { field, nearest: nearest(name, fields) });
            }
            if self.members.iter().take(index).any(|(earlier, _)| earlier == name) {
                return Err(ConfigError::Duplicate { field: self.path(name) });
            }
        }
        Ok(self)
    }

    /// A field's name with all that leads to it.
    pub fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn given(&self, name: &str) -> Option<&'a Json> {
        let (_, value) = self.members.iter().find(|(given, _)| given == name)?;
        (*value != Json::Null).then_some(value)
    }

    #[cold]
    fn refused(&self, name: &str, value: &Json, must: &str) -> ConfigError {
        match name == TOKEN.name {
            true => invalid(&self.path(name), &"hidden", must),
            false => invalid(&self.path(name), &value, must),
        }
    }

    /// The text, or the field's default, if it has one.
    pub fn text(&self, field: &Text) -> Result<Option<&'a str>, ConfigError> {
        match self.given(field.name) {
            None => Ok(field.default),
            Some(Json::Text(text)) if (field.fits)(text) => Ok(Some(text)),
            Some(other) => Err(self.refused(field.name, other, field.bounds)),
        }
    }

    /// The text, which must be given.
    pub fn required(&self, field: &Text) -> Result<&'a str, ConfigError> {
        let missing = || ConfigError::Missing { field: self.path(field.name), must: field.bounds.to_owned() };
        self.text(field)?.ok_or_else(missing)
    }

    /// The whole number, or the default. `8.0` is a whole number, too: a protobuf Struct knows no other kind.
    pub fn whole(&self, field: &Whole) -> Result<u32, ConfigError> {
        let bounds = f64::from(field.min)..=f64::from(field.max);
        match self.given(field.name) {
            None => Ok(field.default),
            Some(Json::Number(number)) if number.fract() == 0.0 && bounds.contains(number) => Ok(*number as u32),
            Some(other) => Err(self.refused(field.name, other, &field.bounds())),
        }
    }

    /// The value that stands for the word chosen. The values follow the order of the field's words.
    pub fn choice<T>(&self, field: &Choice, [default, other]: [T; 2]) -> Result<T, ConfigError> {
        Ok(if self.is_second(field)? { other } else { default })
    }

    // Apart from `choice`, so that it exists once and not once per type.
    fn is_second(&self, field: &Choice) -> Result<bool, ConfigError> {
        let [default, other] = field.words;
        match self.given(field.name) {
            None => Ok(false),
            Some(Json::Text(word)) if word == default => Ok(false),
            Some(Json::Text(word)) if word == other => Ok(true),
            Some(value) => Err(self.refused(field.name, value, &field.bounds())),
        }
    }

    /// The flag, or the default.
    pub fn flag(&self, field: &Flag) -> Result<bool, ConfigError> {
        match self.given(field.name) {
            None => Ok(field.default),
            Some(Json::Flag(flag)) => Ok(*flag),
            Some(other) => Err(self.refused(field.name, other, Flag::BOUNDS)),
        }
    }

    /// Whether the field is given at all.
    pub fn has(&self, name: &str) -> bool {
        self.given(name).is_some()
    }

    /// The list's items, if it is given.
    pub fn list(&self, field: &List) -> Result<Option<&'a [Json]>, ConfigError> {
        match self.given(field.name) {
            None => Ok(None),
            Some(Json::List(items)) if (field.min..=field.max).contains(&items.len()) => Ok(Some(items)),
            Some(other) => Err(self.refused(field.name, other, &field.bounds())),
        }
    }
}

/// A value that must be something else.
#[cold]
pub(super) fn invalid(field: &str, given: &dyn fmt::Display, must: &str) -> ConfigError {
    ConfigError::Invalid { field: field.to_owned(), given: given.to_string(), must: must.to_owned() }
}
