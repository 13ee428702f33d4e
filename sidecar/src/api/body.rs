//! Request bodies: bounded, JSON, and refused with a reason otherwise.

use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::problem::{Problem, Result};

/// A person's change is a handful of fields.
const MAX_OBJECT: usize = 64 * 1024;
/// A filter's report may list a thousand agents.
const MAX_REPORT: usize = 1024 * 1024;
/// Nobody holds a connection open with a body that never ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// A JSON object, taken apart by the service. Nothing at all is the empty object.
pub(super) struct Object(pub Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for Object {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let bytes = read(request, MAX_OBJECT).await?;
        if bytes.is_empty() {
            return Ok(Self(Map::new()));
        }
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(object)) => Ok(Self(object)),
            Ok(_) => Err(Problem::new(StatusCode::BAD_REQUEST, "the body must be a JSON object")),
            Err(error) => Err(Problem::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}"))),
        }
    }
}

/// One of the filter's own messages. Unknown fields are ignored: the filter may be newer.
pub(super) struct Report<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Report<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let bytes = read(request, MAX_REPORT).await?;
        match serde_json::from_slice(&bytes) {
            Ok(report) => Ok(Self(report)),
            Err(error) if error.is_data() => Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())),
            Err(error) => Err(Problem::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}"))),
        }
    }
}

async fn read(request: Request, most: usize) -> Result<Bytes> {
    let headers = request.headers();
    let too_large =
        || Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body must not be larger than {} KiB", most / 1024));
    // Told before it is read, where the sender says how much it is.
    if announced(headers).is_some_and(|length| length > most) {
        return Err(too_large());
    }
    let is_json = is_json(headers);
    let arriving = timeout(PATIENCE, to_bytes(request.into_body(), most)).await;
    let too_slow = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
    let bytes = arriving.map_err(too_slow)?.map_err(|_| too_large())?;
    if !is_json && !bytes.is_empty() {
        let detail = "the body must be sent as Content-Type: application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    Ok(bytes)
}

fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}
