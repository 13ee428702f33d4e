//! People who have signed in at a proxy in front of the dashboard.
//!
//! An authenticating proxy such as oauth2-proxy says in a header who has signed in. Anybody can send such a header, so it is
//! believed only on connections from addresses that the operator has named. From elsewhere the whole request is refused: it
//! is an attempt to pass for somebody else, or a proxy that is missing in the list, and both should be noticed.

use axum::extract::Request;
use axum::http::{HeaderName, StatusCode};
use ipnet::IpNet;
use tokio::time::Instant;

use crate::api::failures::{Failures, peer_address};
use crate::api::problem::Problem;

/// The longest name of a person, in characters.
const MAX_NAME: usize = 200;

/// Which header names the person, and where it may come from.
#[derive(Clone, Debug)]
pub struct TrustedUsers {
    /// The header.
    pub header: HeaderName,
    /// The addresses and networks of the proxies.
    pub from: Vec<IpNet>,
}

/// The person whom a trusted proxy has named, as an extension of the request.
#[derive(Clone, Debug)]
pub(super) struct Person(pub String);

/// Adds the [`Person`] to a request that names one, or says why the request is refused. An empty name is no name.
///
/// Anybody can send a header that is refused, so of each address only a few a minute are logged.
pub(super) fn admit(users: &TrustedUsers, refused: &Failures, request: &mut Request) -> Result<(), Problem> {
    let values: Vec<_> = request.headers().get_all(&users.header).iter().collect();
    if values.is_empty() {
        return Ok(());
    }
    let (header, from) = (&users.header, peer_address(request));
    if !users.from.iter().any(|network| network.contains(&from)) {
        metrics::counter!("kill_switch_auth_failures_total").increment(1);
        if refused.count(from, Instant::now()).is_ok() {
            tracing::warn!(%from, %header, "the header that names a person came from an address that may not send it");
        }
        return Err(Problem::new(StatusCode::FORBIDDEN, format!("the header {header} may not come from {from}")));
    }
    let name = match values.as_slice() {
        [value] => str::from_utf8(value.as_bytes()).ok().map(str::trim),
        _ => None,
    };
    let is_name = |name: &&str| name.chars().count() <= MAX_NAME && !name.chars().any(char::is_control);
    let Some(name) = name.filter(is_name).map(str::to_owned) else {
        let detail = format!("the header {header} must be one name of at most {MAX_NAME} characters");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    };
    if !name.is_empty() {
        request.extensions_mut().insert(Person(name));
    }
    Ok(())
}
