//! Sends requests and reports what came back, from the upstream or from a filter before it.

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::{Request, read};
use crate::answer::Answer;
use crate::format::Format;
use crate::llm::script;
use crate::wire;

/// A client with a base URL and headers of its own.
#[derive(Clone, Debug)]
pub struct Caller {
    http: reqwest::Client,
    base: String,
    headers: Vec<(String, String)>,
}

/// The response to a call.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The format of the request.
    pub format: Format,
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Caller {
    /// Creates a client that calls `base` as this agent.
    pub fn new(base: impl Into<String>, agent_id: &str) -> Caller {
        let base = base.into().trim_end_matches('/').to_owned();
        Caller { http: crate::http::client(), base, headers: Vec::new() }.with("x-agent-id", agent_id)
    }

    /// Adds a header to every call.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Caller {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the same client, with its connections, for another agent.
    #[must_use]
    pub fn as_agent(mut self, agent_id: &str) -> Caller {
        self.headers.retain(|(name, _)| name != "x-agent-id");
        self.with("x-agent-id", agent_id)
    }

    /// Makes every call on a connection of its own, so that calls reach all of Envoy's workers.
    #[must_use]
    pub fn without_keep_alive(mut self) -> Caller {
        self.http = crate::http::client_without_keep_alive();
        self
    }

    /// Makes all calls over HTTP/2, on one connection.
    #[must_use]
    pub fn over_http2(mut self) -> Caller {
        self.http = crate::http::client_over_http2();
        self
    }

    /// Sends a request, with the answer that the mock LLM is to give. A script among the caller's own headers has priority.
    pub async fn call(&self, request: &Request, script: Option<&Answer>) -> Result<Reply, reqwest::Error> {
        let response = self.send(request, script).await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Reply { format: request.format, status, headers, body: response.text().await? })
    }

    /// Like `call`, but closes the connection as soon as what has come of the body satisfies `enough`.
    pub async fn call_until(
        &self,
        request: &Request,
        script: Option<&Answer>,
        enough: impl Fn(&str) -> bool,
    ) -> Result<Reply, reqwest::Error> {
        let mut response = self.send(request, script).await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            body.extend_from_slice(&chunk);
            if enough(&String::from_utf8_lossy(&body)) {
                break;
            }
        }
        // A response that is dropped before its end closes its connection.
        Ok(Reply { format: request.format, status, headers, body: String::from_utf8_lossy(&body).into_owned() })
    }

    async fn send(&self, request: &Request, script: Option<&Answer>) -> Result<reqwest::Response, reqwest::Error> {
        let mut call = self.http.post(format!("{}{}", self.base, request.path)).body(request.body_text());
        if request.raw.is_none() {
            call = call.header("content-type", "application/json");
        }
        for (name, value) in request.headers.iter().chain(&self.headers) {
            call = call.header(name, value);
        }
        if let Some(answer) = script {
            call = call.header(script::SCRIPT, answer.to_header());
        }
        call.send().await
    }
}

impl Reply {
    /// Whether the upstream answered, and not somebody on the way to it.
    pub fn from_upstream(&self) -> bool {
        self.headers.contains_key(wire::ANSWERED)
    }

    /// Reads the answer from the body; if it is an error, its status and message.
    pub fn answer(&self) -> Answer {
        if self.status >= 400 {
            return Answer::error(self.status, self.error_message());
        }
        read(self.format, &self.body)
    }

    /// Returns the message of an error in any API's shape, or the body if there is none.
    pub fn error_message(&self) -> String {
        let json: Value = serde_json::from_str(&self.body).unwrap_or_default();
        let error = &json["error"];
        let message = error["message"].as_str().or(error.as_str()).or(json["message"].as_str());
        message.unwrap_or(self.body.as_str()).to_owned()
    }

    /// Returns the body as JSON, or null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Returns a header's value, or an empty string.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}
