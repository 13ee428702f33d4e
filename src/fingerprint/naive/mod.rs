//! The same fingerprint by obvious means: regular expressions over the whole text, a counter for each of the 64 bits, and
//! a set of the features that have been seen.
//!
//! This is the oracle of the fast code. The tests compare the two on arbitrary text, and the benchmarks measure how much
//! faster the other one is. It does not sample: on texts beyond about 100 KB, of which the fast code reads only parts, the
//! results differ. Nothing in the filter calls it, so the module does not contain it.

#![allow(clippy::panic, clippy::indexing_slicing)] // runs in tests and benchmarks only

mod dates;
pub mod normalise;
pub mod simhash;
