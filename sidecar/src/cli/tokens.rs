//! `kill-switch tokens`: made, listed and revoked through the API, or straight in the database for whoever lost the
//! last operator token.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use super::CliError;
use super::client::{Connection, token_path};
use super::output::{Format, Output, cell, print, print_json, table};
use crate::clock::{rfc3339, system_clock};
use crate::model::{Scope, Token};
use crate::serve::ServeError;
use crate::service::{Error, Limits, Service};
use crate::store::Location;

#[derive(Subcommand, Debug)]
pub(super) enum TokensCommand {
    /// Make a token and print its secret, once
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
    /// End a token's validity
    Revoke {
        /// The id that `list` shows
        token_id: String,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Args, Debug)]
pub(super) struct Place {
    /// Work on this database, a SQLite file or postgres://..., instead of asking the server, which notices within
    /// seconds
    #[arg(long, value_name = "FILE|URL")]
    db: Option<Location>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

fn parse_scope(word: &str) -> Result<Scope, String> {
    Scope::parse(word).ok_or_else(|| "must be enforcer, viewer or operator".to_owned())
}

impl TokensCommand {
    pub(super) async fn run(self) -> Result<(), CliError> {
        match self {
            Self::Create { name, scope, place } => create(&name, scope, &place).await,
            Self::List { place } => list(&place).await,
            Self::Revoke { token_id, place } => revoke(&token_id, &place).await,
        }
    }
}

async fn create(name: &str, scope: Scope, place: &Place) -> Result<(), CliError> {
    let made = match place.service().await? {
        Some(service) => {
            let made = service.create_token(name, scope).await.map_err(refused)?;
            view(&made.token, Some(&made.secret))
        }
        None => {
            let body = json!({"name": name, "scope": scope});
            place.connection.client()?.send(Method::POST, "/v1/tokens", Some(&body)).await?
        }
    };
    match place.output.format {
        Format::Json => print_json(&made),
        // The secret and nothing else, so that it can be piped to where it is needed.
        Format::Table => print(&format!("{}\n", cell(&made, "secret"))),
    }
}

async fn list(place: &Place) -> Result<(), CliError> {
    let tokens = match place.service().await? {
        Some(service) => {
            let tokens = service.tokens().await.map_err(refused)?;
            tokens.iter().map(|token| view(token, None)).collect()
        }
        None => {
            let body = place.connection.client()?.get("/v1/tokens").await?;
            body.get("tokens").and_then(Value::as_array).cloned().unwrap_or_default()
        }
    };
    show(&tokens, place.output)
}

async fn revoke(token_id: &str, place: &Place) -> Result<(), CliError> {
    match place.service().await? {
        Some(service) => service.revoke_token(token_id).await.map_err(refused),
        None => {
            let path = token_path(token_id);
            place.connection.client()?.send(Method::DELETE, &path, None).await.map(drop)
        }
    }
}

impl Place {
    async fn service(&self) -> Result<Option<Service>, CliError> {
        let Some(location) = &self.db else { return Ok(None) };
        if let Some(path) = location.file().filter(|path| !path.exists()) {
            return Err(CliError::File { path: path.to_owned(), reason: "there is no such database".to_owned() });
        }
        let cannot_open = |source| ServeError::Database { location: location.clone(), source };
        let store = location.open().await.map_err(cannot_open)?;
        let service = Service::new(store, system_clock(), Limits::default()).await.map_err(ServeError::Service)?;
        Ok(Some(service))
    }
}

fn refused(error: Error) -> CliError {
    let detail = error.to_string();
    match error {
        Error::NotFound { .. } => CliError::NotFound { detail },
        Error::Store(error) => CliError::Serve(ServeError::Store(error)),
        _ => CliError::Refused { detail },
    }
}

/// A token as the API shows it.
fn view(token: &Token, secret: Option<&str>) -> Value {
    let mut view = json!({
        "token_id": token.token_id,
        "name": token.name,
        "scope": token.scope,
        "created": rfc3339(token.created_ms),
        "revoked": token.revoked_ms.map(rfc3339),
    });
    if let (Some(secret), Some(members)) = (secret, view.as_object_mut()) {
        members.insert("secret".to_owned(), json!(secret));
    }
    view
}

fn show(tokens: &[Value], output: Output) -> Result<(), CliError> {
    if output.format == Format::Json {
        return print_json(&json!(tokens));
    }
    let members = ["token_id", "name", "scope", "created", "revoked"];
    let rows: Vec<_> = tokens.iter().map(|token| members.map(|member| cell(token, member))).collect();
    print(&table(["TOKEN", "NAME", "SCOPE", "CREATED", "REVOKED"], &rows))
}
