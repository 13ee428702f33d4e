//! Request bodies: JSON of a bounded size, read within a bounded time.

use std::time::Duration;

use axum::body::{Bytes, HttpBody as _, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use mime::Mime;
use serde::de::DeserializeOwned;
use serde_json::{Deserializer, Map, Value};
use tokio::time::timeout;

use super::problem::{Problem, Result};

/// The size limit of a change made by a person, which has a handful of fields.
const MAX_OBJECT_BYTES: usize = 64 * 1024;
/// The size limit of a filter's report and of a policy file, which may list thousands of agents.
const MAX_REPORT_BYTES: usize = 1024 * 1024;
/// How long a client may take to send its body.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// A JSON object, whose members the service checks one by one. An empty body is read as an empty object.
pub(super) struct Object(pub Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for Object {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        object(&read(request, MAX_OBJECT_BYTES).await?).map(Self)
    }
}

/// A policy file: an [`Object`] that may be larger.
pub(super) struct Document(pub Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for Document {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        object(&read(request, MAX_REPORT_BYTES).await?).map(Self)
    }
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Problem::new(StatusCode::BAD_REQUEST, "the body must be a JSON object")),
        Err(error) => Err(Problem::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}"))),
    }
}

/// A report of a filter. Unknown fields are ignored, because the filter may be newer than the sidecar.
pub(super) struct Report<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Report<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        report(&read(request, MAX_REPORT_BYTES).await?).map(Self)
    }
}

fn report<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let not_json = |error| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}"));
    let mut json = Deserializer::from_slice(bytes);
    let report = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (field, detail) = (error.path().to_string(), error.to_string());
        match error.into_inner() {
            // A member that is missing at the top has no path. The message names it.
            inner if inner.is_data() && field == "." => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail),
            inner if inner.is_data() => Problem::invalid(field, detail),
            inner => not_json(inner),
        }
    })?;
    json.end().map_err(not_json)?;
    Ok(report)
}

async fn read(request: Request, max_bytes: usize) -> Result<Bytes> {
    let too_large = || {
        let detail = format!("the body must not be larger than {} KiB", max_bytes / 1024);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    // A Content-Length that is too large is refused before anything is read.
    if request.body().size_hint().lower() > max_bytes as u64 {
        return Err(too_large());
    }
    let is_json = is_json(request.headers());
    let reading = timeout(READ_TIMEOUT, to_bytes(request.into_body(), max_bytes)).await;
    let too_slow = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
    let bytes = reading.map_err(too_slow)?.map_err(|_| too_large())?;
    if !is_json && !bytes.is_empty() {
        let detail = "the body must be sent as Content-Type: application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    Ok(bytes)
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let parsed = content_type.and_then(|value| value.parse::<Mime>().ok());
    parsed.is_some_and(|mime| {
        mime.type_() == mime::APPLICATION && (mime.subtype() == mime::JSON || mime.suffix() == Some(mime::JSON))
    })
}
