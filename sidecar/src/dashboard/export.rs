//! Events as a file: one JSON object per line, or CSV. The file is streamed, oldest event first, so it can be of any size.

use std::io;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use csv::{Terminator, WriterBuilder};
use futures_util::stream;
use serde_json::Value;

use super::Dashboard;
use super::events::wanted;
use super::query::Fields;
use super::visitor::Visitor;
use crate::clock::rfc3339;
use crate::model::Event;
use crate::store::EventRange;

/// How many events are read from the database at a time.
const PAGE: u32 = 500;
const COLUMNS: [&str; 11] =
    ["id", "at", "event_type", "agent_id", "generation", "actor", "reason", "score", "threshold", "session", "detail"];

/// Writes events in one of the formats. The flag says whether they are the first of the file.
type Write = fn(&[Event], bool) -> io::Result<Vec<u8>>;

pub(super) async fn export(State(dashboard): State<Dashboard>, _: Visitor, params: Fields) -> Response {
    let (write, content_type, disposition) = if params.text("format") == "csv" {
        (csv as Write, "text/csv; charset=utf-8", "attachment; filename=\"events.csv\"")
    } else {
        (jsonl as Write, "application/x-ndjson", "attachment; filename=\"events.jsonl\"")
    };
    let pages = stream::unfold(Some(0), move |after| {
        let (dashboard, params) = (dashboard.clone(), params.clone());
        async move {
            let after = after?;
            let events = dashboard.service.events(&wanted(&params, EventRange::After(after), PAGE)).await;
            let text = events.map_err(io::Error::other).and_then(|events| {
                let last = events.last().map(|event| event.id);
                write(&events, after == 0).map(|text| (text, last))
            });
            match text {
                Ok((text, _)) if text.is_empty() => None,
                Ok((text, last)) => Some((Ok(text), last)),
                // Ends the connection with an error, so that half a file does not look like a whole one.
                Err(error) => Some((Err(error), None)),
            }
        }
    });
    let headers = [(header::CONTENT_TYPE, content_type), (header::CONTENT_DISPOSITION, disposition)];
    (headers, Body::from_stream(pages)).into_response()
}

fn jsonl(events: &[Event], _is_first: bool) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for event in events {
        serde_json::to_writer(&mut lines, event)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

fn csv(events: &[Event], is_first: bool) -> io::Result<Vec<u8>> {
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    if is_first {
        writer.write_record(COLUMNS)?;
    }
    for event in events {
        let body = &event.body;
        let number = |member: &str| body.detail.get(member).map(Value::to_string).unwrap_or_default();
        let row = [
            event.id.to_string(),
            rfc3339(body.at_ms),
            body.event_type.as_str().to_owned(),
            body.agent_id.clone(),
            body.generation.to_string(),
            body.actor.clone(),
            body.reason.clone(),
            number("score"),
            number("threshold"),
            body.detail.get("session").and_then(Value::as_str).unwrap_or_default().to_owned(),
            Value::Object(body.detail.clone()).to_string(),
        ];
        writer.write_record(row.map(without_formula))?;
    }
    writer.into_inner().map_err(|error| error.into_error())
}

/// Puts an apostrophe before text that a spreadsheet would run as a formula.
fn without_formula(text: String) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    if is_formula { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::model::{EventType, NewEvent};

    #[test]
    fn cells_are_quoted_where_needed_and_never_formulas() {
        for (reason, written) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("=1+1", "'=1+1"),
            ("@import", "'@import"),
            ("-5.5", "-5.5"),
            ("two\nlines", "\"two\nlines\""),
        ] {
            let body = NewEvent {
                at_ms: 0,
                event_type: EventType::Deactivated,
                agent_id: "a".to_owned(),
                generation: 1,
                actor: "dashboard".to_owned(),
                reason: reason.to_owned(),
                detail: Map::new(),
            };
            let row = csv(&[Event { id: 7, body }], false).unwrap();
            let expected = format!("7,1970-01-01T00:00:00.000Z,deactivated,a,1,dashboard,{written},,,,{{}}\r\n");
            assert_eq!(String::from_utf8(row).unwrap(), expected);
        }
    }
}
