//! Webhooks go to the public internet and nowhere else: refused when saved, and again when connected.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use kill_switch::alerts::{AlertOptions, Guard, Lookup};
use serde_json::json;

use crate::support::receiver::Receiver;
use crate::support::{Sidecar, kill};

/// A name server that answers whatever it is told.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<IpAddr>>>);

impl Names {
    fn say(&self, addresses: &[&str]) {
        *self.0.lock().unwrap() = addresses.iter().map(|address| address.parse().unwrap()).collect();
    }
}

#[async_trait]
impl Lookup for Names {
    async fn addresses(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(self.0.lock().unwrap().clone())
    }
}

async fn guarded(names: &Names) -> Sidecar {
    Sidecar::with_alerts(Guard::public(Arc::new(names.clone())), AlertOptions::default()).await
}

#[tokio::test]
async fn addresses_in_every_disguise_are_refused_when_a_rule_is_saved() {
    let names = Names::default();
    names.say(&["93.184.215.14"]);
    let sidecar = guarded(&names).await;
    let refused = [
        "https://127.0.0.1/",
        "https://127.1/",
        "https://127.0.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.0.0.1/",
        "https://0177.0.0.1/",
        "https://017700000001/",
        "https://127.0.0.1:8443/",
        "https://0/",
        "https://0.0.0.0/",
        "https://10.0.0.1/",
        "https://10.255.255.255/",
        "https://172.16.0.1/",
        "https://172.31.9.9/",
        "https://192.168.0.1/",
        "https://3232235521/",
        "https://169.254.169.254/latest/meta-data/",
        "https://2852039166/",
        "https://0xa9fea9fe/",
        "https://0251.0376.0251.0376/",
        "https://100.100.100.200/",
        "https://168.63.129.16/",
        "https://192.0.0.192/",
        "https://224.0.0.1/",
        "https://255.255.255.255/",
        "https://[::1]/",
        "https://[::]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://[0:0:0:0:0:ffff:0a00:0001]/",
        "https://[::127.0.0.1]/",
        "https://[64:ff9b::127.0.0.1]/",
        "https://[2002:7f00:0001::]/",
        "https://[fd00:ec2::254]/",
        "https://[fc00::1]/",
        "https://[fe80::1]/",
        "https://[ff02::1]/",
        "https://[2001:db8::1]/",
        "https://localhost/",
        "https://LOCALHOST/",
        "https://localhost./",
        "https://a.localhost/",
        "https://metadata.google.internal/",
        "https://printer.local/",
        "https://intranet/",
        "https://１２７.０.０.１/",
        "https://127。0。0。1/",
        "https://example.com@127.0.0.1/",
        "https://user:password@example.com/",
        "http://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "unix:/run/docker.sock",
        "https://",
        "not a url",
        "javascript:alert(1)",
    ];
    for target in refused {
        for channel in ["webhook", "slack"] {
            let problem =
                sidecar.api.post("/v1/alerts", json!({"channel": channel, "target": target})).await.problem(422);
            assert_eq!(problem["field"], "target", "{channel} {target}: {problem}");
        }
    }
    for target in
        ["https://example.com/", "https://8.8.8.8/", "https://[2606:4700::1111]/", "https://example.com:8443/x?y=z"]
    {
        sidecar.api.post("/v1/alerts", json!({"channel": "webhook", "target": target})).await.ok();
    }
    assert!(refused.len() >= 30);
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_when_a_rule_is_saved_or_changed() {
    let names = Names::default();
    let sidecar = guarded(&names).await;
    for inside in ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00::1", "::ffff:192.168.0.1"] {
        // One bad address among good ones is enough.
        names.say(&["93.184.215.14", inside]);
        let rule = json!({"channel": "webhook", "target": "https://rebind.example.com/"});
        let problem = sidecar.api.post("/v1/alerts", rule).await.problem(422);
        assert!(problem["detail"].as_str().unwrap().contains("not a public address"), "{problem}");
    }
    names.say(&["93.184.215.14"]);
    let rule = json!({"channel": "webhook", "target": "https://rebind.example.com/"});
    let made = sidecar.api.post("/v1/alerts", rule).await.ok();
    let path = format!("/v1/alerts/{}", made["rule_id"].as_str().unwrap());
    assert_eq!(sidecar.api.patch(&path, json!({"target": "https://10.0.0.1/"})).await.problem(422)["field"], "target");
}

#[tokio::test]
async fn a_name_that_changes_its_mind_after_saving_is_not_connected_to() {
    let names = Names::default();
    let sidecar = guarded(&names).await;
    let receiver = Receiver::start().await;
    let port = receiver.url.rsplit_once(':').unwrap().1.trim_end_matches("/hook").to_owned();
    names.say(&["93.184.215.14"]);
    let target = format!("https://rebind.example.com:{port}/");
    sidecar.api.post("/v1/alerts", json!({"channel": "webhook", "target": target})).await.ok();
    names.say(&["127.0.0.1"]);
    sidecar.api.guarded("a").await;
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    assert_eq!(sidecar.deliver().await, 1);
    let history = sidecar.api.get("/v1/alerts/history").await.ok();
    let error = history["deliveries"][0]["last_error"].as_str().unwrap();
    assert!(error.contains("not a public address"), "{error}");
    assert!(receiver.received().is_empty());
}

#[tokio::test]
async fn a_private_target_saved_while_it_was_allowed_is_refused_at_connect_once_it_is_not() {
    let receiver = Receiver::start().await;
    let sidecar = Sidecar::start().await;
    let rule = json!({"channel": "webhook", "target": receiver.url});
    sidecar.api.post("/v1/alerts", rule).await.ok();
    let strict = Sidecar::over_same(&sidecar, Guard::public(Arc::new(Names::default()))).await;
    strict.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    assert_eq!(strict.deliver().await, 1);
    assert!(receiver.received().is_empty());
    assert_eq!(strict.api.get("/v1/alerts/history").await.ok()["deliveries"][0]["attempts"], 1);
}
