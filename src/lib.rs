//! Agent Kill Switch: an Envoy filter that stops AI agents that are stuck in loops.
//!
//! The way of a request, from top to bottom:
//!
//! 1. [`stream`] receives the request from the [`host`]. [`identity`] finds the agent's id in the [`headers`], and [`session`]
//!    the id of the conversation.
//! 2. [`agent`] reads the agent's record from [`shared`] data. If the agent is inactive, [`reply`] words the refusal.
//! 3. [`decode`] reads the body and feeds its text to [`fingerprint`]. The result is a [`turn`]. Both are built on [`scan`].
//! 4. [`detect`] adds the turn to the agent's window, scores it, and decides.
//! 5. [`reply`] words the refusal if the verdict is a kill, and [`link`] reports it to the sidecar. Otherwise the request
//!    is forwarded, and the answer is read as it streams past and attached to its call.
//!
//! Off the way: [`config`] is the filter's configuration, [`policy`] the settings of an agent, [`wire`] the types that are
//! exchanged with the sidecar, [`entries`] the calls that it is told of, [`worker`] what the streams of one worker share, [`pause`] the pause of the whole fleet,
//! [`metrics`] what is counted, [`printable`] how text from outside is shown to people.

pub mod agent;
pub mod codec;
pub mod config;
pub mod decode;
pub mod detect;
pub mod entries;
pub mod fingerprint;
pub mod headers;
pub mod host;
pub mod identity;
pub mod link;
pub mod metrics;
pub mod pause;
pub mod policy;
pub mod printable;
pub mod reply;
pub mod scan;
pub mod session;
pub mod shared;
pub mod stream;
pub mod turn;
pub mod wire;
pub mod worker;
