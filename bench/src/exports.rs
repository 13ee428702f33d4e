//! What the module shows to `pipeline.mjs`: numbers in, numbers out.

use std::cell::RefCell;

use crate::body::ALL;
use crate::cell::{Table, WAYS};

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// How many bodies there are.
#[allow(unsafe_code)] // a name that JavaScript can call
#[unsafe(no_mangle)]
extern "C" fn bodies() -> u32 {
    ALL.len() as u32
}

/// How many ways there are.
#[allow(unsafe_code)] // a name that JavaScript can call
#[unsafe(no_mangle)]
extern "C" fn ways() -> u32 {
    WAYS.len() as u32
}

/// Goes one way on one body, so often.
#[allow(unsafe_code)] // a name that JavaScript can call
#[unsafe(no_mangle)]
extern "C" fn run(way: u32, body: u32, times: u32) -> u32 {
    TABLE.with_borrow_mut(|table| table.run(way as usize, body as usize, times)) as u32
}
