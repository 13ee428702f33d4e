//! An answer of a model, read as the filter reads it.

use std::rc::Rc;

use agent_kill_switch::decode::answer::{AnswerReader, ResponseHead};
use agent_kill_switch::fingerprint::Fingerprinter;
use agent_kill_switch::turn::{Answer, Format};

use crate::text::english;

/// The length of the answer's text, in bytes.
pub const TEXT_BYTES: usize = 20_000;

/// How an answer arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// One server-sent event for each word, each in a chunk of its own.
    Streamed,
    /// One JSON document in chunks of 16 KB.
    Whole,
}

/// An answer in the format of OpenAI chat.
pub struct BenchAnswer {
    content_type: &'static [u8],
    chunks: Vec<Vec<u8>>,
}

impl BenchAnswer {
    pub fn new(delivery: Delivery) -> Self {
        let text = english(TEXT_BYTES, 7);
        match delivery {
            Delivery::Streamed => {
                let event = |word: &str| {
                    let word = word.replace('\n', "\\n").replace('"', "\\\"");
                    format!(
                        "data: {{\"id\":\"chatcmpl-9aB3\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\
                         \"model\":\"gpt-4o\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{word}\"}},\
                         \"finish_reason\":null}}]}}\n\n"
                    )
                };
                let chunks = text.split_inclusive(' ').map(|word| event(word).into_bytes()).collect();
                Self { content_type: b"text/event-stream", chunks }
            }
            Delivery::Whole => {
                let text = text.replace('\n', "\\n").replace('"', "\\\"");
                let body = format!(
                    r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}]}}"#
                );
                let chunks = body.as_bytes().chunks(16 * 1024).map(<[u8]>::to_vec).collect();
                Self { content_type: b"application/json", chunks }
            }
        }
    }

    /// Reads the answer. The result depends on all of it.
    #[inline(never)]
    pub fn read(&self, finds_repetition: bool) -> u64 {
        let head = ResponseHead { status: 200, content_type: self.content_type };
        let text = Fingerprinter::with_patterns(Rc::from([]));
        let mut reader = AnswerReader::with_fingerprinter(text, Format::OpenAiChat, head, 1 << 20);
        if finds_repetition {
            reader.find_repetition();
        }
        let mut found = 0;
        for chunk in &self.chunks {
            reader.push(chunk);
            found += u64::from(reader.take_repetition().is_some());
        }
        match reader.finish() {
            Answer::Text(text) => text.simhash.0 ^ found,
            _ => found,
        }
    }
}
