//! The first tokens: taken from the environment, written to files, or generated and printed once.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use super::ServeError;
use crate::model::Scope;
use crate::service::{Identity, NewToken, Service};

/// What `serve --help` says about tokens and the password.
pub(super) const HELP: &str = "\
Tokens:
  The first start generates one token of each scope and prints it once. To choose a token yourself, set
  KILL_SWITCH_ENFORCER_TOKEN, KILL_SWITCH_VIEWER_TOKEN or KILL_SWITCH_OPERATOR_TOKEN to at least 20 characters. Such a
  token is valid while the process runs and is never stored; no token is generated for its scope.

Dashboard:
  The first start generates a password and prints it once, or writes it to dashboard.password in the token folder. To
  choose it yourself, set KILL_SWITCH_DASHBOARD_PASSWORD to at least 12 characters; it stays valid for later starts.";

fn variable(scope: Scope) -> String {
    format!("KILL_SWITCH_{}_TOKEN", scope.as_str().to_uppercase())
}

/// Makes sure that each scope has a token. Returns the lines that tell the operator where they are.
pub(super) async fn prepare(service: &Service, dir: Option<&Path>) -> Result<Vec<String>, ServeError> {
    let is_first_start = service.tokens().await?.is_empty();
    let mut notices = Vec::new();
    for scope in Scope::ALL {
        let name = variable(scope);
        if let Some(secret) = std::env::var(&name).ok().filter(|secret| !secret.is_empty()) {
            service.fix_token(scope.as_str(), scope, &secret)?;
            notices.push(format!("{} token from {name}", scope.as_str()));
        } else if let Some(dir) = dir {
            notices.push(in_file(service, dir, scope).await?);
        } else if is_first_start {
            let NewToken { secret, .. } =
                service.create_token(scope.as_str(), scope, &Identity::command_line()).await?;
            notices.push(format!("{} token {secret} (shown once)", scope.as_str()));
        }
    }
    Ok(notices)
}

/// Makes sure that the file holds a valid token. If the file is missing, or holds a token that this database does not
/// know, a new token is generated.
async fn in_file(service: &Service, dir: &Path, scope: Scope) -> Result<String, ServeError> {
    let path = dir.join(format!("{}.token", scope.as_str()));
    let secret = fs::read_to_string(&path).unwrap_or_default();
    if service.identify(secret.trim()).is_none_or(|who| who.scope != scope) {
        // The file is written first, so that no token is created that cannot be written.
        write_secret(&path, "")?;
        let made = service.create_token(scope.as_str(), scope, &Identity::command_line()).await?;
        write_secret(&path, &made.secret)?;
    }
    Ok(format!("{} token in {}", scope.as_str(), path.display()))
}

/// Writes a secret to a file that only its owner can read. A folder that is missing is created for its owner only.
pub(super) fn write_secret(path: &Path, secret: &str) -> Result<(), ServeError> {
    let cannot = |error: std::io::Error| ServeError::File { path: path.to_owned(), reason: error.to_string() };
    let mut folder = DirBuilder::new();
    let mut options = OpenOptions::new();
    folder.recursive(true);
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    if let Some(dir) = path.parent() {
        folder.create(dir).map_err(cannot)?;
    }
    let mut file = options.open(path).map_err(cannot)?;
    // A file that exists keeps its mode when it is opened.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).map_err(cannot)?;
    writeln!(file, "{secret}").map_err(cannot)
}
