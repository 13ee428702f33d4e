//! What the mock LLM is to answer, in no API's words.
//!
//! The same type serves as a script entry, as the value of the `x-lab-script` header, and as what a client has read
//! back. Every field has a default, so that a script names only what it cares about.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One answer, and how it is to be delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Answer {
    /// The HTTP status. From 400 on the answer is an error in the API's own shape, with `text` as its message.
    pub status: u16,
    /// What the model says.
    pub text: String,
    /// The tools that the model wants called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// How long the first byte takes.
    pub delay_ms: u64,
    /// How long each further piece of a stream takes.
    pub piece_delay_ms: u64,
    /// If not empty, only the first piece of the body is sent until [`crate::MockLlm::open`] opens this gate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gate: String,
    /// In how many pieces a streamed text arrives; 0: a word at a time.
    pub pieces: usize,
    /// Extra response headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Trailers after the body.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trailers: Vec<(String, String)>,
    /// Whether the body is gzip, whatever the client said that it accepts.
    pub gzip: bool,
    /// Cut the connection after so many pieces of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_after: Option<usize>,
    /// This body, as it stands, instead of one in the API's shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

/// A tool that the model wants called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id; empty: the server makes one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, an object.
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
    /// A text.
    pub fn text(text: impl Into<String>) -> Answer {
        Answer { text: text.into(), ..Answer::default() }
    }

    /// One tool call and no text.
    pub fn call(name: impl Into<String>, arguments: Value) -> Answer {
        Answer { tool_calls: vec![ToolCall::new(name, arguments)], ..Answer::default() }
    }

    /// An error of the upstream.
    pub fn error(status: u16, message: impl Into<String>) -> Answer {
        Answer { status, text: message.into(), ..Answer::default() }
    }

    /// The same with ids for the tool calls that have none.
    #[must_use]
    pub fn with_ids(mut self) -> Answer {
        for call in self.tool_calls.iter_mut().filter(|call| call.id.is_empty()) {
            call.id = crate::fresh::id("call_", 24);
        }
        self
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.status >= 400
    }

    /// The text in the pieces in which it streams. Joined they are the text again.
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

    /// The answer as the value of an `x-lab-script` header: JSON, and ASCII whatever it says.
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
    /// A call whose id the server makes.
    pub fn new(name: impl Into<String>, arguments: Value) -> ToolCall {
        ToolCall { id: String::new(), name: name.into(), arguments }
    }

    /// The arguments as the string of JSON that OpenAI's formats carry.
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
    fn a_script_names_only_what_it_cares_about_and_no_unknown_field() {
        let answer: Answer = serde_json::from_str(r#"{"text":"hi"}"#).unwrap();
        assert_eq!(answer, Answer::text("hi"));
        assert!(serde_json::from_str::<Answer>(r#"{"txt":"hi"}"#).is_err());
    }
}
