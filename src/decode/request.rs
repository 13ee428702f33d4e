//! Decodes the body of a request into a [`Turn`].

use super::conversation;
use super::format::{Fields, RequestInput, by_path, choose, is_not_a_call};
use super::json::{Json, MembersBack, without_byte_order_mark};
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

/// Decodes a request. `path` may have a query. `text` must be finished, and is finished again afterwards.
pub fn request(path: &[u8], body: &[u8], counting: Counting, text: &mut Fingerprinter) -> Result<Turn, Unreadable> {
    let body = without_byte_order_mark(body).trim_ascii();
    if body.is_empty() {
        return Err(Unreadable::Empty);
    }
    // Most paths are those of calls, so they are looked up first. No path is in both lists.
    let format = by_path(path);
    if format.is_none() && is_not_a_call(path) {
        return Err(Unreadable::NotACall);
    }
    let turn = match Json::root(body) {
        Ok(root) => decode_json(format, root, counting, text),
        Err(Malformed) if body.starts_with(b"{") || body.starts_with(b"[") => Err(Malformed.into()),
        Err(Malformed) => {
            text.push(body);
            Ok(Turn { format: Format::Other, ..Turn::default() })
        }
    };
    // Finished even after an error, so that the text of a malformed body does not become part of the next text.
    let input = text.finish();
    turn.map(|turn| Turn { input, ..turn })
}

/// Decodes a request from the last bytes of its body, where the new messages of a long conversation are. Returns `None` if
/// these bytes are not enough; the whole body must then be read.
pub fn end_of_request(path: &[u8], end: &[u8], counting: Counting, text: &mut Fingerprinter) -> Option<Turn> {
    let format = by_path(path)?;
    let messages = Messages::at_end_of(MembersBack::at_end_of(end)?)?;
    let mut turn = Turn { format, ..Turn::default() };
    let read = decode_conversation(messages, counting, &mut turn, text);
    let input = text.finish();
    read.is_ok().then_some(Turn { input, ..turn })
}

fn decode_json(
    of_path: Option<Format>,
    root: Json<'_>,
    counting: Counting,
    text: &mut Fingerprinter,
) -> Result<Turn, Unreadable> {
    // The common case: the path is known, and the messages are near the end of the body.
    if let Some(format) = of_path
        && let Some(messages) = Messages::at_end_of(root.members_back())
    {
        let mut turn = Turn { format, ..Turn::default() };
        decode_conversation(messages, counting, &mut turn, text)?;
        return Ok(turn);
    }
    let fields = Fields::read(root)?;
    let format = choose(of_path, &fields);
    let mut turn = Turn { format, ..Turn::default() };
    match format {
        Format::Mcp => decode_mcp_call(fields.params, &mut turn, text)?,
        Format::A2a => decode_a2a_message(fields.params, text)?,
        Format::Other if fields.json_rpc => return Err(Unreadable::NotACall),
        Format::Other => push_json(root, text)?,
        _ => match fields.request_input() {
            Some(RequestInput::Messages(messages)) if messages.is_array() || messages.is_object() => {
                decode_conversation(Messages::of(messages), counting, &mut turn, text)?;
            }
            Some(RequestInput::Messages(content)) => push_content(content, text)?,
            Some(RequestInput::Prompt(prompt)) => {
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

fn decode_conversation(
    messages: Messages<'_>,
    counting: Counting,
    turn: &mut Turn,
    text: &mut Fingerprinter,
) -> Result<(), Malformed> {
    let tools = conversation::read(messages, counting, text)?;
    if tools.has_results || counting == Counting::Literal {
        turn.tools = tools.calls.signature().map_or(ToolTurn::None, ToolTurn::Results);
    }
    turn.tool_names = tools.calls.into_names();
    Ok(())
}

/// Decodes `tools/call` of MCP. The request itself is the tool call, and its answer will be the result.
fn decode_mcp_call(params: Option<Json<'_>>, turn: &mut Turn, text: &mut Fingerprinter) -> Result<(), Malformed> {
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

/// Decodes `message/send` of A2A: the parts of one message.
fn decode_a2a_message(params: Option<Json<'_>>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    let message = params.map_or(Ok(None), |params| params.get("message"))?;
    let parts = message.map_or(Ok(None), |message| message.get("parts"))?;
    parts.map_or(Ok(()), |parts| push_content(parts, text))
}
