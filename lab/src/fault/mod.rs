//! A TCP proxy between Envoy and the sidecar that fails as it is told.
//!
//! [`FaultProxy::set`] switches to another fault at any time, also for connections that are open. Requests always reach the
//! sidecar unless the fault says otherwise, so that an answer can be lost although its request was carried out. That is the
//! case in which a report could be recorded twice.

mod connection;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The length of an answer with [`Fault::Huge`].
pub const HUGE_BYTES: usize = 50_000_000;

/// How the proxy fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not fail.
    Pass,
    /// Open connections are reset, and nothing listens.
    Refuse,
    /// Bytes wait until the fault is over, in both directions, and connections are accepted.
    Hang,
    /// Bytes of both directions arrive later by this long.
    Delay(Duration),
    /// Open connections are reset, and later ones as soon as the sidecar answers.
    Reset,
    /// Half of an answer arrives, and then the connection is closed.
    Truncate,
    /// Answers consist of other bytes: on every second connection all of them, and on the others only the body.
    Garble,
    /// An answer is followed by spaces, so that its body has [`HUGE_BYTES`] and is still valid JSON.
    Huge,
    /// Answers arrive byte by byte, with this pause after each.
    Drip(Duration),
    /// All bytes are lost, and connections stay open. A connection that has lost bytes never passes any again.
    Partition,
    /// The connections that were open when it began stay open and never pass a byte again, also if they were idle. Later
    /// ones work.
    Dead,
}

impl Fault {
    /// Every fault, with times that are longer than what the filter waits for.
    pub const EACH: [Fault; 10] = [
        Fault::Refuse,
        Fault::Hang,
        Fault::Delay(Duration::from_secs(2)),
        Fault::Reset,
        Fault::Truncate,
        Fault::Garble,
        Fault::Huge,
        Fault::Drip(Duration::from_millis(50)),
        Fault::Partition,
        Fault::Dead,
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Pass => "pass",
            Fault::Refuse => "refuse",
            Fault::Hang => "hang",
            Fault::Delay(_) => "delay",
            Fault::Reset => "reset",
            Fault::Truncate => "truncate",
            Fault::Garble => "garble",
            Fault::Huge => "huge",
            Fault::Drip(_) => "drip",
            Fault::Partition => "partition",
            Fault::Dead => "dead",
        })
    }
}

/// A running proxy. It ends, and closes all connections, when it is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    fault: watch::Sender<Fault>,
    applied: watch::Receiver<Fault>,
    struck: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
    /// Keeps the port while nothing listens.
    _reserved: TcpSocket,
}

impl FaultProxy {
    /// Starts a proxy in front of `target` that passes everything on.
    pub async fn start(target: SocketAddr) -> FaultProxy {
        let reserved = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let address = reserved.local_addr().expect("a bound socket has an address");
        let (fault, faults) = watch::channel(Fault::Pass);
        let (applying, applied) = watch::channel(Fault::Pass);
        let struck = Arc::new(AtomicU64::new(0));
        let door = Door { address, target, struck: Arc::clone(&struck), listener: Some(listen(address)) };
        let accepting = tokio::spawn(door.accept(faults, applying));
        FaultProxy { address, fault, applied, struck, accepting, _reserved: reserved }
    }

    /// Returns the address that Envoy uses in place of the sidecar's.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Fails in this way from now on.
    pub async fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
        let applied = self.applied.clone().wait_for(|applied| *applied == fault).await.is_ok();
        assert!(applied, "the fault proxy runs");
    }

    /// Returns how often a fault has hit something: an answer, a connection, or bytes that were lost or held. Connections
    /// that are refused are not counted, because the kernel refuses them.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::SeqCst)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts connections.
struct Door {
    address: SocketAddr,
    target: SocketAddr,
    struck: Arc<AtomicU64>,
    listener: Option<TcpListener>,
}

impl Door {
    async fn accept(mut self, mut faults: watch::Receiver<Fault>, applying: watch::Sender<Fault>) {
        for number in 0.. {
            let envoy = loop {
                let fault = *faults.borrow_and_update();
                if fault == Fault::Refuse {
                    self.listener = None;
                } else if self.listener.is_none() {
                    self.listener = Some(listen(self.address));
                }
                applying.send_replace(fault);
                tokio::select! {
                    changed = faults.changed() => if changed.is_err() { return },
                    accepted = next(self.listener.as_ref()) => if let Ok(envoy) = accepted { break envoy },
                }
            };
            let (target, faults, struck) = (self.target, faults.clone(), Arc::clone(&self.struck));
            tokio::spawn(connection::serve(envoy, target, faults, struck, number));
        }
    }
}

async fn next(listener: Option<&TcpListener>) -> std::io::Result<TcpStream> {
    match listener {
        Some(listener) => Ok(listener.accept().await?.0),
        None => std::future::pending().await,
    }
}

/// Returns a socket with this address. Several sockets may have it, so that one can keep the port while another one, which
/// listens, comes and goes.
fn bound(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("there is room for a socket");
    let set = socket.set_reuseaddr(true).and_then(|()| socket.set_reuseport(true)).and_then(|()| socket.bind(address));
    set.unwrap_or_else(|error| panic!("cannot bind {address}: {error}"));
    socket
}

fn listen(address: SocketAddr) -> TcpListener {
    bound(address).listen(1024).unwrap_or_else(|error| panic!("cannot listen on {address}: {error}"))
}
