//! The sidecar's promises, over real HTTP on loopback. One file per promise; one binary, since linking is most of the
//! time that these tests take.

mod auth;
mod bad_input;
mod cli;
mod configuration;
mod crash;
mod deactivation;
mod events;
mod kills;
mod lost_update;
mod observations;
mod openapi;
mod scale;
mod serving;
mod store;
mod support;
mod sync;
