//! The sidecar of the agent kill switch: the filter's source of truth, and the place where a kill is recorded for good.
//!
//! Data flows one way: [`api`] takes requests apart and calls [`service`], which holds the rules and speaks to a
//! [`store`] in small transactional steps. [`serve`] puts them on a socket; [`cli`] is the same binary on the other end
//! of it. Alerts and the dashboard stand beside [`api`]: they call [`service`] and nothing below it. [`replay`] stands
//! alone: the detector on recorded runs, without any of these.

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
