//! Bedrock: the binary framing of AWS event streams.

use agent_kill_switch::turn::Answer;
use agent_kill_switch::turn::Format::Bedrock;
use proptest::prelude::*;

use crate::support::*;

const AWS: &str = "application/vnd.amazon.eventstream";

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// One message of an event stream.
fn message(event: &str, payload: &[u8]) -> Vec<u8> {
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

/// A fixture's events, bare, each in a message of its own.
fn framed(name: &str) -> Vec<u8> {
    let lines = String::from_utf8(fixture("bedrock", name)).unwrap();
    let frame = |line: &str| {
        let event: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        event.iter().flat_map(|(name, payload)| message(name, payload.to_string().as_bytes())).collect::<Vec<_>>()
    };
    lines.lines().flat_map(frame).collect()
}

#[test]
fn the_binary_stream_is_the_same_answer() {
    assert_eq!(answer(Bedrock, AWS, framed("answer_text.ndjson")), words(&[ANSWER]));
    let expected = Answer::Tools { text: Some(fingerprint(&[BESIDE])), signature: signature(&[FIND, LOOK]) };
    assert_eq!(answer(Bedrock, AWS, framed("answer_tools.ndjson")), expected);
}

#[test]
fn the_binary_stream_cut_inside_a_message_is_unknown() {
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
fn lengths_that_contradict_each_other_lose_the_framing() {
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
fn a_message_without_payload_says_nothing() {
    let mut body = message("messageStart", b"");
    body.extend(message("contentBlockDelta", br#"{"contentBlockIndex":0,"delta":{"text":"hello there"}}"#));
    assert_eq!(answer(Bedrock, AWS, body), words(&["hello there"]));
}

#[test]
fn an_exception_in_the_stream_is_a_failure() {
    let mut body = message("contentBlockDelta", br#"{"contentBlockIndex":0,"delta":{"text":"hello"}}"#);
    body.extend(message("modelStreamErrorException", br#"{"message":"the model went away"}"#));
    assert_eq!(answer(Bedrock, AWS, body), Answer::Failed);
}

#[test]
fn a_message_longer_than_the_cap_is_skipped() {
    let long = format!(r#"{{"contentBlockIndex":0,"delta":{{"text":"{}"}}}}"#, "long ".repeat(1000));
    let mut body = message("contentBlockDelta", long.as_bytes());
    body.extend(message("contentBlockDelta", br#"{"contentBlockIndex":0,"delta":{"text":"short"}}"#));
    assert_eq!(answer_within(1000, Bedrock, AWS, [&body[..]]), Answer::Unknown);
}

#[test]
fn json_in_a_result_is_its_text() {
    let body = r#"{"messages": [{"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"json": {"state": "all good"}}]}}]}]}"#;
    let turn = decode("/model/m/converse", body).unwrap();
    assert_eq!(turn.input, fingerprint(&[r#"{"state": "all good"}"#]));
}

proptest! {
    #[test]
    fn any_chunking_of_the_binary_stream_is_the_same(size in 1usize..300) {
        let body = framed("answer_tools.ndjson");
        prop_assert_eq!(answer_in_chunks(Bedrock, AWS, body.chunks(size)), answer(Bedrock, AWS, &body));
    }
}
