//! A request's body to a [`Turn`].

use super::conversation;
use super::format::{Fields, choose};
use super::json::{Json, Malformed};
use super::text::{push_content, push_json};
use super::tools::ToolCalls;
use crate::detect::fingerprint::Fingerprinter;
use crate::detect::window::ToolTurn;
use crate::turn::{Format, Turn, Unreadable};
use crate::wire::Counting;

/// Reads what a request brings. `path` may carry a query.
pub fn request(path: &[u8], body: &[u8], counting: Counting, text: &mut Fingerprinter) -> Result<Turn, Unreadable> {
    let body = body.trim_ascii();
    if body.is_empty() {
        return Err(Unreadable::Empty);
    }
    let turn = match Json::root(body) {
        Ok(root) => json(path, root, counting, text),
        Err(Malformed) if looks_like_json(body) => Err(Malformed.into()),
        Err(Malformed) => {
            text.push(body);
            Ok(Turn { format: Format::Other, ..Turn::default() })
        }
    };
    // Finished in any case, so that what was read of a bad body does not leak into the next text.
    let input = text.finish();
    turn.map(|turn| Turn { input, ..turn })
}

fn looks_like_json(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii_start();
    matches!(body.first(), Some(b'{' | b'['))
}

fn json(path: &[u8], root: Json<'_>, counting: Counting, text: &mut Fingerprinter) -> Result<Turn, Unreadable> {
    let fields = Fields::read(root)?;
    let format = choose(path, &fields);
    let mut turn = Turn { format, ..Turn::default() };
    match format {
        Format::Mcp => call(fields.params, &mut turn, text)?,
        Format::A2a => message(fields.params, text)?,
        Format::Other if fields.json_rpc => return Err(Unreadable::NotACall),
        Format::Other => push_json(root, text)?,
        _ => match fields.messages.or(fields.input).or(fields.contents).or(fields.prompt) {
            Some(messages) if messages.is_array() && fields.is_conversation() => {
                let fresh = conversation::read(messages, counting, text)?;
                turn.tool_names = fresh.calls.names().to_owned();
                if let Some(signature) =
                    fresh.calls.signature().filter(|_| fresh.has_results || counting == Counting::Literal)
                {
                    turn.tools = ToolTurn::Results(signature);
                }
            }
            Some(prompt) => push_content(prompt, text)?,
            None => push_json(root, text)?,
        },
    }
    Ok(turn)
}

/// MCP `tools/call`: the call is the request, and its result will be the answer.
fn call(params: Option<Json<'_>>, turn: &mut Turn, text: &mut Fingerprinter) -> Result<(), Malformed> {
    let Some(params) = params else { return Ok(()) };
    let mut calls = ToolCalls::default();
    for member in params.members() {
        let (name, value) = member?;
        if name.is("name") || name.is("arguments") {
            push_json(value, text)?;
            text.part();
        }
    }
    conversation::add_call(params, &mut calls)?;
    turn.tool_names = calls.names().to_owned();
    turn.tools = calls.signature().map_or(ToolTurn::None, ToolTurn::Call);
    Ok(())
}

/// A2A `message/send`: the parts of one message.
fn message(params: Option<Json<'_>>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    let parts = match params.map(|params| params.get("message")).transpose()?.flatten() {
        Some(message) => message.get("parts")?,
        None => None,
    };
    parts.map_or(Ok(()), |parts| push_content(parts, text))
}
