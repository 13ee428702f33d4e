//! `kill-switch tokens`: makes, lists and revokes tokens.
//!
//! This works through the API, or with `--db` directly on the database, for somebody who lost the last operator token.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

use super::CliError;
use super::client::{ServerOptions, path};
use super::output::{Format, cell, cells, list, print, print_json, print_list};
use crate::clock::system_clock;
use crate::model::Scope;
use crate::serve::ServeError;
use crate::service::{Error, Identity, Limits, Service};
use crate::store::Location;

#[derive(Subcommand, Debug)]
pub(super) enum TokensCommand {
    /// Make a token and print its secret, which is never shown again
    Create {
        /// What it is for; events name it
        #[arg(long)]
        name: String,
        /// enforcer (filters), viewer (reads) or operator (reads and changes)
        #[arg(long, value_parser = parse_scope)]
        scope: Scope,
        #[command(flatten)]
        place: Place,
    },
    /// List tokens, without their secrets
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Make a token invalid
    Revoke {
        /// The id that `list` shows
        token_id: String,
        #[command(flatten)]
        place: Place,
    },
}

/// Where the tokens are.
#[derive(Args, Debug)]
pub(super) struct Place {
    /// Work on this database, a SQLite file or postgres://..., instead of asking the server, which notices within
    /// seconds
    #[arg(long, value_name = "FILE|URL")]
    db: Option<Location>,
    #[command(flatten)]
    server: ServerOptions,
}

fn parse_scope(word: &str) -> Result<Scope, String> {
    Scope::parse(word).ok_or_else(|| "must be enforcer, viewer or operator".to_owned())
}

impl TokensCommand {
    pub(super) async fn run(self) -> Result<(), CliError> {
        match self {
            Self::Create { name, scope, place } => create(&name, scope, &place).await,
            Self::List { place } => list_all(&place).await,
            Self::Revoke { token_id, place } => revoke(&token_id, &place).await,
        }
    }
}

async fn create(name: &str, scope: Scope, place: &Place) -> Result<(), CliError> {
    let token = match place.service().await? {
        Some(service) => json!(service.create_token(name, scope, &Identity::command_line()).await.map_err(refused)?),
        None => {
            let client = place.server.client()?;
            let body = json!({"name": name, "scope": scope});
            client.send(client.request(Method::POST, "/v1/tokens").json(&body)).await?
        }
    };
    match place.server.format {
        Format::Json => print_json(&token),
        // Only the secret, so that it can be piped to where it is needed.
        Format::Table => print(&format!("{}\n", cell(&token, "secret"))),
    }
}

async fn list_all(place: &Place) -> Result<(), CliError> {
    let tokens = match place.service().await? {
        Some(service) => service.tokens().await.map_err(refused)?.iter().map(|token| json!(token)).collect(),
        None => list(&place.server.client()?.get("/v1/tokens").await?, "tokens"),
    };
    let heading = ["TOKEN", "NAME", "SCOPE", "CREATED", "REVOKED"];
    let members = ["token_id", "name", "scope", "created", "revoked"];
    print_list(place.server.format, tokens, heading, |token| cells(token, members))
}

async fn revoke(token_id: &str, place: &Place) -> Result<(), CliError> {
    match place.service().await? {
        Some(service) => service.revoke_token(token_id, &Identity::command_line()).await.map_err(refused),
        None => {
            let client = place.server.client()?;
            client.send(client.request(Method::DELETE, &path(["tokens", token_id]))).await.map(drop)
        }
    }
}

impl Place {
    /// Opens the database that `--db` names. Returns `None` if it was not given.
    async fn service(&self) -> Result<Option<Service>, CliError> {
        let Some(location) = &self.db else { return Ok(None) };
        if let Some(path) = location.file().filter(|path| !path.exists()) {
            return Err(CliError::file(path, "there is no such database"));
        }
        let cannot_open = |source| ServeError::Database { location: location.clone(), source };
        let store = location.open().await.map_err(cannot_open)?;
        let service = Service::new(store, system_clock(), Limits::default()).await.map_err(ServeError::Service)?;
        Ok(Some(service))
    }
}

fn refused(error: Error) -> CliError {
    match error {
        Error::NotFound { .. } => CliError::NotFound(error.to_string()),
        Error::Store(error) => CliError::Serve(ServeError::Store(error)),
        _ => CliError::Refused(error.to_string()),
    }
}
