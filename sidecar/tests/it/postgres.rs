//! What PostgreSQL must do beyond the suite for both databases: several stores share one database.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use kill_switch::model::{Agent, Delivery, DeliveryStatus};
use kill_switch::store::{Store, StoreError};
use tokio::time::timeout;

use crate::store::alerts::delivery;
use crate::store::{commit, no_number_is_missed, no_update_is_lost, open_postgres};
use crate::support::postgres::{PASSWORD, count, database, execute, shared};
use crate::support::process::{Process, binary, cli};
use crate::support::{SOON, eventually};

/// Opens two stores over one database, as two replicas do.
async fn two() -> Option<(String, [Arc<Store>; 2])> {
    let url = database().await?;
    let stores = [open_postgres(&url).await, open_postgres(&url).await];
    Some((url, stores))
}

async fn save(store: &Store, id: &str) {
    commit(store, async |tx| tx.save_agent(&Agent::new(id, 1)).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_two_replicas_wait_for_each_other_and_no_number_is_missed() {
    let Some((_, stores)) = two().await else { return };
    no_number_is_missed(&stores).await;
    no_update_is_lost(&stores).await;
}

#[tokio::test]
async fn a_writer_that_waits_too_long_for_another_gets_a_transient_error() {
    let Some((_, [one, other])) = two().await else { return };
    let tx = one.begin().await.unwrap();
    let Err(error) = other.begin().await else { panic!("two writers at once") };
    assert!(matches!(error, StoreError::Busy(_)) && error.is_transient(), "{error}");
    assert_eq!(other.meta().await.unwrap().rev, 0, "readers do not wait");
    drop(tx);
    save(&other, "a").await;
}

#[tokio::test]
async fn stores_that_open_at_the_same_time_create_one_schema() {
    let Some(url) = database().await else { return };
    let opened = futures_util::future::join_all((0..4).map(|_| Store::postgres(&url))).await;
    let mut epochs = Vec::new();
    for store in opened {
        epochs.push(store.unwrap().meta().await.unwrap().epoch);
    }
    epochs.dedup();
    assert_eq!(epochs.len(), 1);
}

#[tokio::test]
async fn the_default_settings_of_the_database_do_not_weaken_transactions() {
    let Some(url) = database().await else { return };
    let name = url.rsplit('/').next().unwrap();
    execute(&url, &format!("ALTER DATABASE {name} SET synchronous_commit = off")).await;
    execute(&url, &format!("ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")).await;
    let stores = [open_postgres(&url).await, open_postgres(&url).await];
    execute(
        &url,
        "CREATE FUNCTION check_settings() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF current_setting('synchronous_commit') <> 'on' THEN RAISE 'a commit would not be durable'; END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER check_settings BEFORE UPDATE ON meta FOR EACH ROW EXECUTE FUNCTION check_settings();",
    )
    .await;
    no_update_is_lost(&stores).await;
}

#[tokio::test]
async fn commits_of_another_replica_are_noticed_even_if_their_notification_is_missed() {
    let Some((url, [one, other])) = two().await else { return };
    let noticed = async |what: &str| {
        timeout(SOON, one.changed_elsewhere()).await.unwrap_or_else(|_| panic!("not noticed: {what}"));
    };
    noticed("the start of listening, before which anything may have happened").await;

    for id in ["a", "b", "c"] {
        save(&one, "own").await;
        let (_, ()) = tokio::join!(save(&other, id), noticed("a commit"));
    }

    execute(&url, "UPDATE meta SET commits = commits + 1").await;
    noticed("a commit without a notification").await;
    noticed("the start of listening on a new connection").await;

    let listening = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE query LIKE 'LISTEN%' AND datname = current_database()";
    let (_, ()) = tokio::join!(execute(&url, listening), noticed("a lost connection"));
    let (_, ()) = tokio::join!(save(&other, "d"), noticed("a commit after that"));
}

#[tokio::test]
async fn a_replica_is_not_woken_by_its_own_commits() {
    let Some((_, [one, _])) = two().await else { return };
    one.changed_elsewhere().await;
    let mut listening = Box::pin(one.changed_elsewhere());
    for _ in 0..3 {
        // Long enough for the notification to arrive, and shorter than the interval of polling.
        save(&one, "own").await;
        assert!(timeout(Duration::from_millis(300), &mut listening).await.is_err());
    }
}

#[tokio::test]
async fn an_attempt_belongs_to_the_replica_that_claimed_it_first() {
    let Some((_, [one, other])) = two().await else { return };
    let pending = delivery("d", "r", 1, DeliveryStatus::Pending);
    commit(&one, async |tx| tx.add_delivery(&pending).await.unwrap()).await;
    let due = async |store: &Arc<Store>| store.due_deliveries(10, 9).await.unwrap();
    let claim = async |store: &Arc<Store>, delivery: &Delivery, seconds: u64| {
        store.claim_delivery(delivery, Duration::from_secs(seconds)).await.unwrap()
    };
    let first = due(&one).await.remove(0);
    let (by_one, by_other) = tokio::join!(claim(&one, &first, 60), claim(&other, &first, 60));
    assert!(by_one != by_other, "exactly one of them");
    assert!(due(&one).await.is_empty() && due(&other).await.is_empty(), "it is under way");

    let failed = Delivery { attempts: 1, last_error: "not now".to_owned(), ..first.clone() };
    commit(&one, async |tx| tx.save_delivery(&failed).await.unwrap()).await;
    assert!(!claim(&other, &first, 60).await, "that attempt was made");
    let again = due(&other).await.remove(0);
    assert!(claim(&other, &again, 0).await);
    assert!(claim(&one, &again, 60).await, "the lease is over");

    for status in [DeliveryStatus::Delivered, DeliveryStatus::Pending] {
        let second = Delivery { status, attempts: 2, ..again.clone() };
        commit(&one, async |tx| tx.save_delivery(&second).await.unwrap()).await;
    }
    assert_eq!(one.pending_deliveries().await.unwrap(), 0, "a delivered notice stays delivered");
}

#[tokio::test]
async fn tls_and_the_check_of_certificates_can_be_required() {
    let Some(url) = database().await else { return };
    let certificate = shared().unwrap().certificate();
    let encrypted = async || {
        let connections = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
             WHERE ssl AND application_name = 'kill-switch' AND datname = current_database()";
        count(&url, connections).await
    };
    let plain = Store::postgres(&format!("{url}?sslmode=disable")).await.unwrap();
    assert_eq!(encrypted().await, 0);
    plain.close().await;
    for parameters in
        ["sslmode=require".to_owned(), format!("sslmode=verify-full&sslrootcert={}", certificate.display())]
    {
        let store = Store::postgres(&format!("{url}?{parameters}")).await.unwrap();
        assert!(encrypted().await > 0, "{parameters}");
        store.close().await;
    }
    assert!(Store::postgres(&format!("{url}?sslmode=verify-full")).await.is_err(), "the certificate is not trusted");
}

#[tokio::test]
async fn errors_about_the_url_do_not_contain_its_password() {
    let Some(url) = database().await else { return };
    let cluster = shared().unwrap();
    execute(&cluster.url("postgres"), "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0").await;
    let port = cluster.port();
    for (url, says) in [
        (format!("postgres://kill_switch:{PASSWORD}@127.0.0.1:{port}/nowhere"), "does not exist"),
        (format!("postgres://kill_switch:{PASSWORD}-wrong@127.0.0.1:{port}/postgres"), "authentication failed"),
        (format!("postgres://kill_switch:{PASSWORD}@127.0.0.1:odd/postgres"), "invalid port number"),
        (format!("{url}?passwort={PASSWORD}"), "passwort must be one of"),
        (format!("{url}?sslmode=perhaps"), "ssl_mode"),
        (cluster.url("latin"), "its encoding (LATIN1) must be UTF8"),
        (format!("postgres:kill_switch:{PASSWORD}@127.0.0.1/name"), "postgres: is not understood"),
        (format!("postgresql+x://kill_switch:{PASSWORD}@127.0.0.1/name"), "postgresql+x:// is not understood"),
        (format!(" mysql://kill_switch:{PASSWORD}@127.0.0.1/name"), "mysql:// is not understood"),
        (format!("mysql://kill_switch:{PASSWORD}@127.0.0.1/name"), "mysql:// is not understood"),
    ] {
        for arguments in [vec!["serve", "--listen", "127.0.0.1:0", "--log", "trace"], vec!["doctor"]] {
            let mut command = binary();
            let output = command.args(&arguments).env("KILL_SWITCH_DB", &url).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{says}");
            let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
            assert!(said.contains(says), "{says}: {said}");
            assert!(!said.contains(PASSWORD), "{says}: {said}");
        }
    }
    let help = binary().args(["serve", "--help"]).env("KILL_SWITCH_DB", &url).output().unwrap();
    assert!(!String::from_utf8_lossy(&help.stdout).contains(PASSWORD));
}

#[tokio::test]
async fn commands_that_open_the_database_accept_the_url() {
    let Some(url) = database().await else { return };
    let dir = tempfile::tempdir().unwrap();
    let replica = Process::replica(dir.path(), &url, &[]);
    assert!(replica.said.iter().any(|line| line.starts_with("database postgres://kill_switch@127.0.0.1:")));
    assert!(replica.said.iter().all(|line| !line.contains(PASSWORD)), "{:?}", replica.said);

    let made = binary().args(["tokens", "create", "--name", "lost", "--scope", "operator", "--db", &url]).output();
    let mut api = replica.api.clone();
    api.operator = String::from_utf8(made.unwrap().stdout).unwrap().trim().to_owned();
    eventually("the running server accepts the token", || async { api.get("/v1/agents").await.status == 200 }).await;
    let listed = binary().args(["tokens", "list", "--db", &url]).output().unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains("lost"));

    let doctor = cli(dir.path(), &api, &["doctor", "--db", &url]);
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(doctor.status.success(), "{said}");
    assert!(said.contains("can be written; revision 0") && !said.contains(PASSWORD), "{said}");
}

#[tokio::test]
async fn a_dump_that_is_restored_elsewhere_is_the_same_database() {
    let Some((url, [one, _])) = two().await else { return };
    let cluster = shared().unwrap();
    save(&one, "a").await;
    let meta = one.meta().await.unwrap();
    let dump = cluster.program("pg_dump").args(["--format=custom", &url]).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), dump.stdout).unwrap();
    let copy = cluster.database().await;
    let mut restore: Command = cluster.program("pg_restore");
    let done = restore.args(["--exit-on-error", "--no-owner", "--dbname", &copy]).arg(file.path()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let restored = open_postgres(&copy).await;
    assert_eq!(restored.meta().await.unwrap(), meta);
    save(&restored, "b").await;
    assert_eq!(restored.meta().await.unwrap().rev, 2);
}
