//! The table of the rules of policy files.

use super::row::readable;
use super::{Connection, Result, Row, Statement, Store, StoreError, Tx};
use crate::model::PolicyRule;

fn rule(row: &Row) -> Result<PolicyRule> {
    let settings = row.text("settings")?;
    let corrupt = |_| StoreError::Corrupt { column: "settings", value: settings.clone() };
    Ok(PolicyRule {
        file: row.text("file")?,
        pattern: row.text("pattern")?,
        settings: serde_json::from_str(&settings).map_err(corrupt)?,
    })
}

async fn all(connection: &mut dyn Connection) -> Result<Vec<PolicyRule>> {
    let statement = Statement::new("SELECT file, pattern, settings FROM policy_rules ORDER BY file, position");
    readable("policy_rules", "pattern", &connection.rows(statement).await?, rule)
}

impl Store {
    /// Returns the rules of all files, in the order in which they are tried.
    pub async fn policy_rules(&self) -> Result<Vec<PolicyRule>> {
        all(self.database.reader().await?.as_mut()).await
    }
}

impl Tx {
    /// Returns the rules of all files, in the order in which they are tried.
    pub async fn policy_rules(&mut self) -> Result<Vec<PolicyRule>> {
        all(self.connection()).await
    }

    /// Replaces the rules of a file by these, which are in the order in which they are tried.
    pub async fn replace_policy_rules(&mut self, file: &str, rules: &[PolicyRule]) -> Result<()> {
        self.connection().run(Statement::new("DELETE FROM policy_rules WHERE file = $1").bind(file)).await?;
        for (position, rule) in (0_u64..).zip(rules) {
            let statement =
                Statement::new("INSERT INTO policy_rules (file, position, pattern, settings) VALUES ($1, $2, $3, $4)");
            let settings = serde_json::Value::Object(rule.settings.clone()).to_string();
            let statement = statement.bind(file).bind(position).bind(&rule.pattern).bind(settings);
            self.connection().run(statement).await?;
        }
        Ok(())
    }
}
