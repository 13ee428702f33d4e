//! Actions of agents that act in text: the model writes what it wants to do into its answer, and the next message brings the
//! result.
//!
//! Such an action is a code block between lines of three backticks, or a paragraph that begins with `Action:`, possibly with
//! a number (`Action 3:`). Only the action identifies the call: what the model writes around it may be phrased differently
//! each time.
//!
//! Known inaccuracy: an answer that does not begin with an action, and whose last 128 bytes have neither a backtick nor a
//! colon, is taken for prose.

use memchr::memchr2;

use super::failure::begins_with;
use super::json::Json;
use super::text::find;
use crate::fingerprint::hash::mix;
use crate::fingerprint::hash_bytes;
use crate::turn::ToolSignature;

const FENCE: &[u8] = b"```";

/// Returns the action in the content of a model's message, if there is one.
pub fn action_in(content: Json<'_>) -> Option<ToolSignature> {
    if let Some(text) = content.string() {
        return action_in_text(text.raw());
    }
    for block in content.elements().flatten() {
        let text = block.get("text").ok().flatten().and_then(Json::string);
        if let Some(action) = text.and_then(|text| action_in_text(text.raw())) {
            return Some(action);
        }
    }
    None
}

/// How many bytes at the end of an answer are looked at first.
const TAIL_BYTES: usize = 128;

/// Finds an action in the inside of a JSON string.
#[inline(never)] // compiled once
fn action_in_text(raw: &[u8]) -> Option<ToolSignature> {
    if matches!(raw.first(), Some(b'A' | b'a' | b'*' | b'#' | b' '))
        && let Some(action) = labelled(raw)
    {
        return Some(action);
    }
    // Most answers are prose, in which one look at the end is enough.
    let tail = raw.last_chunk::<TAIL_BYTES>().map_or(raw, |tail| tail);
    find_either(b'`', b':', tail)?;
    let mut at = 0;
    loop {
        at += find_either(b'`', b'\\', raw.get(at..)?)?;
        let from = raw.get(at..)?;
        if let Some(code) = from.strip_prefix(FENCE) {
            return Some(ToolSignature::new(hash_blocks(code)));
        }
        if let Some(action) = from.strip_prefix(b"\\n").and_then(labelled) {
            return Some(action);
        }
        // An escaped backslash is not the beginning of another escape.
        at += if from.starts_with(b"\\") { 2 } else { 1 };
    }
}

/// Returns the action of a line that begins with the word `Action`, possibly with a number, and a colon.
#[inline(never)] // compiled once
fn labelled(line: &[u8]) -> Option<ToolSignature> {
    const LABEL: &[u8] = b"action";
    // Some models write the label in bold.
    let line = without_start(line, |byte| matches!(byte, b' ' | b'*' | b'#'));
    if !begins_with(line, LABEL) {
        return None;
    }
    let rest = line.get(LABEL.len()..)?;
    let action = without_start(rest, |byte| byte.is_ascii_digit() || byte == b' ').strip_prefix(b":")?;
    Some(ToolSignature::new(hash_bytes(paragraph(action))))
}

#[inline(never)] // compiled once
fn find_either(one: u8, other: u8, text: &[u8]) -> Option<usize> {
    memchr2(one, other, text)
}

#[inline(never)] // compiled once
fn without_start(text: &[u8], is_start: fn(u8) -> bool) -> &[u8] {
    let start = text.iter().position(|&byte| !is_start(byte)).unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

/// Returns the text up to the first empty line.
fn paragraph(text: &[u8]) -> &[u8] {
    text.get(..find(text, b"\\n\\n").unwrap_or(text.len())).unwrap_or_default().trim_ascii()
}

/// Hashes the code blocks of a text that begins inside the first one.
fn hash_blocks(code: &[u8]) -> u64 {
    let (mut hash, mut rest, mut is_code) = (0, code, true);
    loop {
        let (part, after) = rest.split_at(find(rest, FENCE).unwrap_or(rest.len()));
        if is_code {
            hash = mix(hash ^ hash_bytes(part));
        }
        let Some(after) = after.strip_prefix(FENCE) else { return hash };
        (rest, is_code) = (after, !is_code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(text: &str) -> Option<ToolSignature> {
        let quoted = serde_json::Value::from(text).to_string();
        let raw = Json::root(quoted.as_bytes()).unwrap().string().unwrap();
        action_in_text(raw.raw())
    }

    #[test]
    fn the_words_around_an_action_do_not_matter() {
        for (one, other) in [
            (
                "I will list the files.\n```bash\nls -la\n```",
                "Let me look: what is there?\n```bash\nls -la\n```\nThen I go on.",
            ),
            ("Thought: hm\nAction: search[cats]", "Thought: it is: clear\nAction: search[cats]\n\nThat will help."),
            ("Action 1: look", "Thought 2: again\nAction 2: look"),
            ("**Action:** look", "Fine.\n**Action:** look"),
            ("```\na\n``` and ```\nb\n```", "```\na\n``` or ```\nb\n```"),
        ] {
            assert!(action(one).is_some(), "{one}");
            assert_eq!(action(one), action(other), "{one} | {other}");
        }
    }

    #[test]
    fn different_actions_differ() {
        for (one, other) in [
            ("```\nls\n```", "```\nls -a\n```"),
            ("Action: search[cats]", "Action: search[dogs]"),
            ("```\na\n``` ```\nb\n```", "```\na\n``` ```\nc\n```"),
            ("Action: edit\nAction Input: one", "Action: edit\nAction Input: two"),
        ] {
            assert_ne!(action(one), action(other), "{one} | {other}");
        }
    }

    #[test]
    fn ordinary_answers_contain_no_action() {
        for text in ["", "Hello: how are you?", "`ls` lists files", "The next action: wait", "Reaction: none", ":", "`"]
        {
            assert_eq!(action(text), None, "{text}");
        }
    }
}
