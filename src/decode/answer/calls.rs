//! Tool calls that arrive in parts: the name first, then the arguments a few characters at a time.

use crate::decode::conversation::add_call;
use crate::decode::json::{Json, Malformed};
use crate::decode::tools::ToolCalls;
use crate::decode::unescape::unescape;
use crate::detect::window::ToolSignature;

/// Calls gathered at once.
const CALLS_MAX: usize = 64;
/// Bytes of arguments gathered for one call; what is longer is told apart by its beginning.
const ARGUMENTS_MAX: usize = 64 * 1024;

/// The calls of one answer.
#[derive(Clone, Debug, Default)]
pub struct CallsInParts {
    whole: ToolCalls,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, Default)]
struct Part {
    key: Vec<u8>,
    name: Vec<u8>,
    arguments: Vec<u8>,
}

impl CallsInParts {
    /// Adds a call that came in one piece.
    pub fn add_whole(&mut self, call: Json<'_>) -> Result<(), Malformed> {
        add_call(call, &mut self.whole)
    }

    /// Adds to the name and the arguments of the call with this key, each where given.
    pub fn add_part(
        &mut self,
        key: Option<Json<'_>>,
        name: Option<Json<'_>>,
        arguments: Option<Json<'_>>,
    ) -> Result<(), Malformed> {
        let key = key.map_or(&b""[..], Json::text);
        let Some(part) = self.part(key) else { return Ok(()) };
        append(&mut part.name, name)?;
        append(&mut part.arguments, arguments)
    }

    fn part(&mut self, key: &[u8]) -> Option<&mut Part> {
        let index = match self.parts.iter().position(|part| part.key == key) {
            Some(index) => index,
            None if self.parts.len() < CALLS_MAX => {
                self.parts.push(Part { key: key.to_vec(), ..Part::default() });
                self.parts.len() - 1
            }
            None => return None,
        };
        self.parts.get_mut(index)
    }

    fn calls(&self) -> ToolCalls {
        let mut calls = self.whole.clone();
        for part in &self.parts {
            calls.add_text(&part.name, &part.arguments);
        }
        calls
    }

    /// Identifies all calls.
    pub fn signature(&self) -> Option<ToolSignature> {
        self.calls().signature()
    }

    /// Their names, for people.
    pub fn names(&self) -> String {
        self.calls().names().to_owned()
    }
}

/// Appends a string's text, or other JSON as it stands.
fn append(to: &mut Vec<u8>, value: Option<Json<'_>>) -> Result<(), Malformed> {
    let mut add = |piece: &[u8]| {
        let room = ARGUMENTS_MAX - to.len();
        to.extend(piece.iter().take(room));
    };
    match value {
        None => Ok(()),
        Some(value) => match value.string() {
            Some(string) => unescape(string.raw(), add),
            None if value.text() == b"null" => Ok(()),
            None => {
                add(value.text());
                Ok(())
            }
        },
    }
}
