//! The functions that `pipeline.mjs` calls.

use std::cell::RefCell;

use crate::body::ALL;
use crate::cell::{Table, WAYS};

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

#[allow(unsafe_code)] // a name that JavaScript can call
#[unsafe(no_mangle)]
extern "C" fn bodies() -> u32 {
    ALL.len() as u32
}

#[allow(unsafe_code)] // a name that JavaScript can call
#[unsafe(no_mangle)]
extern "C" fn ways() -> u32 {
    WAYS.len() as u32
}

/// Processes a body in one way this many times.
#[allow(unsafe_code)] // a name that JavaScript can call
#[unsafe(no_mangle)]
extern "C" fn run(way: u32, body: u32, times: u32) -> u32 {
    TABLE.with_borrow_mut(|table| table.run(way as usize, body as usize, times)) as u32
}
