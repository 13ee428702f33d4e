//! Sends requests and tells what came back, whoever answered: the upstream or a filter in between.

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::{Request, read};
use crate::answer::Answer;
use crate::format::Format;
use crate::llm::{script, wire};

/// A client with a base URL and headers of its own.
#[derive(Clone, Debug)]
pub struct Caller {
    http: reqwest::Client,
    base: String,
    headers: Vec<(String, String)>,
}

/// What a call got.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The format that was asked in.
    pub format: Format,
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: String,
}

impl Caller {
    /// Calls `base` as this agent.
    pub fn new(base: impl Into<String>, agent_id: &str) -> Caller {
        let base = base.into().trim_end_matches('/').to_owned();
        Caller { http: crate::http::client(), base, headers: Vec::new() }.with("x-agent-id", agent_id)
    }

    /// Sends this header as well.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Caller {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same client, with its connections, as another agent.
    #[must_use]
    pub fn as_agent(mut self, agent_id: &str) -> Caller {
        self.headers.retain(|(name, _)| name != "x-agent-id");
        self.with("x-agent-id", agent_id)
    }

    /// Every call on a connection of its own, which is how to reach all of Envoy's workers.
    #[must_use]
    pub fn without_keep_alive(mut self) -> Caller {
        self.http = crate::http::client_without_keep_alive();
        self
    }

    /// Sends a request; with a script, the mock LLM answers that. A script among the caller's own headers goes before it.
    pub async fn call(&self, request: &Request, script: Option<&Answer>) -> Result<Reply, reqwest::Error> {
        let mut call = self.http.post(format!("{}{}", self.base, request.path)).body(request.body_text());
        call = call.header("content-type", "application/json");
        for (name, value) in request.headers.iter().chain(&self.headers) {
            call = call.header(name, value);
        }
        if let Some(answer) = script {
            call = call.header(script::SCRIPT, answer.to_header());
        }
        let response = call.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Reply { format: request.format, status, headers, body: response.text().await? })
    }
}

impl Reply {
    /// Whether the upstream answered, and not somebody on the way to it.
    pub fn from_upstream(&self) -> bool {
        self.headers.contains_key(wire::ANSWERED)
    }

    /// The answer read from the body; of an error, its status and its message.
    pub fn answer(&self) -> Answer {
        if self.status >= 400 {
            return Answer::error(self.status, self.error_message());
        }
        read(self.format, &self.body)
    }

    /// The message that a person would see of an error in any API's shape; the body where there is none.
    pub fn error_message(&self) -> String {
        let json: Value = serde_json::from_str(&self.body).unwrap_or_default();
        let error = &json["error"];
        let message = error["message"].as_str().or(error.as_str()).or(json["message"].as_str());
        message.unwrap_or(self.body.as_str()).to_owned()
    }

    /// The body as JSON; null if it is not.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// A header's value; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}
