//! The command line's client of the API.
//!
//! The token comes from the environment or from a file, never from an argument: every user of the machine can see the
//! arguments of a process.

use std::path::PathBuf;
use std::time::Duration;

use agent_kill_switch::printable::printable;
use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{ETAG, HeaderValue};
use reqwest::{Certificate, Method, RequestBuilder};
use serde_json::Value;

use super::CliError;
use super::output::{Format, list};
use crate::api::MARKER;
use crate::http_client::{self, cause};

const TIMEOUT: Duration = Duration::from_secs(30);
/// How many items of a list are fetched with one request.
pub(super) const PAGE: usize = 1_000;
/// Characters that are escaped in a segment of a path: all but those that RFC 3986 calls unreserved.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The options of every command that talks to the server.
#[derive(Args, Clone, Debug)]
pub(super) struct ServerOptions {
    /// Where the sidecar is
    #[arg(
        long,
        env = "KILL_SWITCH_SERVER",
        default_value = "http://127.0.0.1:8686",
        value_name = "URL",
        global = true,
        hide_env_values = true
    )]
    server: String,
    /// File that holds the token; without it, the token is taken from KILL_SWITCH_TOKEN
    #[arg(long, env = "KILL_SWITCH_TOKEN_FILE", value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// Certificate to trust in addition to the system's, PEM
    #[arg(long, env = "KILL_SWITCH_CA", value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
    /// How to print the result
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table, global = true)]
    pub(super) format: Format,
}

impl ServerOptions {
    /// Builds a client. Makes no request yet.
    pub(super) fn client(&self) -> Result<Client, CliError> {
        Ok(Client { base: self.base(), shown: self.shown(), token: self.token()?, http: self.http()? })
    }

    /// Returns the server's URL without a slash at its end.
    pub(super) fn base(&self) -> String {
        self.server.trim_end_matches('/').to_owned()
    }

    /// Returns the server's URL as it may be printed.
    pub(super) fn shown(&self) -> String {
        without_user(&self.base())
    }

    /// Builds a plain HTTP client, for requests that need no token.
    pub(super) fn http(&self) -> Result<reqwest::Client, CliError> {
        let mut builder = http_client::builder(TIMEOUT);
        if let Some(path) = &self.ca {
            let pem = std::fs::read(path).map_err(|error| CliError::file(path, error))?;
            let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| CliError::file(path, error))?;
            builder = builder.tls_certs_merge(certificates);
        }
        builder.build().map_err(|error| CliError::Unreachable { url: self.shown(), reason: cause(&error) })
    }

    fn token(&self) -> Result<String, CliError> {
        let token = match &self.token_file {
            Some(path) => std::fs::read_to_string(path).map_err(|error| CliError::file(path, error))?,
            None => std::env::var("KILL_SWITCH_TOKEN").unwrap_or_default(),
        };
        let token = token.trim();
        if token.is_empty() { Err(CliError::NoToken) } else { Ok(token.to_owned()) }
    }
}

/// A client of one server, with its token.
pub(super) struct Client {
    base: String,
    /// The URL of the server as it may be printed.
    shown: String,
    token: String,
    http: reqwest::Client,
}

impl Client {
    /// Starts a request, to be sent with [`Self::send`].
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.token)
    }

    /// Sends a request and returns the JSON of a successful answer, which is null if the answer has no body.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Value, CliError> {
        Ok(self.send_for_etag(request).await?.0)
    }

    /// Like [`Self::send`], but also returns the revision of what was answered, for a condition on the next change.
    pub(super) async fn send_for_etag(
        &self,
        request: RequestBuilder,
    ) -> Result<(Value, Option<HeaderValue>), CliError> {
        let unreachable = |reason| CliError::Unreachable { url: self.shown.clone(), reason };
        let response = request.send().await.map_err(|error| unreachable(cause(&error)))?;
        let status = response.status();
        if !response.headers().contains_key(MARKER) {
            return Err(unreachable(format!("something answers {status} there, but it is not a kill-switch")));
        }
        let etag = response.headers().get(ETAG).cloned();
        let text = response.text().await.unwrap_or_default();
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        if status.is_success() {
            return Ok((body, etag));
        }
        let detail = printable(body.get("detail").and_then(Value::as_str).unwrap_or(&text));
        Err(match status.as_u16() {
            401 | 403 => CliError::Unauthorised(detail),
            404 => CliError::NotFound(detail),
            400..=499 => CliError::Refused(detail),
            status => CliError::Server { status, detail },
        })
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, CliError> {
        self.send(self.request(Method::GET, path)).await
    }

    /// Fetches a list that comes in pages: at most `limit` items of it. Also returns whether the server has more of them.
    ///
    /// `name` is both the last part of the list's path and the member of each page that holds the items.
    pub(super) async fn pages(
        &self,
        name: &str,
        filter: &[(&str, Option<String>)],
        limit: usize,
    ) -> Result<(Vec<Value>, bool), CliError> {
        let mut items = Vec::new();
        let mut cursor = None;
        while items.len() < limit {
            let page_size = (limit - items.len()).min(PAGE).to_string();
            let query = query(&[filter, &[("limit", Some(page_size)), ("cursor", cursor)]].concat());
            let page = self.get(&format!("/v1/{name}?{query}")).await?;
            items.extend(list(&page, name));
            cursor = page.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        Ok((items, cursor.is_some()))
    }
}

/// Returns a URL without the name and the password of a user. Everything up to the last `@` is removed, because a password may
/// contain a slash or another `@` that is not escaped.
pub(super) fn without_user(url: &str) -> String {
    let Some((user, host)) = url.rsplit_once('@') else { return url.to_owned() };
    match user.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://{host}"),
        None => host.to_owned(),
    }
}

/// Builds a path such as `/v1/agents/team%2Fa/activate` from its segments.
pub(super) fn path<const N: usize>(segments: [&str; N]) -> String {
    let escaped = segments.map(|segment| format!("/{}", utf8_percent_encode(segment, ESCAPED)));
    format!("/v1{}", escaped.concat())
}

/// Builds a query string of those parameters that have a value.
pub(super) fn query(parameters: &[(&str, Option<String>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_url_is_not_printed() {
        for (url, expected) in [
            ("http://127.0.0.1:8686", "http://127.0.0.1:8686"),
            ("http://user:sesame@host:8686/base", "http://host:8686/base"),
            ("https://sesame@host", "https://host"),
            ("http://user:ses/ame@host", "http://host"),
            ("http://user:ses@me@host", "http://host"),
            ("user:sesame@host", "host"),
            ("user:sesame@http://host", "http://host"),
        ] {
            assert_eq!(without_user(url), expected);
        }
    }
}
