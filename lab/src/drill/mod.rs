//! Drills: faults with a real Envoy, the real sidecar and agents, and what they cost.
//!
//! In every drill some agents loop, which kills them, while others do honest work. A drill counts the kills that were lost or
//! recorded twice, and the honest agents that were stopped. All three must be 0. `make faults` runs every drill, and
//! `tests/envoy/faults.rs` runs those of the link between Envoy and the sidecar for a shorter time.

mod crash;
mod disk;
mod fleet;
mod link;
mod listener;
mod load;
mod stage;
mod table;
mod traffic;

pub use crash::{envoy_crashes, sidecar_crashes};
pub use disk::full_disk;
pub use fleet::{fleet, replicas};
pub use link::faulty_link;
pub use listener::listener_updates;
pub use load::{Load, load};
pub use stage::Stage;
pub use table::{Outcome, table, written};
pub use traffic::{Tally, Traffic};
