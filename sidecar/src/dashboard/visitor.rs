//! Who looks at the page: the session behind the cookie.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};

use super::Dashboard;
use super::error::{Refusal, Result};
use crate::service::{Caller, Identity, Precondition};

/// Somebody who is signed in.
#[derive(Clone)]
pub(super) struct Visitor {
    pub who: Identity,
    pub cookie: String,
    /// What this visitor's forms must carry.
    pub form_key: String,
}

impl Visitor {
    /// The visitor as the one who asks for a change.
    pub(super) fn caller(&self) -> Caller {
        Caller { who: self.who.clone(), precondition: Precondition::None }
    }
}

impl FromRequestParts<Dashboard> for Visitor {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, dashboard: &Dashboard) -> Result<Self> {
        let next = parts.uri.path_and_query().map_or("/", |uri| uri.as_str()).to_owned();
        let nobody = || Refusal::SignIn(if parts.method == "GET" { next.clone() } else { "/".to_owned() });
        let cookie = cookie(&parts.headers, dashboard.session_cookie()).ok_or_else(nobody)?.to_owned();
        let who = dashboard.service.session(&cookie).await?.ok_or_else(nobody)?;
        let form_key = dashboard.service.form_key(&cookie);
        Ok(Self { who, cookie, form_key })
    }
}

/// A cookie's value.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(own, _)| *own == name).map(|(_, value)| value)
}

impl Dashboard {
    /// The name of the session's cookie: `__Host-` pins it to this host and to HTTPS.
    pub(super) fn session_cookie(&self) -> &'static str {
        if self.is_https { "__Host-kill_switch_session" } else { "kill_switch_session" }
    }

    /// The name of the cookie that the sign-in form is bound to.
    pub(super) fn login_cookie(&self) -> &'static str {
        if self.is_https { "__Host-kill_switch_login" } else { "kill_switch_login" }
    }

    /// A cookie that scripts cannot read and other sites cannot send along with a form.
    pub(super) fn set_cookie(&self, name: &str, value: &str, seconds: u64) -> String {
        let secure = if self.is_https { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
    }
}
