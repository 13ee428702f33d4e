//! Turns a line of a recording into the requests and responses that were on the wire.
//!
//! A line has one of three shapes, told apart by the member that holds the calls:
//!
//! | member | the line is |
//! |---|---|
//! | `messages` | a run: a conversation in OpenAI chat form. Each assistant message is the answer to a request that held all messages before it. If it is the first message, that request held none |
//! | `calls` | a run: its calls, each `{"path", "request", "response", "status"}` |
//! | `request` | one call of the agent that it names; the lines of one agent are its run |
//!
//! Bodies are JSON, and keep the bytes that they have in the file. A body that is a JSON *string* stands for the text in it:
//! a stream of events, or plain text. If there is no `path`, the API is told by the shape of the response, and otherwise by
//! that of the request. If there is no `status`, it is 200. If `response` is missing or null, no response came.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Why a line cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BadLine {
    /// It is not JSON, or a member has the wrong type.
    #[error("{}", within_line(.0))]
    Json(#[from] serde_json::Error),
    /// It holds no calls.
    #[error("must have one of messages, calls or request")]
    NoCalls,
    /// It is a call without the name of its agent.
    #[error("a call must name its agent")]
    NoAgent,
}

/// Describes a JSON error, without its line number: serde_json sees one line at a time and always calls it line 1.
fn within_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

/// What a recording says about a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The agent.
    pub agent: Option<String>,
    /// Where the recording comes from.
    pub source: Option<String>,
    /// `healthy`, `loop` or `unknown`.
    pub expect: Option<String>,
}

/// One request and its response, as they were on the wire.
#[derive(Clone, Debug)]
pub struct Exchange<'a> {
    /// The path. Empty if it is not known.
    pub path: Cow<'a, str>,
    /// The request's body.
    pub request: Cow<'a, [u8]>,
    /// The response's body. `None` if no response came.
    pub response: Option<Cow<'a, [u8]>>,
    /// The status of the response.
    pub status: u16,
}

/// The content of a line.
#[derive(Debug)]
pub enum Recording<'a> {
    /// A whole run.
    Run(Label, Calls<'a>),
    /// One call of a run.
    Call(Label, Exchange<'a>),
}

/// The calls of a run.
#[derive(Debug)]
pub enum Calls<'a> {
    /// The messages of a conversation, which imply the calls.
    Messages(Vec<&'a RawValue>),
    /// Calls that were recorded one by one.
    Recorded(Vec<Exchange<'a>>),
}

#[derive(Deserialize)]
struct Line<'a> {
    agent: Option<String>,
    source: Option<String>,
    expect: Option<String>,
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    calls: Option<Vec<Call<'a>>>,
    path: Option<String>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    status: Option<u16>,
}

#[derive(Deserialize)]
struct Call<'a> {
    path: Option<String>,
    #[serde(borrow)]
    request: &'a RawValue,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    status: Option<u16>,
}

impl<'a> Recording<'a> {
    /// Reads a line.
    pub fn read(line: &'a [u8]) -> Result<Self, BadLine> {
        let line: Line<'a> = serde_json::from_slice(line)?;
        let label = Label { agent: line.agent, source: line.source, expect: line.expect };
        if let Some(messages) = line.messages {
            return Ok(Self::Run(label, Calls::Messages(messages)));
        }
        if let Some(calls) = line.calls {
            let calls = calls.into_iter().map(Call::exchange).collect::<Result<_, _>>()?;
            return Ok(Self::Run(label, Calls::Recorded(calls)));
        }
        let request = line.request.ok_or(BadLine::NoCalls)?;
        if label.agent.is_none() {
            return Err(BadLine::NoAgent);
        }
        let call = Call { path: line.path, request, response: line.response, status: line.status };
        Ok(Self::Call(label, call.exchange()?))
    }
}

impl<'a> Call<'a> {
    fn exchange(self) -> Result<Exchange<'a>, BadLine> {
        let request = body(self.request)?;
        let response = self.response.map(body).transpose()?;
        let path = match (self.path, &response) {
            (Some(path), _) => path.into(),
            (None, Some(response)) => path_by_response(response).into(),
            (None, None) => Cow::Borrowed(""),
        };
        Ok(Exchange { path, request, response, status: self.status.unwrap_or(200) })
    }
}

/// Returns a body as it was on the wire.
fn body(raw: &RawValue) -> Result<Cow<'_, [u8]>, BadLine> {
    let text = raw.get();
    if text.starts_with('"') {
        return Ok(serde_json::from_str::<String>(text)?.into_bytes().into());
    }
    Ok(text.as_bytes().into())
}

/// Returns the path of the API that responds in this shape. Empty if the shape does not tell.
fn path_by_response(response: &[u8]) -> &'static str {
    #[derive(Deserialize)]
    struct Shape<'a> {
        #[serde(borrow)]
        choices: Option<&'a RawValue>,
        #[serde(borrow)]
        candidates: Option<&'a RawValue>,
        object: Option<String>,
        r#type: Option<String>,
    }
    match serde_json::from_slice::<Shape<'_>>(response) {
        Ok(Shape { object: Some(object), .. }) if object == "response" => "/v1/responses",
        Ok(Shape { object: Some(object), .. }) if object == "text_completion" => "/v1/completions",
        Ok(Shape { choices: Some(_), .. }) => "/v1/chat/completions",
        Ok(Shape { candidates: Some(_), .. }) => "/v1beta/models/recorded:generateContent",
        Ok(Shape { r#type: Some(kind), .. }) if kind == "message" => "/v1/messages",
        _ => "",
    }
}

impl Calls<'_> {
    /// Calls `visit` with each call, in order.
    pub fn each(&self, mut visit: impl FnMut(&Exchange<'_>)) -> Result<(), BadLine> {
        match self {
            Self::Recorded(calls) => calls.iter().for_each(visit),
            Self::Messages(messages) => {
                let mut history = History { request: br#"{"model":"recorded","messages":["#.to_vec() };
                for message in messages {
                    if is_answer(message)? {
                        history.visit_call(message, &mut visit);
                    }
                    history.push(message);
                }
            }
        }
        Ok(())
    }
}

fn is_answer(message: &RawValue) -> Result<bool, BadLine> {
    #[derive(Deserialize)]
    struct Role<'a> {
        #[serde(borrow)]
        role: Cow<'a, str>,
    }
    Ok(serde_json::from_str::<Role<'_>>(message.get())?.role == "assistant")
}

/// The request of a conversation, which grows with each message. Building it anew for each call would take quadratic time.
struct History {
    request: Vec<u8>,
}

impl History {
    fn push(&mut self, message: &RawValue) {
        if !self.request.ends_with(b"[") {
            self.request.push(b',');
        }
        self.request.extend_from_slice(message.get().as_bytes());
    }

    /// Calls `visit` with the request so far and `message` as its response.
    fn visit_call(&mut self, message: &RawValue, visit: &mut impl FnMut(&Exchange<'_>)) {
        let length = self.request.len();
        self.request.extend_from_slice(b"]}");
        let response = format!(r#"{{"choices":[{{"index":0,"message":{}}}]}}"#, message.get());
        visit(&Exchange {
            path: "/v1/chat/completions".into(),
            request: self.request.as_slice().into(),
            response: Some(response.into_bytes().into()),
            status: 200,
        });
        self.request.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchanges(line: &str) -> Vec<(String, String, Option<String>)> {
        let Recording::Run(_, calls) = Recording::read(line.as_bytes()).unwrap() else { panic!("a run") };
        let mut found = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        calls
            .each(|call| {
                found.push((call.path.to_string(), text(&call.request), call.response.as_deref().map(text)));
            })
            .unwrap();
        found
    }

    #[test]
    fn each_assistant_message_answers_all_messages_before_it() {
        let line = r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
            {"role":"user","content":"c"}, {"role": "assistant", "content": "d"}]}"#
            .replace('\n', "");
        let calls = exchanges(&line);
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0].1, r#"{"model":"recorded","messages":[{"role": "user", "content": "a"}]}"#);
        assert!(calls[1].1.ends_with(r#"{"role": "assistant", "content": "b"},{"role":"user","content":"c"}]}"#));
        assert_eq!(
            calls[1].2.as_deref(),
            Some(r#"{"choices":[{"index":0,"message":{"role": "assistant", "content": "d"}}]}"#)
        );
        let calls = exchanges(r#"{"messages": [{"role": "assistant", "content": "hello"}]}"#);
        assert_eq!(calls[0].1, r#"{"model":"recorded","messages":[]}"#, "also if there are none");
    }

    #[test]
    fn bodies_keep_their_bytes_and_strings_stand_for_the_text_in_them() {
        let line =
            r#"{"calls": [{"request": {"b": 1.0,  "a": 2}, "response": "data: {\"x\": 1}\n\n"}, {"request": {}}]}"#;
        let calls = exchanges(line);
        assert_eq!(calls[0].1, r#"{"b": 1.0,  "a": 2}"#);
        assert_eq!(calls[0].2.as_deref(), Some("data: {\"x\": 1}\n\n"));
        assert_eq!(calls[1].2, None);
    }

    #[test]
    fn without_a_path_the_shape_of_the_response_tells_the_api() {
        for (response, path) in [
            (r#"{"choices": []}"#, "/v1/chat/completions"),
            (r#"{"type": "message", "content": []}"#, "/v1/messages"),
            (r#"{"object": "response", "output": []}"#, "/v1/responses"),
            (r#"{"candidates": []}"#, "/v1beta/models/recorded:generateContent"),
            (r#"{"jsonrpc": "2.0"}"#, ""),
            ("null", ""),
        ] {
            let line = format!(r#"{{"calls": [{{"request": {{}}, "response": {response}}}]}}"#);
            assert_eq!(exchanges(&line)[0].0, path, "{response}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_refused_with_a_reason() {
        for (line, words) in [
            ("{", "EOF while parsing"),
            ("{}", "must have one of messages, calls or request"),
            (r#"{"request": {}}"#, "a call must name its agent"),
            (r#"{"agent": 7, "request": {}}"#, "invalid type: integer `7`, expected a string"),
        ] {
            let error = Recording::read(line.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
