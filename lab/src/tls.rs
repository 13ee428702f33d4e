//! Certificates, and a client that shows them. Both use the openssl command: one test does not justify a TLS library.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use crate::skip;

/// A certificate for each side, in a folder that is removed with this value.
#[derive(Debug)]
pub struct Tls {
    folder: TempDir,
}

/// The client of a TLS call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It shows the client's certificate.
    Certified,
    /// It has no certificate.
    Anonymous,
}

impl Tls {
    /// Makes a certificate for the server and one for a client that is called `client_uri`. Returns `None`, and notes
    /// that the test is skipped, if openssl is not installed.
    pub fn make(client_uri: &str) -> Option<Tls> {
        let folder = TempDir::with_prefix("lab-tls-").expect("the temporary folder can be written");
        let tls = Tls { folder };
        for (name, alternative) in [("server", "DNS:llm".to_owned()), ("client", format!("URI:{client_uri}"))] {
            let mut openssl = Command::new("openssl");
            openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
            openssl.args(["-days", "2", "-subj", "/CN=lab", "-addext"]).arg(format!("subjectAltName={alternative}"));
            openssl.arg("-keyout").arg(tls.key(name)).arg("-out").arg(tls.certificate(name)).stderr(Stdio::null());
            match openssl.status() {
                Ok(made) => assert!(made.success(), "openssl could not make a certificate: {openssl:?}"),
                Err(error) => {
                    skip::because(&format!("openssl, which makes certificates, cannot be run: {error}"));
                    return None;
                }
            }
        }
        Some(tls)
    }

    /// Returns a listener's transport socket: it has the server's certificate, and accepts the client's but does not
    /// require it.
    pub fn transport_socket(&self) -> Value {
        let file = |path: PathBuf| json!({"filename": path});
        json!({
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                "common_tls_context": {
                    "tls_certificates": [{
                        "certificate_chain": file(self.certificate("server")),
                        "private_key": file(self.key("server")),
                    }],
                    "validation_context": {"trusted_ca": file(self.certificate("client"))},
                },
            },
        })
    }

    /// Sends a request that ends its connection, and returns the response, head and body.
    pub async fn call(&self, address: SocketAddr, peer: Peer, request: &str) -> String {
        let mut openssl = tokio::process::Command::new("openssl");
        openssl.args(["s_client", "-quiet", "-connect", &address.to_string()]);
        if peer == Peer::Certified {
            openssl.arg("-cert").arg(self.certificate("client")).arg("-key").arg(self.key("client"));
        }
        openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = openssl.spawn().unwrap_or_else(|error| panic!("cannot run openssl: {error}"));
        let mut input = child.stdin.take().expect("its input is piped");
        input.write_all(request.as_bytes()).await.expect("openssl reads its input");
        // The input stays open until the end: openssl would quit before the answer.
        let output = child.wait_with_output().await.expect("openssl ends with the connection");
        drop(input);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn certificate(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.pem"))
    }

    fn key(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.key"))
    }
}
