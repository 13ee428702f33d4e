//! A webhook receiver on a real socket: remembers what it got and answers what it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;

/// One request.
#[derive(Clone, Debug)]
pub struct Received {
    pub headers: HeaderMap,
    pub body: String,
}

impl Received {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

type Answer = (u16, Option<(&'static str, String)>);

#[derive(Clone, Default)]
pub struct Receiver {
    pub url: String,
    received: Arc<Mutex<Vec<Received>>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
}

impl Receiver {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let receiver = Self { url, ..Self::default() };
        let app = Router::new().fallback(take).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        receiver
    }

    /// The next request gets this instead of 204.
    pub fn answer(&self, status: u16) {
        self.answers.lock().unwrap().push_back((status, None));
    }

    pub fn answer_with(&self, status: u16, header: &'static str, value: &str) {
        self.answers.lock().unwrap().push_back((status, Some((header, value.to_owned()))));
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// What came since the last time somebody asked.
    pub fn take(&self) -> Vec<Received> {
        std::mem::take(&mut *self.received.lock().unwrap())
    }

    /// The types of what came since the last time somebody asked.
    pub fn types(&self) -> Vec<String> {
        self.take().iter().map(|received| received.json()["type"].as_str().unwrap().to_owned()).collect()
    }
}

async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> (StatusCode, HeaderMap) {
    let body = String::from_utf8(body.to_vec()).unwrap();
    receiver.received.lock().unwrap().push(Received { headers, body });
    let (status, header) = receiver.answers.lock().unwrap().pop_front().unwrap_or((204, None));
    let mut headers = HeaderMap::new();
    if let Some((name, value)) = header {
        headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value).unwrap());
    }
    (StatusCode::from_u16(status).unwrap(), headers)
}
