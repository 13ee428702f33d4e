//! A filter that does nothing but wait: what any filter costs that holds a request until its body is whole.
//!
//! It holds at the headers and at each piece of the body, as the kill switch does, looks at no byte, and lets responses
//! pass. What the kill switch takes beyond this is its own.

#[cfg(target_arch = "wasm32")]
mod filter;
