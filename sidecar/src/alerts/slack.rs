//! The body of a message for Slack's incoming webhooks, with blocks. Services that are compatible with Slack and do not know
//! blocks show `text`.

use serde_json::{Value, json};

use super::message::Message;

/// The longest text of a header block, in characters.
const MAX_HEADER: usize = 150;
/// The longest text of a section block, in characters.
const MAX_SECTION: usize = 3_000;

pub(super) fn body(message: &Message) -> Value {
    let mut blocks = vec![json!({"type": "header", "text": plain(&message.subject, MAX_HEADER)})];
    let details: Vec<_> = message.details.iter().map(|(label, value)| format!("{label}: {value}")).collect();
    if !details.is_empty() {
        blocks.push(json!({"type": "section", "text": plain(&details.join("\n"), MAX_SECTION)}));
    }
    if let Some(link) = &message.link {
        let text = format!("<{}|Open the dashboard>", escape(link));
        blocks.push(json!({"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}));
    }
    json!({"text": text(message), "blocks": blocks})
}

/// A text in which Slack looks for no links, names or formatting. One that is too long would be refused.
fn plain(text: &str, max_chars: usize) -> Value {
    let text: String = text.chars().take(max_chars).collect();
    json!({"type": "plain_text", "text": text, "emoji": false})
}

/// Writes a message in Slack's syntax. Without the escapes, a reason could contain a link or notify a whole channel.
fn text(message: &Message) -> String {
    let mut lines = vec![format!("*{}*", escape(&message.subject))];
    lines.extend(message.lines().iter().map(|line| escape(line)));
    lines.join("\n")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
