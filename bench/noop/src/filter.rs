//! The filter. Its interface is there for wasm32 only.

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
