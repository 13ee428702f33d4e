//! Events as a file: one JSON object per line, or CSV. Streamed, the oldest first, however many there are.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};

use super::Dashboard;
use super::error::Result;
use super::events::wanted;
use super::query::Query;
use super::visitor::Visitor;
use crate::clock::rfc3339;
use crate::model::Event;
use crate::store::EventRange;

/// Events read at once.
const PAGE: u32 = 500;
const HEADING: &str = "id,at,event_type,agent_id,generation,actor,reason,score,threshold,detail\r\n";

pub(super) async fn export(State(dashboard): State<Dashboard>, _: Visitor, params: Query) -> Result<Response> {
    let is_csv = params.text("format") == "csv";
    let line = if is_csv { csv } else { jsonl };
    let start = (dashboard, params, Some(0), if is_csv { HEADING.to_owned() } else { String::new() });
    let pages = stream::unfold(start, move |(dashboard, params, after, heading)| async move {
        let after = after?;
        let query = wanted(&params, EventRange::After(after), PAGE);
        let events = match dashboard.service.events(&query).await {
            Ok(events) => events,
            // The connection breaks: half a file must not look like a whole one.
            Err(error) => return Some((Err(std::io::Error::other(error)), (dashboard, params, None, String::new()))),
        };
        let last = events.last().map(|event| event.id);
        if last.is_none() && heading.is_empty() {
            return None;
        }
        let text = heading + &events.iter().map(line).collect::<String>();
        Some((Ok(text), (dashboard, params, last, String::new())))
    });
    let (content_type, name) = match is_csv {
        true => ("text/csv; charset=utf-8", "attachment; filename=\"events.csv\""),
        false => ("application/x-ndjson", "attachment; filename=\"events.jsonl\""),
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static(name)),
    ];
    Ok((headers, Body::from_stream(pages)).into_response())
}

fn jsonl(event: &Event) -> String {
    let body = &event.body;
    let mut line = json!({
        "id": event.id, "at": rfc3339(body.at_ms), "event_type": body.event_type, "agent_id": body.agent_id,
        "generation": body.generation, "actor": body.actor, "reason": body.reason,
    });
    if let Value::Object(members) = &mut line {
        members.extend(body.detail.clone());
    }
    format!("{line}\n")
}

fn csv(event: &Event) -> String {
    let body = &event.body;
    let figure = |member: &str| body.detail.get(member).map(Value::to_string).unwrap_or_default();
    let cells = [
        event.id.to_string(),
        rfc3339(body.at_ms),
        body.event_type.as_str().to_owned(),
        body.agent_id.clone(),
        body.generation.to_string(),
        body.actor.clone(),
        body.reason.clone(),
        figure("score"),
        figure("threshold"),
        Value::Object(body.detail.clone()).to_string(),
    ];
    cells.map(|text| cell(&text)).join(",") + "\r\n"
}

/// A cell that no spreadsheet takes for a formula.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_quoted_where_it_must_be_and_never_a_formula() {
        for (text, written) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("=1+1", "'=1+1"),
            ("@import", "'@import"),
            ("-5.5", "-5.5"),
            ("two\nlines", "\"two\nlines\""),
        ] {
            assert_eq!(cell(text), written);
        }
    }
}
