//! Who looks at a page: the session that a cookie belongs to, or the person whom a trusted proxy has named.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, header};
use cookie::time::Duration;
use cookie::{Cookie, SameSite};

use super::Dashboard;
use super::error::{Refusal, Result};
use super::people::Person;
use crate::api::identified::OnIdentified;
use crate::model::Pause;
use crate::service::{Caller, Identity, Precondition};

/// A visitor who is signed in.
#[derive(Clone)]
pub(super) struct Visitor {
    pub who: Identity,
    /// The cookie of the session. `None` if a trusted proxy has named the visitor, who then signs out there.
    pub cookie: Option<String>,
    /// The key that every form of this visitor must carry.
    pub form_key: String,
    /// The address of the page, as a path and a query.
    pub here: String,
    /// The pause of the fleet, which every page shows while it is in force.
    pub pause: Option<Pause>,
}

impl Visitor {
    /// Returns this visitor as the caller of a change.
    pub(super) fn caller(&self) -> Caller {
        Caller { who: self.who.clone(), precondition: Precondition::None }
    }
}

impl FromRequestParts<Dashboard> for Visitor {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, dashboard: &Dashboard) -> Result<Self> {
        // After signing in, the visitor gets the page that they asked for. A form is not sent again.
        let sign_in = || match parts.uri.path_and_query() {
            Some(uri) if parts.method == Method::GET => Refusal::SignIn(uri.to_string()),
            _ => Refusal::SignIn("/".to_owned()),
        };
        let (who, cookie, form_key) = match parts.extensions.get::<Person>() {
            Some(Person(name)) => (Identity::person(name), None, dashboard.service.form_key_of_person(name).await?),
            None => {
                let cookie = cookie(&parts.headers, dashboard.session_cookie()).ok_or_else(sign_in)?;
                let who = dashboard.service.session(&cookie).await?.ok_or_else(sign_in)?;
                let form_key = dashboard.service.form_key(&cookie);
                (who, Some(cookie), form_key)
            }
        };
        OnIdentified::call(&parts.extensions);
        let here = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        let pause = dashboard.service.pause().await?;
        Ok(Self { who, cookie, form_key, here, pause })
    }
}

/// Returns the value of the cookie with this name.
pub(super) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut cookies = lines.flat_map(Cookie::split_parse).flatten();
    cookies.find(|cookie| cookie.name() == name).map(|cookie| cookie.value().to_owned())
}

impl Dashboard {
    /// The name of the cookie that holds the session. The prefix `__Host-` binds it to this host and to HTTPS.
    pub(super) fn session_cookie(&self) -> &'static str {
        if self.is_https { "__Host-kill_switch_session" } else { "kill_switch_session" }
    }

    /// The name of the cookie that the sign-in form is bound to.
    pub(super) fn login_cookie(&self) -> &'static str {
        if self.is_https { "__Host-kill_switch_login" } else { "kill_switch_login" }
    }

    /// Returns the header that sets a cookie. Scripts cannot read it, and other sites cannot send it with a form.
    pub(super) fn set_cookie(&self, name: &'static str, value: &str, seconds: i64) -> [(HeaderName, String); 1] {
        let cookie = Cookie::build((name, value))
            .http_only(true)
            .same_site(SameSite::Lax)
            .secure(self.is_https)
            .path("/")
            .max_age(Duration::seconds(seconds));
        [(header::SET_COOKIE, cookie.build().to_string())]
    }
}
