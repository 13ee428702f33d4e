//! The dashboard's password: taken from the environment, written to a file, or generated and printed once.

use std::path::Path;

use super::ServeError;
use super::tokens::write_secret;
use crate::service::Service;

/// Makes sure that there is a password. Returns the line that tells the operator where it is.
pub(super) async fn prepare(service: &Service, dir: Option<&Path>) -> Result<Option<String>, ServeError> {
    const VARIABLE: &str = "KILL_SWITCH_DASHBOARD_PASSWORD";
    if let Some(password) = std::env::var(VARIABLE).ok().filter(|password| !password.is_empty()) {
        service.set_password(&password).await?;
        return Ok(Some(format!("dashboard password from {VARIABLE}")));
    }
    if service.has_password().await? {
        return Ok(None);
    }
    let Some(password) = service.make_password().await? else { return Ok(None) };
    let Some(dir) = dir else { return Ok(Some(format!("dashboard password {password} (shown once)"))) };
    let path = dir.join("dashboard.password");
    write_secret(&path, &password)?;
    Ok(Some(format!("dashboard password in {}", path.display())))
}
