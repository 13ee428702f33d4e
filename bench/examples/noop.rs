//! A filter that holds each request until its body is complete and does nothing else.
//!
//! This is what any filter costs that holds requests. It pauses at the headers and at each chunk of the body, as the kill
//! switch does, reads no byte, and lets responses pass. Whatever the kill switch costs beyond this is its own cost.
//!
//! Built as a WebAssembly module by `tools/bench`. For any other target it is empty.
#![cfg(target_arch = "wasm32")]
#![allow(missing_docs)] // the SDK's macro generates undocumented exports

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType};

proxy_wasm::main! {{
    proxy_wasm::set_root_context(|_| Box::new(Root));
}}

struct Root;

impl Context for Root {}

impl RootContext for Root {
    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Wait))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

struct Wait;

impl Wait {
    fn until(ended: bool) -> Action {
        if ended { Action::Continue } else { Action::Pause }
    }
}

impl Context for Wait {}

impl HttpContext for Wait {
    fn on_http_request_headers(&mut self, _: usize, ended: bool) -> Action {
        Self::until(ended)
    }

    fn on_http_request_body(&mut self, _: usize, ended: bool) -> Action {
        Self::until(ended)
    }

    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        Action::Continue
    }

    fn on_http_response_body(&mut self, _: usize, _: bool) -> Action {
        Action::Continue
    }
}
