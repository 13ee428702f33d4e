//! AWS event-stream frames, which Bedrock uses for streaming: lengths, headers, payload, and two checksums.
//!
//! Only encodes, and only the headers that a Bedrock client reads: event type, content type and message type. A client
//! drops the connection if a checksum or a length is wrong.
//!
//! ```text
//! total length u32 | headers length u32 | CRC-32 of these 8 bytes | headers | payload | CRC-32 of everything before
//! header: name length u8 | name | 7 (text) | value length u16 | value
//! ```

/// The number of bytes in a frame that are neither headers nor payload.
const FRAMING_BYTES: usize = 16;

/// Encodes one event. The payload is JSON.
pub(super) fn frame(event_type: &str, payload: &str) -> Vec<u8> {
    let mut headers = Vec::new();
    for (name, value) in
        [(":event-type", event_type), (":content-type", "application/json"), (":message-type", "event")]
    {
        headers.push(name.len() as u8);
        headers.extend_from_slice(name.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&(value.len() as u16).to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }

    let total = FRAMING_BYTES + headers.len() + payload.len();
    let mut frame = Vec::with_capacity(total);
    frame.extend_from_slice(&(total as u32).to_be_bytes());
    frame.extend_from_slice(&(headers.len() as u32).to_be_bytes());
    frame.extend_from_slice(&crc32(&frame).to_be_bytes());
    frame.append(&mut headers);
    frame.extend_from_slice(payload.as_bytes());
    frame.extend_from_slice(&crc32(&frame).to_be_bytes());
    frame
}

/// Computes the CRC-32 of zlib. Bit by bit, since a refusal has about a kilobyte and a table would only enlarge the module.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xEDB8_8320;
    let shift = |crc: u32, _: u32| (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_zlib() {
        let cases =
            [(&b""[..], 0), (b"123456789", 0xCBF4_3926), (b"The quick brown fox jumps over the lazy dog", 0x414F_A339)];
        for (bytes, crc) in cases {
            assert_eq!(crc32(bytes), crc);
        }
    }

    #[test]
    fn lengths_and_checksums_of_a_frame_add_up() {
        let frame = frame("messageStart", r#"{"role":"assistant"}"#);
        let number = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
        let headers = number(4) as usize;
        assert_eq!(number(0) as usize, frame.len());
        assert_eq!(number(8), crc32(&frame[..8]));
        assert_eq!(&frame[12..24], b"\x0b:event-type");
        assert_eq!(&frame[12 + headers..frame.len() - 4], br#"{"role":"assistant"}"#);
        assert_eq!(number(frame.len() - 4), crc32(&frame[..frame.len() - 4]));
    }
}
