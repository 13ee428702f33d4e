//! An answer of a model, independent of any API.
//!
//! The same type is a script entry, the value of the `x-lab-script` header, and what a client has read from a response.
//! Every field has a default, so that a script names only what it needs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One answer, and how it is to be delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Answer {
    /// The HTTP status. From 400 on the answer is an error in the API's own shape, with `text` as its message.
    pub status: u16,
    pub text: String,
    /// The tools that the model calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The delay before the first byte.
    pub delay_ms: u64,
    /// The delay before each further piece of a stream.
    pub piece_delay_ms: u64,
    /// If not empty, the answer waits at this gate until [`crate::MockLlm::open`] opens it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gate: String,
    /// Where in the answer the gate is.
    pub gate_at: GateAt,
    /// The number of pieces in which a text is streamed; 0 for a word at a time.
    pub pieces: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trailers: Vec<(String, String)>,
    /// Whether the body is gzip, whatever the client accepts.
    pub gzip: bool,
    /// Cuts the connection after this many pieces of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_after: Option<usize>,
    /// Replaces the body that the API would send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

/// Where an answer waits at its gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateAt {
    /// Before anything is sent.
    Start,
    /// After the first piece of the body.
    #[default]
    FirstPiece,
    /// After the last piece of the body: everything was sent, but the body has not ended.
    End,
}

/// A tool call of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id; if it is empty, the server makes one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub arguments: Value,
}

impl Default for Answer {
    fn default() -> Answer {
        Answer {
            status: 200,
            text: String::new(),
            tool_calls: Vec::new(),
            delay_ms: 0,
            piece_delay_ms: 0,
            gate: String::new(),
            gate_at: GateAt::default(),
            pieces: 0,
            headers: Vec::new(),
            trailers: Vec::new(),
            gzip: false,
            cut_after: None,
            raw: None,
        }
    }
}

impl Answer {
    /// Creates an answer that is only text.
    pub fn text(text: impl Into<String>) -> Answer {
        Answer { text: text.into(), ..Answer::default() }
    }

    /// Creates an answer of one tool call and no text.
    pub fn call(name: impl Into<String>, arguments: Value) -> Answer {
        Answer { tool_calls: vec![ToolCall::new(name, arguments)], ..Answer::default() }
    }

    /// Creates an error of the upstream.
    pub fn error(status: u16, message: impl Into<String>) -> Answer {
        Answer { status, text: message.into(), ..Answer::default() }
    }

    /// Gives ids to the tool calls that have none.
    #[must_use]
    pub fn with_ids(mut self) -> Answer {
        for call in self.tool_calls.iter_mut().filter(|call| call.id.is_empty()) {
            call.id = crate::fresh::id("call_", 24);
        }
        self
    }

    pub fn is_error(&self) -> bool {
        self.status >= 400
    }

    /// Returns the text in the pieces in which it is streamed.
    pub fn text_pieces(&self) -> Vec<&str> {
        if self.text.is_empty() {
            return Vec::new();
        }
        if self.pieces == 0 {
            return self.text.split_inclusive(' ').collect();
        }
        let starts: Vec<usize> = self.text.char_indices().map(|(start, _)| start).collect();
        let per_piece = starts.len().div_ceil(self.pieces);
        let mut cuts: Vec<usize> = starts.into_iter().step_by(per_piece).collect();
        cuts.push(self.text.len());
        cuts.windows(2).map(|cut| &self.text[cut[0]..cut[1]]).collect()
    }

    /// Returns the answer as the value of an `x-lab-script` header: JSON in ASCII.
    pub fn to_header(&self) -> String {
        let json = serde_json::to_string(self).expect("an answer is always JSON");
        json.chars().fold(String::with_capacity(json.len()), |mut ascii, letter| {
            if letter.is_ascii() {
                ascii.push(letter);
            } else {
                let mut units = [0; 2];
                ascii.extend(letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
            }
            ascii
        })
    }
}

impl ToolCall {
    /// Creates a call whose id the server makes.
    pub fn new(name: impl Into<String>, arguments: Value) -> ToolCall {
        ToolCall { id: String::new(), name: name.into(), arguments }
    }

    /// Returns the arguments as the string of JSON that OpenAI's formats carry.
    pub fn arguments_text(&self) -> String {
        self.arguments.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pieces_joined_are_the_text_however_it_is_cut() {
        for text in ["", "word", "Grüße aus Köln, 東京 and back", "  spaces  kept "] {
            for pieces in 0..8 {
                let answer = Answer { pieces, ..Answer::text(text) };
                assert_eq!(answer.text_pieces().concat(), text, "{pieces} pieces");
            }
        }
    }

    #[test]
    fn a_header_value_is_ascii_and_reads_back() {
        let answer = Answer { text: "東京 😀 \"quoted\"\n".into(), ..Answer::call("search", json!({"q": "ü"})) };
        let header = answer.to_header();
        assert!(header.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{header}");
        assert_eq!(serde_json::from_str::<Answer>(&header).unwrap(), answer);
    }

    #[test]
    fn a_script_may_leave_out_fields_but_not_invent_them() {
        let answer: Answer = serde_json::from_str(r#"{"text":"hi"}"#).unwrap();
        assert_eq!(answer, Answer::text("hi"));
        assert!(serde_json::from_str::<Answer>(r#"{"txt":"hi"}"#).is_err());
    }
}
