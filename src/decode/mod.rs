//! Wire formats: bytes to the provider-neutral types of [`turn`](crate::turn).
//!
//! A request is decoded by `request`: `format` decides which API it speaks, `messages` and `conversation` find what is new
//! in a list of messages, `text` and `tools` read the text and the tool calls in it, `action` finds actions that are written
//! as text, `failure` recognises results of tools that failed, and `session` finds out which conversation the request
//! belongs to. All APIs share these files, because their requests differ in little more than names. A response is decoded
//! by `answer`, which has a file per API; `frames` cuts a body into JSON documents. `json` reads both. Decoding never sees
//! scores or thresholds.

pub mod action;
pub mod answer;
pub mod conversation;
pub mod envelope;
pub mod failure;
pub mod format;
pub mod frames;
pub mod json;
pub mod messages;
pub mod request;
pub mod session;
pub mod text;
pub mod tools;
