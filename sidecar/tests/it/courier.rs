//! The background task that delivers alerts: one receiver never delays another one, and no notice is forgotten.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use kill_switch::alerts::{AlertOptions, Guard, Lookup};
use kill_switch::service::Limits;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::receiver::Receiver;
use crate::support::{Sidecar, eventually, kill};

/// A receiver that accepts connections and never answers.
struct Hanging {
    url: String,
    connections: Arc<AtomicUsize>,
}

impl Hanging {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let connections = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            let mut open = Vec::new();
            loop {
                open.push(listener.accept().await.unwrap());
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { url, connections }
    }
}

async fn rule(sidecar: &Sidecar, target: &str) {
    sidecar.api.post("/v1/alerts", json!({"channel": "webhook", "target": target})).await.ok();
}

/// How often a receiver that hangs may be tried before the others have got everything. It is tried again only after ten
/// seconds, so this leaves two minutes.
const TRIES: usize = 50;

#[tokio::test]
async fn a_receiver_that_hangs_delays_only_its_own_notices() {
    const KILLS: usize = 100;
    // So many kills at once would otherwise be a storm, which has notices of its own.
    let limits = Limits { storm_kills: 0, ..Limits::default() };
    let (sidecar, hanging, healthy) = (Sidecar::with(limits).await, Hanging::start().await, Receiver::start().await);
    // Several rules share the receiver that hangs, and one of them was there before the healthy one.
    rule(&sidecar, &hanging.url).await;
    rule(&sidecar, &healthy.url).await;
    rule(&sidecar, &hanging.url).await;
    for n in 0..KILLS {
        sidecar.api.report("/v1/kills", kill(&format!("k{n}"), &format!("agent-{n}"), 1)).await.ok();
    }
    let courier = tokio::spawn(Arc::clone(&sidecar.alerts).run());
    eventually("the healthy receiver has got every notice", async || healthy.received().len() == KILLS).await;
    let tries = hanging.connections.load(Ordering::SeqCst);
    assert!((1..TRIES).contains(&tries), "{tries} connections to the receiver that hangs");
    sidecar.service.stop();
    courier.await.unwrap();
}

#[tokio::test]
async fn a_notice_is_not_sent_again_and_again_while_its_outcome_cannot_be_stored() {
    let (sidecar, receiver) = (Sidecar::start().await, Receiver::start().await);
    rule(&sidecar, &receiver.url).await;
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    receiver.answer(500);
    assert_eq!(sidecar.deliver().await, 1);
    receiver.take();
    receiver.answer(200);
    sidecar.pass(60);
    // The database can be read, and nothing can be written.
    let [file, elsewhere] = ["test.db", "elsewhere"].map(|name| sidecar.dir.path().join(name));
    std::fs::rename(&file, &elsewhere).unwrap();
    let courier = tokio::spawn(Arc::clone(&sidecar.alerts).run());
    eventually("the second attempt is made", async || !receiver.received().is_empty()).await;
    // Without a rest there would be hundreds by then. On a busy machine there are fewer, never more.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let count = receiver.received().len();
    assert!(count <= 2, "the same notice was sent {count} times");
    sidecar.service.stop();
    courier.await.unwrap();
}

#[tokio::test]
async fn many_receivers_that_hang_delay_only_notices_to_their_own_hosts() {
    const KILLS: usize = 30;
    // 20 addresses of one host, as different channels of Slack are, and 20 hosts. One at a time, each of them would fill all
    // places for attempts again and again.
    for hosts in [1, 20] {
        let limits = Limits { storm_kills: 0, ..Limits::default() };
        let (sidecar, healthy) = (Sidecar::with(limits).await, Receiver::start().await);
        let mut hanging = Vec::new();
        for _ in 0..hosts {
            hanging.push(Hanging::start().await);
        }
        for number in 0..20 {
            rule(&sidecar, &format!("{}/{number}", hanging[number % hosts].url)).await;
        }
        rule(&sidecar, &healthy.url).await;
        for n in 0..KILLS {
            sidecar.api.report("/v1/kills", kill(&format!("k{n}"), &format!("agent-{n}"), 1)).await.ok();
        }
        let courier = tokio::spawn(Arc::clone(&sidecar.alerts).run());
        eventually("the healthy receiver has got every notice", async || healthy.received().len() == KILLS).await;
        let tries: usize = hanging.iter().map(|one| one.connections.load(Ordering::SeqCst)).sum();
        // 64 at a time, and new ones after ten seconds. An earlier version made hundreds before the last notice arrived.
        assert!((1..200).contains(&tries), "{tries} connections to {hosts} hosts that hang");
        sidecar.service.stop();
        courier.await.unwrap();
    }
}

/// A resolver that panics the first time.
#[derive(Default)]
struct Panicking(AtomicUsize);

#[async_trait]
impl Lookup for Panicking {
    async fn addresses(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        assert_ne!(self.0.fetch_add(1, Ordering::SeqCst), 0, "a defect while resolving {host}");
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

#[tokio::test]
async fn an_attempt_that_panics_is_made_again_after_a_while() {
    let receiver = Receiver::start().await;
    let guard = Guard::anywhere(Arc::<Panicking>::default());
    let sidecar = Sidecar::with_alerts(guard, AlertOptions::default()).await;
    rule(&sidecar, &receiver.url.replace("127.0.0.1", "receiver.test")).await;
    let courier = tokio::spawn(Arc::clone(&sidecar.alerts).run());
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    let latest = async || -> Value { sidecar.api.get("/v1/alerts/history").await.ok()["deliveries"][0].clone() };
    eventually("the first attempt is recorded", async || latest().await["attempts"] == 1).await;
    let failed = latest().await;
    assert_eq!((&failed["status"], receiver.received().len()), (&json!("pending"), 0));
    assert_eq!(failed["last_error"], "the sidecar has a defect: the attempt panicked");
    assert_ne!(failed["next_attempt"], failed["last_attempt"], "there is a pause before the next attempt");
    sidecar.pass(5);
    eventually("the second attempt succeeds", async || latest().await["status"] == "delivered").await;
    assert_eq!((latest().await["attempts"].clone(), receiver.received().len()), (json!(2), 1));
    sidecar.service.stop();
    courier.await.unwrap();
}
