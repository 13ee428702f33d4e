//! The initial inputs of the fuzz targets, made from the fixtures of the tests.

use std::path::Path;

use agent_kill_switch::detect::window::{Call, Window};
use agent_kill_switch::fingerprint::Fingerprinter;
use agent_kill_switch::turn::{Answer, ToolSignature, ToolTurn};
use agent_kill_switch::wire::Counting;

/// The fixtures' folders, in the order of `FORMATS`.
#[rustfmt::skip]
const FOLDERS: [&str; 11] = [
    "openai_chat", "openai_completions", "openai_responses", "anthropic", "gemini", "bedrock", "ollama_chat",
    "ollama_generate", "cohere", "mcp", "a2a",
];

/// Texts with ids, dates and numbers.
const TEXTS: [&str; 4] = [
    "Order #12345 of 2024-01-15T10:30:00.123+05:00, id 550e8400-e29b-41d4-a716-446655440000, hash 0123456789abcdef",
    "page 42 of 100, 3.14, 1,234,567, 10.0.0.1, 0xDEADBEEF, v2, 15ms, req-7, facade1",
    "ÜBER Straße Ünïcode 北京 東京タワー สวัสดี 🌨️ İstanbul ǅ",
    "{\"a\": \"\\u00fc\\ud83d\\ude00\\n\", \"messages\": []}",
];

/// Returns the seeds of a target.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "window" => windows(),
        "normalise" => fixtures().map(|(.., body)| prefixed(&[7], &body)).chain(TEXTS.map(normalised)).collect(),
        "sse" => fixtures().map(|(_, kind, body)| prefixed(&[kind, 3, 255], &body)).chain([aws()]).collect(),
        _ => fixtures().map(|(format, kind, body)| prefixed(&[format, kind << 1, 5], &body)).collect(),
    }
}

fn normalised(text: &str) -> Vec<u8> {
    prefixed(&[2], text.as_bytes())
}

fn prefixed(prefix: &[u8], body: &[u8]) -> Vec<u8> {
    [prefix, body].concat()
}

/// Returns the number of the format, the number of the content type, and the bytes of each fixture.
fn fixtures() -> impl Iterator<Item = (u8, u8, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    FOLDERS.iter().zip(0..).flat_map(move |(folder, format)| {
        let mut files: Vec<_> = std::fs::read_dir(root.join(folder))
            .unwrap_or_else(|error| panic!("tests/fixtures/{folder}: {error}"))
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .collect();
        files.sort();
        files.into_iter().filter_map(move |path| {
            let kind = u8::from(path.extension().is_some_and(|ending| ending == "sse"));
            Some((format, kind, std::fs::read(path).ok()?))
        })
    })
}

/// Returns an AWS event stream of two messages.
fn aws() -> Vec<u8> {
    let payload = br#"{"contentBlockIndex":0,"delta":{"text":"hello"}}"#;
    let mut message = (payload.len() as u32 + 16).to_be_bytes().to_vec();
    message.extend([0; 8]);
    message.extend(payload);
    message.extend([0; 4]);
    prefixed(&[2, 3, 255], &message.repeat(2))
}

fn windows() -> Vec<Vec<u8>> {
    let mut text = Fingerprinter::default();
    let mut fingerprint = |words: &str| {
        text.push(words.as_bytes());
        text.finish()
    };
    let signature = ToolSignature::new(7);
    let answers = [
        Answer::Unknown,
        Answer::Failed,
        Answer::Text(fingerprint("three words here")),
        Answer::Tools { text: None, signature },
        Answer::Tools { text: Some(fingerprint("words beside it")), signature },
    ];
    let turns = [ToolTurn::None, ToolTurn::Results(signature), ToolTurn::Call(signature)];
    [Counting::Literal, Counting::Progress]
        .into_iter()
        .map(|counting| {
            let mut window = Window::empty(3, counting);
            for (index, (answer, tools)) in answers.iter().zip(turns.iter().cycle()).cycle().take(20).enumerate() {
                let input = fingerprint(&format!("prompt {index}"));
                window.push(
                    Call {
                        at_ms: index as u64,
                        input,
                        tools: *tools,
                        answer: *answer,
                        novel: index % 2 == 0,
                        ..Call::default()
                    },
                    20,
                );
            }
            window.into_bytes()
        })
        .collect()
}
