//! Bedrock: AWS event streams, and JSON in tool results.

use agent_kill_switch::turn::Format::Bedrock;
use agent_kill_switch::turn::{Answer, Format};
use proptest::prelude::*;

use crate::support::*;

const AWS: &str = "application/vnd.amazon.eventstream";

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// Builds a message of an event stream.
fn message(event: &str, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let mut headers = Vec::new();
    for (name, value) in [(":event-type", event), (":content-type", "application/json"), (":message-type", "event")] {
        headers.push(name.len() as u8);
        headers.extend(name.bytes());
        headers.push(7);
        headers.extend((value.len() as u16).to_be_bytes());
        headers.extend(value.bytes());
    }
    let mut message = Vec::new();
    message.extend(((16 + headers.len() + payload.len()) as u32).to_be_bytes());
    message.extend((headers.len() as u32).to_be_bytes());
    message.extend(crc32(&message).to_be_bytes());
    message.extend(headers);
    message.extend(payload);
    message.extend(crc32(&message).to_be_bytes());
    message
}

/// Returns the events of a fixture as an event stream.
fn framed(name: &str) -> Vec<u8> {
    let lines = String::from_utf8(fixture("bedrock", name)).unwrap();
    let frame = |line: &str| {
        let event: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        event.iter().flat_map(|(name, payload)| message(name, payload.to_string())).collect::<Vec<_>>()
    };
    lines.lines().flat_map(frame).collect()
}

#[test]
fn the_binary_stream_is_decoded_to_the_same_answer() {
    assert_eq!(answer(Bedrock, AWS, framed("answer_text.ndjson")), words(&[ANSWER]));
    let expected = Answer::Tools { text: Some(fingerprint(&[BESIDE])), signature: signature(&[FIND, LOOK]) };
    assert_eq!(answer(Bedrock, AWS, framed("answer_tools.ndjson")), expected);
}

#[test]
fn a_binary_stream_that_is_cut_inside_a_message_is_unknown() {
    let body = framed("answer_text.ndjson");
    let mut ends = vec![0];
    while let Some(length) = body.get(ends[ends.len() - 1]..).and_then(|rest| rest.first_chunk()) {
        ends.push(ends[ends.len() - 1] + u32::from_be_bytes(*length) as usize);
    }
    for at in (0..body.len()).filter(|at| !ends.contains(at)) {
        assert_eq!(answer(Bedrock, AWS, &body[..at]), Answer::Unknown, "cut at {at}");
    }
}

#[test]
fn contradicting_lengths_make_the_answer_unknown() {
    let good = message("contentBlockDelta", br#"{"contentBlockIndex":0,"delta":{"text":"hello"}}"#);
    for (total, headers) in [(0, 0), (15, 0), (16, 1), (40, 30), (u32::MAX, u32::MAX), (3, u32::MAX)] {
        let mut body = good.clone();
        body.extend(total.to_be_bytes());
        body.extend(headers.to_be_bytes());
        body.extend([0; 4]);
        body.extend(&good);
        assert_eq!(answer(Bedrock, AWS, &body), Answer::Unknown, "{total} {headers}");
    }
}

#[test]
fn messages_without_payload_exceptions_and_long_messages() {
    let delta =
        |text: &str| message("contentBlockDelta", format!(r#"{{"contentBlockIndex":0,"delta":{{"text":"{text}"}}}}"#));
    let exception = message("modelStreamErrorException", r#"{"message":"the model went away"}"#);
    let cases = [
        ("an empty message is ignored", [message("messageStart", ""), delta("hello there")], words(&["hello there"])),
        ("an exception is a failure", [delta("hello"), exception], Answer::Failed),
        ("a message may not exceed the limit", [delta(&"long ".repeat(1000)), delta("short")], Answer::Unknown),
    ];
    for (case, messages, expected) in cases {
        assert_eq!(answer_within(1000, Bedrock, AWS, [&messages.concat()[..]]), expected, "{case}");
    }
}

#[test]
fn json_in_a_result_is_read_as_text() {
    let body = r#"{"messages": [{"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"json": {"state": "all good"}}]}}]}]}"#;
    let turn = decode("/model/m/converse", body).unwrap();
    assert_eq!(turn.input, fingerprint(&[r#"{"state": "all good"}"#]));
}

proptest! {
    #[test]
    fn chunking_of_the_binary_stream_changes_nothing(size in 1usize..300) {
        let body = framed("answer_tools.ndjson");
        prop_assert_eq!(answer_in_chunks(Bedrock, AWS, body.chunks(size)), answer(Bedrock, AWS, &body));
    }
}

#[test]
fn invoking_a_model_of_amazon_is_read_like_a_conversation() {
    for system in ["", r#""system": [{"text": "be kind"}], "#] {
        let body = format!(r#"{{{system}"messages": [{{"role": "user", "content": [{{"text": "{USER}"}}]}}]}}"#);
        let turn = decode("/model/amazon.nova-lite-v1:0/invoke", body).unwrap();
        assert_eq!((turn.format, turn.input), (Bedrock, fingerprint(&[USER])));
    }
    let claude = r#"{"anthropic_version": "bedrock-2023-05-31", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}"#;
    assert_eq!(decode("/model/anthropic.claude/invoke", claude).unwrap().format, Format::Anthropic);
}
