//! JSON with its keys in the order in which services and clients write them.
//!
//! `serde_json` sorts keys unless a feature that would change the whole workspace is on, and a body whose `role` comes
//! after its `content` is not what a decoder meets in the field. Known keys come first, in the order of one list that
//! fits all formats; the rest follow by name.

use serde_json::Value;

/// The order of the keys that matter to a reader that goes from left to right.
const ORDER: [&str; 34] = [
    "jsonrpc",
    "type",
    "sequence_number",
    "id",
    "kind",
    "object",
    "method",
    "created",
    "created_at",
    "model",
    "system",
    "index",
    "output_index",
    "item_id",
    "content_index",
    "role",
    "name",
    "arguments",
    "messages",
    "contents",
    "message",
    "content",
    "parts",
    "response",
    "delta",
    "text",
    "choices",
    "candidates",
    "output",
    "stop_reason",
    "finish_reason",
    "usage",
    "stream",
    "tools",
];

/// A value as compact JSON.
pub fn text(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            list(out, ['[', ']'], items.iter(), write);
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            // Stable: keys of equal rank stay sorted by name.
            fields.sort_by_key(|(key, _)| ORDER.iter().position(|known| known == key).unwrap_or(ORDER.len()));
            list(out, ['{', '}'], fields.into_iter(), |(key, value), out| {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write(value, out);
            });
        }
        plain => out.push_str(&plain.to_string()),
    }
}

fn list<T>(out: &mut String, ends: [char; 2], items: impl Iterator<Item = T>, each: impl Fn(T, &mut String)) {
    out.push(ends[0]);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        each(item, out);
    }
    out.push(ends[1]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_come_in_the_order_of_the_services_and_nothing_is_lost() {
        let value =
            json!({"zeta": [1, "two\n", null], "content": "x", "role": "user", "alpha": {"b": 1.5, "type": "t"}});
        let written = text(&value);
        assert_eq!(written, r#"{"role":"user","content":"x","alpha":{"type":"t","b":1.5},"zeta":[1,"two\n",null]}"#);
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), value);
    }
}
