//! One connection through the fault proxy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;

use super::{Fault, HUGE_BYTES};

/// How much is read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// The end of an HTTP head.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    Reset,
}

/// What both directions of a connection know.
struct Shared {
    struck: Arc<AtomicU64>,
    /// Whether bytes were lost, or the connection has died. It stays silent from then on.
    is_lost: AtomicBool,
    /// Whether only the body is garbled.
    keeps_head: bool,
}

impl Shared {
    fn strike(&self) {
        self.struck.fetch_add(1, Ordering::SeqCst);
    }
}

/// Passes bytes on between Envoy and the sidecar until one of them closes the connection, or until the fault does.
pub(super) async fn serve(
    mut envoy: TcpStream,
    target: SocketAddr,
    mut faults: watch::Receiver<Fault>,
    struck: Arc<AtomicU64>,
    number: u64,
) {
    faults.mark_unchanged();
    let shared = Shared { struck, is_lost: AtomicBool::new(false), keeps_head: number % 2 == 1 };
    let Ok(mut sidecar) = TcpStream::connect(target).await else { return reset(&envoy) };
    // Pieces must arrive as they are written.
    let _ = (envoy.set_nodelay(true), sidecar.set_nodelay(true));
    let end = {
        let ((from_envoy, to_envoy), (from_sidecar, to_sidecar)) = (envoy.split(), sidecar.split());
        let up = requests(Pipe { from: from_envoy, to: to_sidecar, faults: faults.clone(), shared: &shared });
        let down = answers(Pipe { from: from_sidecar, to: to_envoy, faults: faults.clone(), shared: &shared });
        tokio::select! {
            both = async { tokio::try_join!(up, down) } => both.err().unwrap_or(End::Close),
            end = end_by_switch(faults, &shared) => end,
        }
    };
    if end == End::Reset {
        reset(&envoy);
        reset(&sidecar);
    }
}

/// Makes the kernel send a reset when the connection is dropped.
fn reset(stream: &TcpStream) {
    // This fails only if the connection has ended already.
    let _ = stream.set_zero_linger();
}

/// Waits until the proxy is dropped or switches to a fault that ends open connections. Lets them die in silence if the fault
/// says so.
async fn end_by_switch(mut faults: watch::Receiver<Fault>, shared: &Shared) -> End {
    while faults.changed().await.is_ok() {
        match *faults.borrow_and_update() {
            Fault::Refuse | Fault::Reset => {
                shared.strike();
                return End::Reset;
            }
            Fault::Dead => {
                shared.strike();
                shared.is_lost.store(true, Ordering::SeqCst);
            }
            _ => {}
        }
    }
    End::Close
}

/// One direction.
struct Pipe<'a> {
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    faults: watch::Receiver<Fault>,
    shared: &'a Shared,
}

/// Passes on what Envoy sends. An error ends the connection in both directions.
async fn requests(mut pipe: Pipe<'_>) -> Result<(), End> {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Some((size, fault)) = pipe.next(&mut buffer).await? {
        pipe.delay(fault).await;
        pipe.write(&buffer[..size]).await?;
    }
    Ok(())
}

/// Passes on what the sidecar answers.
async fn answers(mut pipe: Pipe<'_>) -> Result<(), End> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut keeps_head = pipe.shared.keeps_head;
    while let Some((size, fault)) = pipe.next(&mut buffer).await? {
        let chunk = &mut buffer[..size];
        match fault {
            Fault::Pass | Fault::Hang | Fault::Refuse | Fault::Partition | Fault::Dead => {}
            // The requests are counted.
            Fault::Delay(_) => pipe.delay(fault).await,
            Fault::Reset => {
                pipe.shared.strike();
                return Err(End::Reset);
            }
            Fault::Truncate => {
                pipe.shared.strike();
                return pipe.write_last(&chunk[..size / 2]).await;
            }
            Fault::Garble => {
                pipe.shared.strike();
                garble(chunk, &mut keeps_head);
            }
            Fault::Huge => {
                if let Some(end) = head_end(chunk) {
                    pipe.shared.strike();
                    return pipe.write_huge(&chunk[..end], &chunk[end..]).await;
                }
            }
            Fault::Drip(pause) => {
                pipe.shared.strike();
                pipe.drip(chunk, pause).await?;
                continue;
            }
        }
        pipe.write(chunk).await?;
    }
    Ok(())
}

impl Pipe<'_> {
    /// Reads the next bytes that are to be passed on, and returns how many they are and what happens to them. Returns
    /// `None` if the connection is silent and this side has closed it.
    async fn next(&mut self, buffer: &mut [u8]) -> Result<Option<(usize, Fault)>, End> {
        loop {
            let size = self.from.read(buffer).await.unwrap_or(0);
            let fault = self.held().await;
            if fault == Fault::Partition {
                self.shared.strike();
                self.shared.is_lost.store(true, Ordering::SeqCst);
            }
            match (self.shared.is_lost.load(Ordering::SeqCst), size) {
                (true, 0) => return Ok(None),
                (true, _) => {}
                (false, 0) => return Err(End::Close),
                (false, size) => return Ok(Some((size, fault))),
            }
        }
    }

    /// Waits while bytes are held, and returns the fault that is then in force.
    async fn held(&mut self) -> Fault {
        let mut fault = *self.faults.borrow_and_update();
        if fault == Fault::Hang {
            self.shared.strike();
        }
        while fault == Fault::Hang && self.faults.changed().await.is_ok() {
            fault = *self.faults.borrow_and_update();
        }
        fault
    }

    async fn delay(&mut self, fault: Fault) {
        if let Fault::Delay(time) = fault {
            self.shared.strike();
            tokio::time::sleep(time).await;
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.to.write_all(bytes).await.map_err(|_| End::Close)
    }

    /// Writes these bytes, and closes the connection.
    async fn write_last(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.write(bytes).await?;
        let _ = self.to.shutdown().await;
        Err(End::Close)
    }

    /// Writes byte by byte, and the rest at once if the fault is over.
    async fn drip(&mut self, bytes: &[u8], pause: Duration) -> Result<(), End> {
        for (index, byte) in bytes.iter().enumerate() {
            self.write(&[*byte]).await?;
            if !matches!(*self.faults.borrow(), Fault::Drip(_)) {
                return self.write(&bytes[index + 1..]).await;
            }
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    /// Writes an answer whose body goes on with spaces, and closes the connection.
    async fn write_huge(&mut self, head: &[u8], body: &[u8]) -> Result<(), End> {
        let head = String::from_utf8_lossy(head).into_owned();
        let is_length = |line: &&str| {
            let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
            ["content-length", "transfer-encoding"].contains(&name.as_str())
        };
        let kept: Vec<&str> = head.trim_end().lines().filter(|line| !is_length(line)).collect();
        let head = format!("{}\r\ncontent-length: {HUGE_BYTES}\r\n\r\n", kept.join("\r\n"));
        self.write(head.as_bytes()).await?;
        self.write(body).await?;
        let mut rest = HUGE_BYTES.saturating_sub(body.len());
        let spaces = vec![b' '; CHUNK_BYTES];
        while rest > 0 {
            let size = rest.min(spaces.len());
            self.write(&spaces[..size]).await?;
            rest -= size;
        }
        self.write_last(&[]).await
    }
}

/// Changes every byte, except those up to the end of the first head if that is kept.
fn garble(bytes: &mut [u8], keeps_head: &mut bool) {
    let begin = match (*keeps_head, head_end(bytes)) {
        (false, _) => 0,
        (true, None) => bytes.len(),
        (true, Some(end)) => {
            *keeps_head = false;
            end
        }
    };
    for byte in &mut bytes[begin..] {
        *byte ^= 0xA5;
    }
}

/// Returns where the body begins.
fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(HEAD_END.len()).position(|window| window == HEAD_END).map(|at| at + HEAD_END.len())
}
