//! A way to a server that can fall silent: nothing is refused and nothing is closed, and nothing comes through any
//! more, as when a machine loses its power or a firewall its memory.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct Way {
    pub port: u16,
    silent: Arc<watch::Sender<bool>>,
}

impl Way {
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let silent = Arc::new(watch::Sender::new(false));
        let states = Arc::clone(&silent);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(relay(client, server, states.subscribe()));
            }
        });
        Self { port, silent }
    }

    /// Nothing comes through, on connections that there are and on new ones.
    pub fn fall_silent(&self) {
        self.silent.send_replace(true);
    }

    /// New connections come through. Those that fell silent stay so.
    pub fn heal(&self) {
        self.silent.send_replace(false);
    }
}

async fn relay(mut client: TcpStream, server: SocketAddr, mut silent: watch::Receiver<bool>) {
    let mut server = TcpStream::connect(server).await.unwrap();
    tokio::select! {
        biased;
        _ = silent.wait_for(|silent| *silent) => {}
        _ = copy_bidirectional(&mut client, &mut server) => return,
    }
    // Both ends stay open, and neither is told.
    std::future::pending::<()>().await;
}
