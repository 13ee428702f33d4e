//! The first tokens: given by environment, written to files, or made and printed once.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use super::ServeError;
use crate::model::Scope;
use crate::service::{NewToken, Service};

/// What `serve --help` says about them.
pub(super) const HELP: &str = "\
Tokens:
  At first start one token of each scope is made and printed, once. KILL_SWITCH_ENFORCER_TOKEN,
  KILL_SWITCH_VIEWER_TOKEN and KILL_SWITCH_OPERATOR_TOKEN give tokens of at least 20 characters instead, valid while
  the process runs and never stored; for such a scope none is made.

Dashboard:
  A password is made at first start and printed, once, or written to dashboard.password in the token folder.
  KILL_SWITCH_DASHBOARD_PASSWORD sets one of at least 12 characters instead, now and for later starts.";

fn variable(scope: Scope) -> String {
    format!("KILL_SWITCH_{}_TOKEN", scope.as_str().to_uppercase())
}

/// Makes sure that each scope has a token, and returns what the operator must be told.
pub(super) async fn prepare(service: &Service, dir: Option<&Path>) -> Result<Vec<String>, ServeError> {
    let is_first_start = service.tokens().await?.is_empty();
    let mut notices = Vec::new();
    for scope in Scope::ALL {
        let name = variable(scope);
        if let Some(secret) = std::env::var(&name).ok().filter(|secret| !secret.is_empty()) {
            service.fix_token(&name, scope, &secret)?;
            notices.push(format!("{} token from {name}", scope.as_str()));
        } else if let Some(dir) = dir {
            notices.push(in_file(service, dir, scope).await?);
        } else if is_first_start {
            let NewToken { secret, .. } = service.create_token(scope.as_str(), scope).await?;
            notices.push(format!("{} token {secret} (shown once)", scope.as_str()));
        }
    }
    Ok(notices)
}

/// Keeps the token in a file valid: one that is missing, or that this database does not know, is made anew.
async fn in_file(service: &Service, dir: &Path, scope: Scope) -> Result<String, ServeError> {
    let path = dir.join(format!("{}.token", scope.as_str()));
    let kept = fs::read_to_string(&path).unwrap_or_default();
    if service.identify(kept.trim()).is_none_or(|who| who.scope != scope) {
        // The file first: a token that cannot be written must not exist.
        write_secret(&path, "")?;
        let made = service.create_token(scope.as_str(), scope).await?;
        write_secret(&path, &made.secret)?;
    }
    Ok(format!("{} token in {}", scope.as_str(), path.display()))
}

/// Writes a secret where only its owner can read it.
pub(super) fn write_secret(path: &Path, secret: &str) -> Result<(), ServeError> {
    let cannot = |error: std::io::Error| ServeError::File { path: path.to_owned(), reason: error.to_string() };
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(cannot)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    writeln!(options.open(path).map_err(cannot)?, "{secret}").map_err(cannot)
}
