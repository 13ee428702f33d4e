//! Turns an answer's pieces into an HTTP response: delays, gzip, trailers, and connections that are cut.

use std::io::Write;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream::{self, StreamExt};
use http_body::Frame;
use http_body_util::StreamBody;

use super::gates::{Gate, Gates};
use crate::answer::{Answer, GateAt};
use crate::wire::Rendered;

/// Returns the HTTP response for a rendered answer.
pub async fn deliver(answer: &Answer, rendered: Rendered, gates: &Gates) -> Response {
    let gate = gates.gate(&answer.gate);
    if answer.gate_at == GateAt::Start {
        gate.pass().await;
    }
    pause(Duration::from_millis(answer.delay_ms)).await;
    let mut response = Response::builder().status(answer.status).header(header::CONTENT_TYPE, rendered.content_type);
    if answer.gzip {
        response = response.header(header::CONTENT_ENCODING, "gzip");
    }
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    if !answer.trailers.is_empty() {
        // HTTP/1.1 sends only trailers that were announced.
        let names: Vec<&str> = answer.trailers.iter().map(|(name, _)| name.as_str()).collect();
        response = response.header(header::TRAILER, names.join(", "));
    }
    response.body(body(answer, rendered.pieces, &gate)).expect("a script's status and headers must be valid HTTP")
}

fn body(answer: &Answer, pieces: Vec<String>, gate: &Gate) -> Body {
    let mut pieces: Vec<Bytes> = match answer.gzip {
        true => gzip(&pieces),
        false => pieces.into_iter().map(Bytes::from).collect(),
    };
    let gate_at = |place| if answer.gate_at == place { gate.clone() } else { Gate::default() };
    let (in_the_middle, at_the_end) = (gate_at(GateAt::FirstPiece), gate_at(GateAt::End));
    if pieces.len() == 1 && answer.trailers.is_empty() && answer.cut_after.is_none() && !at_the_end.exists() {
        return Body::from(pieces.remove(0));
    }
    if let (Some(_), [whole]) = (answer.cut_after, pieces.as_slice()) {
        // A body of one piece is cut in its middle.
        pieces = vec![whole.slice(..whole.len() / 2), whole.slice(whole.len() / 2..)];
    }
    let end = match answer.cut_after {
        Some(_) => Some(Err(std::io::Error::other("the script cuts the connection here"))),
        None => trailers(answer).map(|trailers| Ok(Frame::trailers(trailers))),
    };
    let sent = answer.cut_after.unwrap_or(usize::MAX);
    let frames = pieces.into_iter().take(sent).map(|piece| Ok(Frame::data(piece))).chain(end);
    let between = Duration::from_millis(answer.piece_delay_ms);
    let paced = stream::iter(frames.enumerate()).then(move |(index, frame)| {
        let gate = in_the_middle.clone();
        async move {
            if index > 0 {
                gate.pass().await;
                pause(between).await;
            }
            frame
        }
    });
    let end = stream::once(async move { at_the_end.pass().await });
    Body::new(StreamBody::new(paced.chain(end.filter_map(async |()| None))))
}

/// Waits, or only yields if the time is zero, so that each piece is written by itself. A timer would always take a
/// millisecond.
async fn pause(time: Duration) {
    if time.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(time).await;
    }
}

fn trailers(answer: &Answer) -> Option<HeaderMap> {
    let pairs = answer.trailers.iter().filter_map(|(name, value)| {
        Some((HeaderName::try_from(name.as_str()).ok()?, HeaderValue::try_from(value.as_str()).ok()?))
    });
    Some(pairs.collect::<HeaderMap>()).filter(|trailers| !trailers.is_empty())
}

/// Compresses pieces and flushes after each, so that a streamed answer still streams.
fn gzip(pieces: &[String]) -> Vec<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut packed: Vec<Bytes> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        encoder.write_all(piece.as_bytes()).and_then(|()| encoder.flush()).expect("memory takes every write");
        packed.push(Bytes::from(std::mem::take(encoder.get_mut())));
    }
    let rest = encoder.finish().expect("memory takes every write");
    match packed.last_mut() {
        Some(last) => *last = Bytes::from([last.as_ref(), &rest].concat()),
        None => packed.push(Bytes::from(rest)),
    }
    packed
}
