//! A line of a recording to the requests and responses that were on the wire.
//!
//! Three shapes, told apart by the member that holds the calls:
//!
//! | member | the line is |
//! |---|---|
//! | `messages` | a run: a conversation in OpenAI chat form. Each assistant message is the answer to a request that held all messages before it; the first message may be one, and then answers a request that held none |
//! | `calls` | a run: its calls, each `{"path", "request", "response", "status"}` |
//! | `request` | one call of the agent that it names; the lines of one agent are its run |
//!
//! Bodies are taken as they stand in the file, byte by byte. One that is a JSON *string* is the body itself: a stream of
//! events, or text. Without a `path` the answer's shape tells the API, and then the request's. `status` is 200 where it
//! is missing; a `response` that is missing or null never came.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Why a line is no recording.
#[derive(Debug, thiserror::Error)]
pub enum BadLine {
    /// Not JSON, or a member of another type.
    #[error("{}", within_line(.0))]
    Json(#[from] serde_json::Error),
    /// An object without calls.
    #[error("must have one of messages, calls or request")]
    NoCalls,
    /// A call of nobody.
    #[error("a call must name its agent")]
    NoAgent,
}

/// What is wrong with the JSON and where; the line it calls 1 is the only one that it saw.
fn within_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

/// What a run is called, and what is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The agent.
    pub agent: Option<String>,
    /// Where the recording is from.
    pub source: Option<String>,
    /// `healthy`, `loop` or `unknown`.
    pub expect: Option<String>,
}

/// One request and what came back, as bytes on the wire.
#[derive(Clone, Debug)]
pub struct Exchange<'a> {
    /// The path, empty where it is not known.
    pub path: Cow<'a, str>,
    /// The request's body.
    pub request: Cow<'a, [u8]>,
    /// The response's body; nothing where none came.
    pub response: Option<Cow<'a, [u8]>>,
    /// The status of the response.
    pub status: u16,
}

/// What a line holds.
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
    /// To be told from a conversation.
    Messages(Vec<&'a RawValue>),
    /// Recorded one by one.
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
            (None, Some(response)) => path_by_answer(response).into(),
            (None, None) => Cow::Borrowed(""),
        };
        Ok(Exchange { path, request, response, status: self.status.unwrap_or(200) })
    }
}

/// A body as it was on the wire.
fn body(raw: &RawValue) -> Result<Cow<'_, [u8]>, BadLine> {
    let text = raw.get();
    if text.starts_with('"') {
        return Ok(serde_json::from_str::<String>(text)?.into_bytes().into());
    }
    Ok(text.as_bytes().into())
}

/// Where such an answer comes from; empty where its shape does not tell.
fn path_by_answer(answer: &[u8]) -> &'static str {
    #[derive(Deserialize)]
    struct Shape<'a> {
        #[serde(borrow)]
        choices: Option<&'a RawValue>,
        #[serde(borrow)]
        candidates: Option<&'a RawValue>,
        object: Option<String>,
        r#type: Option<String>,
    }
    match serde_json::from_slice::<Shape<'_>>(answer) {
        Ok(Shape { object: Some(object), .. }) if object == "response" => "/v1/responses",
        Ok(Shape { object: Some(object), .. }) if object == "text_completion" => "/v1/completions",
        Ok(Shape { choices: Some(_), .. }) => "/v1/chat/completions",
        Ok(Shape { candidates: Some(_), .. }) => "/v1beta/models/recorded:generateContent",
        Ok(Shape { r#type: Some(kind), .. }) if kind == "message" => "/v1/messages",
        _ => "",
    }
}

impl Calls<'_> {
    /// Visits each call, in order.
    pub fn each(&self, mut visit: impl FnMut(&Exchange<'_>)) -> Result<(), BadLine> {
        match self {
            Self::Recorded(calls) => calls.iter().for_each(visit),
            Self::Messages(messages) => {
                let mut history = History::default();
                for message in messages {
                    if is_answer(message)? {
                        history.answered(message, &mut visit);
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

/// A request that grows with its conversation: written once, not once per call.
struct History {
    request: Vec<u8>,
}

const END: &[u8] = b"]}";

impl Default for History {
    fn default() -> Self {
        Self { request: br#"{"model":"recorded","messages":["#.to_vec() }
    }
}

impl History {
    fn push(&mut self, message: &RawValue) {
        if !self.request.ends_with(b"[") {
            self.request.push(b',');
        }
        self.request.extend_from_slice(message.get().as_bytes());
    }

    fn answered(&mut self, message: &RawValue, visit: &mut impl FnMut(&Exchange<'_>)) {
        let length = self.request.len();
        self.request.extend_from_slice(END);
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
        let mut seen = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        calls
            .each(|call| {
                seen.push((call.path.to_string(), text(&call.request), call.response.as_deref().map(text)));
            })
            .unwrap();
        seen
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
    }

    #[test]
    fn an_assistant_message_that_comes_first_answers_an_empty_request() {
        let calls = exchanges(r#"{"messages": [{"role": "assistant", "content": "hello"}]}"#);
        assert_eq!(calls[0].1, r#"{"model":"recorded","messages":[]}"#);
    }

    #[test]
    fn bodies_are_taken_as_they_stand_and_strings_are_the_body_itself() {
        let line =
            r#"{"calls": [{"request": {"b": 1.0,  "a": 2}, "response": "data: {\"x\": 1}\n\n"}, {"request": {}}]}"#;
        let calls = exchanges(line);
        assert_eq!(calls[0].1, r#"{"b": 1.0,  "a": 2}"#);
        assert_eq!(calls[0].2.as_deref(), Some("data: {\"x\": 1}\n\n"));
        assert_eq!(calls[1].2, None);
    }

    #[test]
    fn without_a_path_the_shape_of_the_answer_tells_the_api() {
        for (answer, path) in [
            (r#"{"choices": []}"#, "/v1/chat/completions"),
            (r#"{"type": "message", "content": []}"#, "/v1/messages"),
            (r#"{"object": "response", "output": []}"#, "/v1/responses"),
            (r#"{"candidates": []}"#, "/v1beta/models/recorded:generateContent"),
            (r#"{"jsonrpc": "2.0"}"#, ""),
            ("null", ""),
        ] {
            let line = format!(r#"{{"calls": [{{"request": {{}}, "response": {answer}}}]}}"#);
            assert_eq!(exchanges(&line)[0].0, path, "{answer}");
        }
    }

    #[test]
    fn what_is_no_recording_is_refused_in_words() {
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
