//! Webhooks are sent to public addresses only. Others are refused when a rule is saved, and again when connecting.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use kill_switch::alerts::{AlertOptions, Guard, Lookup};
use serde_json::json;

use crate::support::receiver::Receiver;
use crate::support::{Sidecar, kill};

/// A resolver that gives every name the same addresses.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<IpAddr>>>);

impl Names {
    fn set(&self, addresses: &[&str]) {
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

/// Targets that are refused, with spaces between them.
const REFUSED: &str = "
    https://127.0.0.1/ https://127.1/ https://127.0.1/ https://2130706433/ https://0x7f000001/
    https://0x7f.0.0.1/ https://0177.0.0.1/ https://017700000001/ https://127.0.0.1:8443/ https://0/
    https://0.0.0.0/ https://10.0.0.1/ https://10.255.255.255/ https://172.16.0.1/ https://172.31.9.9/
    https://192.168.0.1/ https://3232235521/ https://169.254.169.254/latest/meta-data/ https://2852039166/
    https://0xa9fea9fe/ https://0251.0376.0251.0376/ https://100.100.100.200/ https://168.63.129.16/
    https://192.0.0.192/ https://224.0.0.1/ https://255.255.255.255/ https://[::1]/ https://[::]/
    https://[::ffff:127.0.0.1]/ https://[::ffff:7f00:1]/ https://[::ffff:169.254.169.254]/
    https://[0:0:0:0:0:ffff:0a00:0001]/ https://[::127.0.0.1]/ https://[64:ff9b::127.0.0.1]/
    https://[2002:7f00:0001::]/ https://[fd00:ec2::254]/ https://[fc00::1]/ https://[fe80::1]/
    https://[ff02::1]/ https://[2001:db8::1]/ https://localhost/ https://LOCALHOST/ https://localhost./
    https://a.localhost/ https://metadata.google.internal/ https://printer.local/ https://intranet/
    https://１２７.０.０.１/ https://127。0。0。1/ https://example.com@127.0.0.1/ https://user:password@example.com/
    http://example.com/ ftp://example.com/ file:///etc/passwd gopher://127.0.0.1/ unix:/run/docker.sock
    https:// javascript:alert(1)
";

#[tokio::test]
async fn private_addresses_in_every_spelling_are_refused_when_a_rule_is_saved() {
    let names = Names::default();
    names.set(&["93.184.215.14"]);
    let sidecar = guarded(&names).await;
    let refused: Vec<&str> = REFUSED.split_whitespace().chain(["not a url"]).collect();
    assert!(refused.len() >= 30);
    for target in refused {
        for channel in ["webhook", "slack", "teams", "runtime"] {
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
}

#[tokio::test]
async fn a_name_with_a_private_address_is_refused_when_a_rule_is_saved_or_changed() {
    let names = Names::default();
    let sidecar = guarded(&names).await;
    for private in ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00::1", "::ffff:192.168.0.1"] {
        // One private address among public ones is enough.
        names.set(&["93.184.215.14", private]);
        let rule = json!({"channel": "webhook", "target": "https://rebind.example.com/"});
        let problem = sidecar.api.post("/v1/alerts", rule).await.problem(422);
        assert!(problem["detail"].as_str().unwrap().contains("not a public address"), "{problem}");
    }
    names.set(&["93.184.215.14"]);
    let rule = json!({"channel": "webhook", "target": "https://rebind.example.com/"});
    let rule = sidecar.api.post("/v1/alerts", rule).await.ok();
    let path = format!("/v1/alerts/{}", rule["rule_id"].as_str().unwrap());
    assert_eq!(sidecar.api.patch(&path, json!({"target": "https://10.0.0.1/"})).await.problem(422)["field"], "target");
}

#[tokio::test]
async fn a_name_that_gets_a_private_address_after_saving_is_not_connected_to() {
    let names = Names::default();
    let sidecar = guarded(&names).await;
    let receiver = Receiver::start().await;
    let port = receiver.url.rsplit_once(':').unwrap().1.trim_end_matches("/hook").to_owned();
    names.set(&["93.184.215.14"]);
    let target = format!("https://rebind.example.com:{port}/");
    sidecar.api.post("/v1/alerts", json!({"channel": "webhook", "target": target})).await.ok();
    names.set(&["127.0.0.1"]);
    sidecar.api.guarded("a").await;
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    assert_eq!(sidecar.deliver().await, 1);
    let history = sidecar.api.get("/v1/alerts/history").await.ok();
    let error = history["deliveries"][0]["last_error"].as_str().unwrap();
    assert!(error.contains("not a public address"), "{error}");
    assert!(receiver.received().is_empty());
}

#[tokio::test]
async fn a_private_target_that_was_saved_while_allowed_is_refused_at_connect_when_no_longer_allowed() {
    let receiver = Receiver::start().await;
    let sidecar = Sidecar::start().await;
    let rule = json!({"channel": "webhook", "target": receiver.url});
    sidecar.api.post("/v1/alerts", rule).await.ok();
    let guarded = Sidecar::over_same(&sidecar, Guard::public(Arc::new(Names::default()))).await;
    guarded.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    assert_eq!(guarded.deliver().await, 1);
    assert!(receiver.received().is_empty());
    assert_eq!(guarded.api.get("/v1/alerts/history").await.ok()["deliveries"][0]["attempts"], 1);
}
