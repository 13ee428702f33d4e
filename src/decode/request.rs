//! Decodes the body of a request into a [`Turn`].

use super::conversation;
use super::format::{Fields, RequestInput, by_path, choose, is_not_a_call};
use super::json::{Json, MembersBack, without_byte_order_mark};
use super::messages::Messages;
use super::session::{BodyMembers, ConversationFinder};
use super::text::{push_content, push_json};
use super::tools::{ToolCalls, add_call};
use crate::fingerprint::Fingerprinter;
use crate::scan::Malformed;
use crate::turn::{Conversation, Format, ToolTurn, Turn, Unreadable};
use crate::wire::Counting;

impl From<Malformed> for Unreadable {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// How requests are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading<'a> {
    /// How repeats are counted. Each way looks at other parts of a conversation.
    pub counting: Counting,
    /// Whether a body of an unknown API is compared as a whole. If not, it is not a call.
    pub judge_unknown: bool,
    /// The members of a body that may hold the id of its conversation.
    pub session: BodyMembers<'a>,
    /// Whether a conversation without an id is known by its first user message.
    pub find_opening: bool,
    /// Whether the id of a tool call is part of the text of a result that quotes it. Only `replay` sets this.
    pub keep_quoted_ids: bool,
}

impl Reading<'_> {
    /// Reads requests as a filter without configuration does, except that it knows no ids of conversations.
    pub fn new(counting: Counting) -> Self {
        Self { counting, find_opening: true, ..Self::default() }
    }

    /// Whether the start of a body must be read to find its conversation.
    fn needs_start(&self) -> bool {
        self.finds_opening() || !self.session.is_empty()
    }

    /// Literal counting knows no conversations except by their ids.
    fn finds_opening(&self) -> bool {
        self.find_opening && self.counting == Counting::Progress
    }

    fn finish(&self, finder: ConversationFinder<'_>, has_history: bool) -> Conversation {
        match finder.finish(has_history) {
            Conversation::Continued { .. } | Conversation::New { .. } if !self.finds_opening() => {
                Conversation::default()
            }
            conversation => conversation,
        }
    }
}

/// Decodes a request. `path` may have a query. `text` must be finished, and is finished again afterwards.
pub fn request(path: &[u8], body: &[u8], reading: Reading<'_>, text: &mut Fingerprinter) -> Result<Turn, Unreadable> {
    let body = without_byte_order_mark(body).trim_ascii();
    if body.is_empty() {
        return Err(Unreadable::Empty);
    }
    // Most paths are those of calls, so they are looked up first. No path is in both lists.
    let format = by_path(path);
    if format.is_none() && is_not_a_call(path) {
        return Err(Unreadable::NotACall);
    }
    // Filled in place, since a turn is too long to be moved often.
    let mut turn = Turn::default();
    let read = match Json::root(body) {
        Ok(root) => decode_json(format, root, reading, &mut turn, text),
        Err(Malformed) if body.starts_with(b"{") || body.starts_with(b"[") => Err(Malformed.into()),
        // At the path of a call, a body that is not JSON is a call that cannot be read.
        Err(Malformed) if !reading.judge_unknown && format.is_some() => Err(Malformed.into()),
        Err(Malformed) if !reading.judge_unknown => Err(Unreadable::NotACall),
        Err(Malformed) => {
            text.push(body);
            Ok(())
        }
    };
    // Finished even after an error, so that the text of a malformed body does not become part of the next text.
    turn.input = text.finish();
    read.map(|()| turn)
}

/// How many bytes of the start of a long body are fetched to find its conversation. Usually the first are enough.
const START_BYTES: [usize; 2] = [4 << 10, 64 << 10];

/// Decodes a request from the last bytes of its body, where the new messages of a long conversation are. `start` fetches
/// its first bytes, where the conversation begins. Returns `None` if both are not enough; the whole body must then be read.
pub fn end_of_request(
    path: &[u8],
    end: &[u8],
    start: impl Fn(usize) -> Vec<u8>,
    reading: Reading<'_>,
    text: &mut Fingerprinter,
) -> Option<Turn> {
    let format = by_path(path)?;
    let mut finder = ConversationFinder::new(reading.session);
    let mut messages = Messages::at_end_of(MembersBack::at_end_of(end)?, &mut |name, value| finder.take(name, value))?;
    let mut turn = Turn { format, ..Turn::default() };
    let read = decode_conversation(&mut messages, &reading, &mut turn, text);
    let input = text.finish();
    let has_history = read.ok()?;
    if reading.needs_start() {
        // What was found in a start that is too short may have been cut.
        let read_start = |&bytes: &usize| {
            let mut finder = finder.clone();
            finder.read_start(&start(bytes)).is_ok().then_some(finder)
        };
        finder = START_BYTES.iter().find_map(read_start)?;
    }
    Some(Turn { input, conversation: reading.finish(finder, has_history), ..turn })
}

fn decode_json(
    of_path: Option<Format>,
    root: Json<'_>,
    reading: Reading<'_>,
    turn: &mut Turn,
    text: &mut Fingerprinter,
) -> Result<(), Unreadable> {
    if root.is_array() && (!reading.judge_unknown || has_json_rpc(root)) {
        return decode_batch(root, reading, turn, text);
    }
    let mut finder = ConversationFinder::new(reading.session);
    // The common case: the path is known, and the messages are near the end of the body.
    if let Some(format) = of_path
        && let Some(mut messages) =
            Messages::at_end_of(root.members_back(), &mut |name, value| finder.take(name, value))
    {
        turn.format = format;
        let has_history = decode_conversation(&mut messages, &reading, turn, text)?;
        if reading.needs_start() {
            // A conversation without a user message has no opening.
            let _ = finder.read_start(root.text());
        }
        turn.conversation = reading.finish(finder, has_history);
        return Ok(());
    }
    let fields = Fields::read(root, &mut |name, value| finder.take(name, value))?;
    turn.format = choose(of_path, &fields);
    let mut has_history = false;
    match turn.format {
        Format::Mcp => decode_mcp_call(fields.params, turn, text)?,
        Format::A2a => decode_a2a_message(fields.params, text)?,
        Format::Other if fields.json_rpc || !reading.judge_unknown => return Err(Unreadable::NotACall),
        Format::Other => push_json(root, text)?,
        _ => match fields.request_input() {
            Some(input) if is_about_loading(turn.format, input, &fields) => return Err(Unreadable::NotACall),
            Some(RequestInput::Messages(messages)) if messages.is_array() || messages.is_object() => {
                has_history = decode_conversation(&mut Messages::of(messages), &reading, turn, text)?;
                if reading.needs_start() {
                    let _ = finder.read_start(root.text());
                }
            }
            Some(RequestInput::Messages(content)) => push_content(content, text)?,
            Some(RequestInput::Prompt(prompt)) => {
                if let Some(images) = fields.images.filter(|images| !images.is_null()) {
                    text.push_opaque(images.text());
                }
                push_content(prompt, text)?;
            }
            None => return Err(Unreadable::NotACall),
        },
    }
    turn.conversation = reading.finish(finder, has_history);
    Ok(())
}

/// Returns whether a model of Ollama is to be loaded or unloaded.
fn is_about_loading(format: Format, input: RequestInput<'_>, fields: &Fields<'_>) -> bool {
    let is_ollama = matches!(format, Format::OllamaChat | Format::OllamaGenerate);
    is_ollama && input.is_empty() && fields.images.is_none()
}

fn has_json_rpc(list: Json<'_>) -> bool {
    list.elements().flatten().any(|element| matches!(element.get("jsonrpc"), Ok(Some(_))))
}

/// Decodes several JSON-RPC requests in one body. Those that are calls count together as one.
fn decode_batch(
    root: Json<'_>,
    reading: Reading<'_>,
    turn: &mut Turn,
    text: &mut Fingerprinter,
) -> Result<(), Unreadable> {
    let mut finder = ConversationFinder::new(reading.session);
    turn.is_batch = true;
    let mut calls = ToolCalls::default();
    for element in root.elements() {
        let fields = Fields::read(element?, &mut |name, value| finder.take(name, value))?;
        match choose(None, &fields) {
            Format::Mcp => {
                turn.format = Format::Mcp;
                add_mcp_call(fields.params, &mut calls, text)?;
            }
            Format::A2a => {
                turn.format = Format::A2a;
                decode_a2a_message(fields.params, text)?;
                text.end_part();
            }
            _ => {}
        }
    }
    if turn.format == Format::Other {
        return Err(Unreadable::NotACall);
    }
    turn.tools = calls.signature().map_or(ToolTurn::None, ToolTurn::Call);
    (turn.tool_hashes, turn.tool_names) = calls.into_parts();
    turn.conversation = reading.finish(finder, false);
    Ok(())
}

/// Decodes messages. Returns whether the model has spoken in them.
fn decode_conversation(
    messages: &mut Messages<'_>,
    reading: &Reading<'_>,
    turn: &mut Turn,
    text: &mut Fingerprinter,
) -> Result<bool, Malformed> {
    let tools = conversation::read(messages, turn.format, reading, text)?;
    turn.action = tools.action;
    if tools.has_results || reading.counting == Counting::Literal {
        turn.tools = tools.calls.signature().map_or(ToolTurn::None, ToolTurn::Results);
    }
    (turn.tool_hashes, turn.tool_names) = tools.calls.into_parts();
    Ok(tools.has_history)
}

/// Decodes `tools/call` of MCP. The request itself is the tool call, and its answer will be the result.
fn decode_mcp_call(params: Option<Json<'_>>, turn: &mut Turn, text: &mut Fingerprinter) -> Result<(), Malformed> {
    let mut calls = ToolCalls::default();
    add_mcp_call(params, &mut calls, text)?;
    turn.tools = calls.signature().map_or(ToolTurn::None, ToolTurn::Call);
    (turn.tool_hashes, turn.tool_names) = calls.into_parts();
    Ok(())
}

fn add_mcp_call(params: Option<Json<'_>>, calls: &mut ToolCalls, text: &mut Fingerprinter) -> Result<(), Malformed> {
    let Some(params) = params else { return Ok(()) };
    for value in params.pick(["name", "arguments"])?.into_iter().flatten() {
        push_json(value, text)?;
        text.end_part();
    }
    add_call(params, calls)
}

/// Decodes `message/send` of A2A: the parts of one message.
fn decode_a2a_message(params: Option<Json<'_>>, text: &mut Fingerprinter) -> Result<(), Malformed> {
    let message = params.map_or(Ok(None), |params| params.get("message"))?;
    let parts = message.map_or(Ok(None), |message| message.get("parts"))?;
    parts.map_or(Ok(()), |parts| push_content(parts, text))
}
