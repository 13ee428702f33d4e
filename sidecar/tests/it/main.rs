//! The sidecar's promises, over real HTTP on loopback. One file per promise; one binary, since linking is most of the
//! time that these tests take.
// Clippy knows tests by their attribute; the helpers between them are tests all the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod alert_delivery;
mod alert_rules;
mod alert_targets;
mod answer_loops;
mod auth;
mod bad_input;
mod browser;
mod cancelled;
mod cli;
mod clock;
mod configuration;
mod connections;
mod courier;
mod crash;
mod dashboard;
mod deactivation;
mod disk;
mod entries;
mod events;
mod fleet;
mod kills;
mod lost_update;
mod metrics;
mod migration;
mod observations;
mod openapi;
mod overview;
mod pause;
mod policies;
mod postgres;
mod replicas;
mod restored;
mod retention;
mod scale;
mod serving;
mod sessions;
mod ssrf;
mod store;
mod storm;
mod story;
mod support;
mod sync;
mod telemetry;
mod top;
mod trail;
mod transfer;
mod trusted_users;
mod unreadable;
mod usage;
