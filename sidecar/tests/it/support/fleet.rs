//! Tests that run over either database.

use std::sync::Arc;

use kill_switch::service::Limits;
use kill_switch::store::Store;

use super::Sidecar;

/// Starts a sidecar over a store that is otherwise empty.
pub async fn sidecar_over(store: Arc<Store>, limits: Limits) -> Sidecar {
    Sidecar::over(store, limits, tempfile::tempdir().unwrap()).await
}

/// Runs each behaviour, a function that takes an empty store, with SQLite and with PostgreSQL.
macro_rules! on_both_databases {
    ($($behaviour:ident),* $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $behaviour() {
                    let dir = tempfile::tempdir().unwrap();
                    let store = kill_switch::store::Store::sqlite(&dir.path().join("test.db")).await.unwrap();
                    super::$behaviour(std::sync::Arc::new(store)).await;
                }
            )*
        }

        mod postgres {
            $(
                #[tokio::test]
                async fn $behaviour() {
                    let Some(url) = crate::support::postgres::database().await else { return };
                    super::$behaviour(crate::store::open_postgres(&url).await).await;
                }
            )*
        }
    };
}

pub(crate) use on_both_databases;
