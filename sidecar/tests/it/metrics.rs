//! The metrics of the sidecar.

use reqwest::Method;
use serde_json::json;

use crate::support::{Api, Sidecar, kill};

#[tokio::test]
async fn kills_latencies_sync_ages_and_the_outbox_have_metrics() {
    let sidecar = Sidecar::guarding("an-agent-of-the-metrics").await;
    sidecar.api.report("/v1/kills", kill("k", "an-agent-of-the-metrics", 1)).await.ok();
    let seen = json!({"agents": [{"agent_id": "a", "requests": 3, "refused": 1}]});
    sidecar.api.report("/v1/observations", seen).await.ok();
    sidecar.service.write_observations().await.unwrap();
    sidecar.api.sync("envoy=quo\"ted").await;
    let metrics = sidecar.api.get("/metrics").await;
    assert_eq!(metrics.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    for line in [
        "kill_switch_kills_total{outcome=\"applied\"} ",
        "kill_switch_requests_refused_total ",
        "kill_switch_api_request_seconds_bucket{method=\"PUT\",route=\"/v1/agents/{agent_id}\",status=\"201\",le=\"0.005\"}",
        "kill_switch_sync_age_seconds{envoy=\"quo\\\"ted\"} 0",
        "kill_switch_alert_outbox_depth 1",
        "kill_switch_revision 3",
    ] {
        assert!(metrics.text.lines().any(|found| found.starts_with(line)), "{line} in {}", metrics.text);
    }
    assert!(
        !metrics.text.contains("an-agent-of-the-metrics"),
        "agent ids are not labels, because there is no limit to their number"
    );
}

#[tokio::test]
async fn methods_that_a_stranger_invents_have_one_label_together() {
    let sidecar = Sidecar::start().await;
    for number in 0..20 {
        let method = Method::from_bytes(format!("INVENTED-{number}").as_bytes()).unwrap();
        let stranger = sidecar.api.http.request(method, format!("{}/healthz", sidecar.api.base));
        assert!(Api::take(stranger).await.status.is_client_error(), "{number}");
    }
    let metrics = sidecar.api.get("/metrics").await.text;
    assert!(!metrics.contains("INVENTED"), "{metrics}");
    let refused = "kill_switch_api_request_seconds_count{method=\"other\",route=\"/healthz\",status=\"401\"}";
    assert!(metrics.contains(refused), "{metrics}");
}
