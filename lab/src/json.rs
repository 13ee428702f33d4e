//! JSON with its keys in the order in which services and clients write them.
//!
//! `serde_json` sorts keys unless a feature is enabled that would change the whole workspace, and real bodies do not have
//! `content` before `role`. Known keys come first, in the order of one list that fits all formats; others follow by name.

use serde::{Serialize, Serializer};
use serde_json::Value;

/// The order of the keys that matter to a decoder that reads from left to right.
#[rustfmt::skip]
const ORDER: [&str; 34] = [
    "jsonrpc", "type", "sequence_number", "id", "kind", "object", "method", "created", "created_at", "model", "system",
    "index", "output_index", "item_id", "content_index", "role", "name", "arguments", "messages", "contents", "message",
    "content", "parts", "response", "delta", "text", "choices", "candidates", "output", "stop_reason", "finish_reason",
    "usage", "stream", "tools",
];

/// Returns a value as compact JSON.
pub fn text(value: &Value) -> String {
    serde_json::to_string(&Ordered(value)).expect("a JSON value can be written")
}

struct Ordered<'a>(&'a Value);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(Ordered)),
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().map(|(key, value)| (key, Ordered(value))).collect();
                // The sort is stable: unknown keys stay sorted by name.
                fields.sort_by_key(|(key, _)| ORDER.iter().position(|known| known == key).unwrap_or(ORDER.len()));
                serializer.collect_map(fields)
            }
            scalar => scalar.serialize(serializer),
        }
    }
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
