//! The sidecar of the agent kill switch. It stores the agents' policies and state, tells the filters about changes, and
//! records every kill.
//!
//! Data flows one way: [`api`] and [`dashboard`] read requests and call [`service`], which holds the rules and changes
//! the [`store`] in small transactions. [`alerts`] delivers what the service has put into its outbox. [`serve`] runs all
//! of them on a socket, and `telemetry` exports events and requests by OTLP. [`cli`] is the command line, most of which is a client of [`api`]. [`replay`] depends on none of
//! these: it runs the filter's detector over recorded calls.

pub mod alerts;
pub mod api;
pub mod cli;
pub mod clock;
pub mod dashboard;
mod http_client;
pub mod model;
pub mod replay;
pub mod serve;
pub mod service;
pub mod store;
mod telemetry;
