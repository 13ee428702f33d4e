//! The body of a message for Microsoft Teams: an Adaptive Card, as the webhooks of the Workflows app want it.
//!
//! All texts are text runs, because a text block would read Markdown in them, and a reason could then contain a link.

use serde_json::{Value, json};

use super::message::Message;

pub(super) fn body(message: &Message) -> Value {
    let mut blocks = vec![block(&[json!({
        "type": "TextRun", "text": message.subject, "weight": "Bolder", "size": "Medium",
    })])];
    for (label, value) in &message.details {
        let label = json!({"type": "TextRun", "text": format!("{label}: "), "weight": "Bolder"});
        blocks.push(block(&[label, json!({"type": "TextRun", "text": value})]));
    }
    let mut card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": message.subject,
        "body": blocks,
    });
    if let (Some(link), Some(card)) = (&message.link, card.as_object_mut()) {
        let open = json!([{"type": "Action.OpenUrl", "title": "Open the dashboard", "url": link}]);
        card.insert("actions".to_owned(), open);
    }
    let attachment = json!({
        "contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": null, "content": card,
    });
    json!({"type": "message", "attachments": [attachment]})
}

fn block(inlines: &[Value]) -> Value {
    json!({"type": "RichTextBlock", "inlines": inlines})
}
