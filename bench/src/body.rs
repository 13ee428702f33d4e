//! The request bodies: chat requests of a shape and a size.

use std::fmt;

use agent_kill_switch::wire::Counting;

use crate::text::{base64, chinese, english};

/// The content of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// One long message.
    Message,
    /// A long history and a short last message.
    History,
    /// An image in the last message, in base64.
    Image,
    /// An agent's history of tool calls and their results.
    Tools,
    /// Like `Tools`, but with literal counting, which reads the whole body: its only user message is at the beginning.
    ToolsLiteral,
    /// One long message in Chinese.
    Chinese,
}

/// A shape and a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Body {
    pub shape: Shape,
    /// The size in KB of 1,024 bytes; the body may be a little smaller.
    pub kilobytes: usize,
}

/// The bodies on which the pipeline is measured.
pub const ALL: [Body; 16] = [
    Body { shape: Shape::Message, kilobytes: 1 },
    Body { shape: Shape::Message, kilobytes: 10 },
    Body { shape: Shape::Message, kilobytes: 100 },
    Body { shape: Shape::Message, kilobytes: 1024 },
    Body { shape: Shape::History, kilobytes: 1 },
    Body { shape: Shape::History, kilobytes: 10 },
    Body { shape: Shape::History, kilobytes: 100 },
    Body { shape: Shape::History, kilobytes: 1024 },
    Body { shape: Shape::Image, kilobytes: 10 },
    Body { shape: Shape::Image, kilobytes: 100 },
    Body { shape: Shape::Image, kilobytes: 1024 },
    Body { shape: Shape::Tools, kilobytes: 100 },
    Body { shape: Shape::Tools, kilobytes: 1024 },
    Body { shape: Shape::ToolsLiteral, kilobytes: 100 },
    Body { shape: Shape::ToolsLiteral, kilobytes: 1024 },
    Body { shape: Shape::Chinese, kilobytes: 100 },
];

pub const PATH: &str = "/v1/chat/completions";

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kilobytes {
            kilobytes if kilobytes % 1024 == 0 => write!(f, "{}, {} MB", self.shape, kilobytes / 1024),
            kilobytes => write!(f, "{}, {kilobytes} KB", self.shape),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message => "one message",
            Self::History => "history",
            Self::Image => "image",
            Self::Tools => "tool calls",
            Self::ToolsLiteral => "tool calls, read in full",
            Self::Chinese => "Chinese",
        })
    }
}

impl Body {
    /// Returns how its agent's repeats are counted.
    pub fn counting(&self) -> Counting {
        match self.shape {
            Shape::ToolsLiteral => Counting::Literal,
            _ => Counting::Progress,
        }
    }

    /// Returns the body. Bodies with different seeds have different texts, in particular in their last message.
    pub fn text(&self, seed: u64) -> String {
        let bytes = self.kilobytes * 1024;
        let room = bytes.saturating_sub(request("").len());
        request(&match self.shape {
            Shape::Message => message("user", &english(room - message("user", "").len(), seed)),
            Shape::Chinese => message("user", &chinese(room - message("user", "").len(), seed)),
            Shape::Image => image(room, seed),
            Shape::History => history(room, seed),
            Shape::Tools | Shape::ToolsLiteral => tools(room, seed),
        })
    }
}

fn request(messages: &str) -> String {
    format!(r#"{{"model":"gpt-4o","messages":[{messages}],"temperature":0.2,"stream":false}}"#)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn message(role: &str, text: &str) -> String {
    format!(r#"{{"role":"{role}","content":{}}}"#, quoted(text))
}

fn image(bytes: usize, seed: u64) -> String {
    let question = quoted(&english(80, seed));
    let with = |data: &str| {
        format!(
            r#"{{"role":"user","content":[{{"type":"text","text":{question}}},{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}]}}"#
        )
    };
    with(&base64(bytes - with("").len(), seed))
}

/// Returns the messages of a conversation that always begins in the same way, whatever the seed is.
///
/// The filter recognises a conversation by its first user message. If each seed began another conversation, a body that is
/// sent again would be the only request of its conversation, and would look like a loop.
fn history(bytes: usize, seed: u64) -> String {
    let last = message("user", &english(120, !seed));
    let mut messages = vec![
        message("system", "You are a helpful assistant."),
        message("user", &english(100, 0)),
        message("assistant", &english(100, 1)),
    ];
    let opening: usize = messages.iter().map(|message| message.len() + 1).sum();
    let mut left = bytes.saturating_sub(opening + last.len());
    for turn in 0u64.. {
        // The last two messages share the rest.
        let is_last = left < 2000;
        let spread = (seed.wrapping_add(turn).wrapping_mul(389) % 700) as usize;
        // Users write less than models.
        for (role, usual, share) in [("user", 60 + spread / 4, 2), ("assistant", 200 + spread, 1)] {
            let size = if is_last { left / share } else { usual };
            let room = size.saturating_sub(message(role, "").len() + 1);
            let next = message(role, &english(room, seed.wrapping_mul(31) ^ turn.wrapping_mul(2) ^ role.len() as u64));
            left = left.saturating_sub(next.len() + 1);
            messages.push(next);
        }
        if is_last {
            break;
        }
    }
    messages.push(last);
    messages.join(",")
}

fn tools(bytes: usize, seed: u64) -> String {
    let mut messages = vec![message("system", "You are a careful engineer."), message("user", &english(300, !seed))];
    let mut taken: usize = messages.iter().map(|message| message.len() + 1).sum();
    for call in 0u64.. {
        let arguments =
            serde_json::json!({"path": format!("src/{}.rs", english(14, seed ^ call).trim()), "line": call});
        let result = english(200 + (seed.wrapping_add(call).wrapping_mul(0x9E37_79B9) % 1500) as usize, seed ^ !call);
        let asked = format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"call_{call}","type":"function","function":{{"name":"read_file","arguments":{}}}}}]}}"#,
            quoted(&arguments.to_string())
        );
        let said = format!(r#"{{"role":"tool","tool_call_id":"call_{call}","content":{}}}"#, quoted(&result));
        taken += asked.len() + said.len() + 2;
        if taken > bytes {
            break;
        }
        messages.extend([asked, said]);
    }
    messages.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn bodies_are_json_of_the_size_asked_for() {
        for body in ALL {
            let text = body.text(3);
            let (len, size) = (text.len(), body.kilobytes * 1024);
            assert!(len <= size && len + size / 20 + 2000 > size, "{body}: {len} of {size}");
            let value: Value = serde_json::from_str(&text).expect("JSON");
            let last = value["messages"].as_array().and_then(|messages| messages.last()).expect("a message");
            let role = if matches!(body.shape, Shape::Tools | Shape::ToolsLiteral) { "tool" } else { "user" };
            assert_eq!(last["role"], role, "{body}");
        }
    }
}
