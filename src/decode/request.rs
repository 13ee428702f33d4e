//! A request's body to a [`Turn`].

use super::conversation;
use super::format::{Asked, Fields, by_path, choose, is_no_call};
use super::json::{Json, MembersBack, without_mark};
use super::messages::Messages;
use super::text::{push_content, push_json};
use super::tools::{ToolCalls, add_call};
use crate::fingerprint::Fingerprinter;
use crate::scan::Malformed;
use crate::turn::{Format, ToolTurn, Turn, Unreadable};
use crate::wire::Counting;

impl From<Malformed> for Unreadable {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Reads what a request brings. `path` may carry a query.
pub fn request(path: &[u8], body: &[u8], counting: Counting, text: &mut Fingerprinter) -> Result<Turn, Unreadable> {
    let body = without_mark(body).trim_ascii();
    if body.is_empty() {
        return Err(Unreadable::Empty);
    }
    // No path is both, and most are known: that is asked first.
    let format = by_path(path);
    if format.is_none() && is_no_call(path) {
        return Err(Unreadable::NotACall);
    }
    let turn = match Json::root(body) {
        Ok(root) => json(format, root, counting, text),
        Err(Malformed) if body.starts_with(b"{") || body.starts_with(b"[") => Err(Malformed.into()),
        Err(Malformed) => {
            text.push(body);
            Ok(Turn { format: Format::Other, ..Turn::default() })
        }
    };
    // Finished in any case, so that what was read of a bad body does not leak into the next text.
    let input = text.finish();
    turn.map(|turn| Turn { input, ..turn })
}

/// Reads what a request brings off the last bytes of its body, which is where it is in a long conversation. Nothing where
/// they do not tell: then all of the body must be read.
pub fn end_of_request(path: &[u8], end: &[u8], counting: Counting, text: &mut Fingerprinter) -> Option<Turn> {
    let format = by_path(path)?;
    let messages = Messages::at_end_of(MembersBack::at_end_of(end)?)?;
    let mut turn = Turn { format, ..Turn::default() };
    let read = conversation(messages, counting, &mut turn, text);
    let input = text.finish();
    read.is_ok().then_some(Turn { input, ..turn })
}

/// `told` is the format that the path tells.
fn json(
    told: Option<Format>,
    root: Json<'_>,
    counting: Counting,
    text: &mut Fingerprinter,
) -> Result<Turn, Unreadable> {
    // The common case: the path tells the format, and the end of the body tells what is new.
    if let Some(format) = told
        && let Some(messages) = Messages::at_end_of(root.members_back())
    {
        let mut turn = Turn { format, ..Turn::default() };
        conversation(messages, counting, &mut turn, text)?;
        return Ok(turn);
    }
    let fields = Fields::read(root)?;
    let format = choose(told, &fields);
    let mut turn = Turn { format, ..Turn::default() };
    match format {
        Format::Mcp => call(fields.params, &mut turn, text)?,
        Format::A2a => message(fields.params, text)?,
        Format::Other if fields.json_rpc => return Err(Unreadable::NotACall),
        Format::Other => push_json(root, text)?,
        _ => match fields.asked() {
            Some(Asked::Messages(messages)) if messages.is_array() || messages.is_object() => {
                conversation(Messages::of(messages), counting, &mut turn, text)?;
            }
            Some(Asked::Messages(words)) => push_content(words, text)?,
            Some(Asked::Prompt(prompt)) => {
                if let Some(images) = fields.images.filter(|images| !images.is_null()) {
                    text.push_opaque(images.text());
                }
                push_content(prompt, text)?;
            }
            None => push_json(root, text)?,
        },
    }
    Ok(turn)
}

fn conversation(
    messages: Messages<'_>,
    counting: Counting,
    turn: &mut Turn,
    text: &mut Fingerprinter,
) -> Result<(), Malformed> {
    let fresh = conversation::read(messages, counting, text)?;
    if fresh.has_results || counting == Counting::Literal {
        turn.tools = fresh.calls.signature().map_or(ToolTurn::None, ToolTurn::Results);
    }
    turn.tool_names = fresh.calls.into_names();
    Ok(())
}

/// MCP `tools/call`: the call is the request, and its result will be the answer.
fn call(params: Option<Json<'_>>, turn: &mut Turn, text: &mut Fingerprinter) -> Result<(), Malformed> {
    let Some(params) = params else { return Ok(()) };
    for value in params.pick(["name", "arguments"])?.into_iter().flatten() {
        push_json(value, text)?;
        text.end_part();
    }
    let mut calls = ToolCalls::default();
    add_call(params, &mut calls)?;
    turn.tools = calls.signature().map_or(ToolTurn::None, ToolTurn::Call);
    turn.tool_names = calls.into_names();
    Ok(())
}

/// A2A `message/send`: the parts of one message.
fn message(params: Option<Json<'_>>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    let message = params.map_or(Ok(None), |params| params.get("message"))?;
    let parts = message.map_or(Ok(None), |message| message.get("parts"))?;
    parts.map_or(Ok(()), |parts| push_content(parts, text))
}
