//! What tests can rely on: the fault proxy fails as it is told, also for connections that are open.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // a test fails by panicking

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lab::fault::{Fault, FaultProxy, HUGE_BYTES};
use lab::mesh::SOON;
use lab::proc::wait_until;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const QUESTION: &str = "GET / HTTP/1.1\r\n\r\n";
const BODY: &str = "{\"who\": \"the server\"}";

fn answer() -> String {
    format!("HTTP/1.1 200 OK\r\nx-kept: yes\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len())
}

/// A server that gives the same answer to every question, and a proxy in front of it.
struct Setup {
    proxy: FaultProxy,
    questions: Arc<AtomicUsize>,
}

impl Setup {
    async fn start() -> Setup {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, questions) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        tokio::spawn(serve(listener, Arc::clone(&questions)));
        Setup { proxy: FaultProxy::start(address).await, questions }
    }

    async fn connect(&self) -> Client {
        Client(TcpStream::connect(self.proxy.address()).await.unwrap())
    }

    /// Returns a connection that has been used already.
    async fn used(&self) -> Client {
        let mut client = self.connect().await;
        client.ask().await;
        assert_eq!(client.exactly(answer().len()).await, answer());
        client
    }

    async fn struck(&self) {
        wait_until("the fault has struck", SOON, || async { self.proxy.struck() > 0 }).await;
    }
}

async fn serve(listener: TcpListener, questions: Arc<AtomicUsize>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let questions = Arc::clone(&questions);
        tokio::spawn(async move {
            let mut buffer = vec![0; QUESTION.len()];
            while stream.read_exact(&mut buffer).await.is_ok() {
                questions.fetch_add(1, Ordering::SeqCst);
                stream.write_all(answer().as_bytes()).await.unwrap();
            }
        });
    }
}

struct Client(TcpStream);

impl Client {
    async fn ask(&mut self) {
        self.0.write_all(QUESTION.as_bytes()).await.unwrap();
    }

    async fn exactly(&mut self, size: usize) -> String {
        let mut buffer = vec![0; size];
        tokio::time::timeout(SOON, self.0.read_exact(&mut buffer)).await.unwrap().unwrap();
        String::from_utf8_lossy(&buffer).into_owned()
    }

    /// Reads to the end of the connection.
    async fn rest(&mut self) -> std::io::Result<Vec<u8>> {
        let mut all = Vec::new();
        tokio::time::timeout(SOON, self.0.read_to_end(&mut all)).await.unwrap()?;
        Ok(all)
    }

    /// Whether nothing has arrived. Does not wait.
    fn is_silent(&self) -> bool {
        self.0.try_read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

#[tokio::test]
async fn pass_changes_nothing() {
    let setup = Setup::start().await;
    let mut client = setup.used().await;
    client.ask().await;
    assert_eq!(client.exactly(answer().len()).await, answer());
    assert_eq!((setup.questions.load(Ordering::SeqCst), setup.proxy.struck()), (2, 0));
}

#[tokio::test]
async fn refuse_resets_open_connections_and_refuses_others_until_it_is_over() {
    let setup = Setup::start().await;
    let mut client = setup.used().await;
    for _ in 0..3 {
        setup.proxy.set(Fault::Refuse).await;
        assert_eq!(client.rest().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        let refused = TcpStream::connect(setup.proxy.address()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        setup.proxy.set(Fault::Pass).await;
        client = setup.used().await;
    }
}

#[tokio::test]
async fn hang_holds_bytes_of_open_and_new_connections_and_loses_none() {
    let setup = Setup::start().await;
    let old = setup.used().await;
    setup.proxy.set(Fault::Hang).await;
    for (number, mut client) in [(1, old), (2, setup.connect().await)] {
        client.ask().await;
        wait_until("the question is held", SOON, || async { setup.proxy.struck() >= number }).await;
        assert!(client.is_silent());
        assert_eq!(setup.questions.load(Ordering::SeqCst), number as usize);
        setup.proxy.set(Fault::Pass).await;
        assert_eq!(client.exactly(answer().len()).await, answer());
        setup.proxy.set(Fault::Hang).await;
    }
}

#[tokio::test]
async fn delay_passes_everything_on_later() {
    let setup = Setup::start().await;
    let mut client = setup.used().await;
    let delay = Duration::from_millis(100);
    setup.proxy.set(Fault::Delay(delay)).await;
    let asked = Instant::now();
    client.ask().await;
    assert_eq!(client.exactly(answer().len()).await, answer());
    assert!(asked.elapsed() >= 2 * delay, "both directions: {:?}", asked.elapsed());
}

#[tokio::test]
async fn reset_ends_open_connections_and_later_ones_after_the_question_has_arrived() {
    let setup = Setup::start().await;
    let mut old = setup.used().await;
    setup.proxy.set(Fault::Reset).await;
    assert_eq!(old.rest().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    let mut new = setup.connect().await;
    new.ask().await;
    assert_eq!(new.rest().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(setup.questions.load(Ordering::SeqCst), 2, "the server has answered");
}

#[tokio::test]
async fn truncate_closes_after_half_of_the_answer() {
    let setup = Setup::start().await;
    let mut client = setup.used().await;
    setup.proxy.set(Fault::Truncate).await;
    client.ask().await;
    assert_eq!(client.rest().await.unwrap(), answer().as_bytes()[..answer().len() / 2]);
}

#[tokio::test]
async fn garble_changes_all_bytes_or_those_of_the_body_and_keeps_the_length() {
    let setup = Setup::start().await;
    setup.proxy.set(Fault::Garble).await;
    let mut heads = Vec::new();
    for _ in 0..2 {
        let mut client = setup.connect().await;
        client.ask().await;
        let garbled = client.exactly(answer().len()).await;
        assert!(!garbled.contains(BODY), "{garbled:?}");
        heads.push(garbled.starts_with("HTTP/1.1 200 OK\r\nx-kept: yes\r\n"));
    }
    assert_eq!(heads, [false, true]);
}

#[tokio::test]
async fn huge_answers_are_valid_and_have_50_mb() {
    let setup = Setup::start().await;
    let mut client = setup.used().await;
    setup.proxy.set(Fault::Huge).await;
    client.ask().await;
    let text = String::from_utf8(client.rest().await.unwrap()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert_eq!(head, format!("HTTP/1.1 200 OK\r\nx-kept: yes\r\ncontent-length: {HUGE_BYTES}"));
    assert_eq!((body.len(), body.trim_end()), (HUGE_BYTES, BODY));
}

#[tokio::test]
async fn drip_sends_single_bytes_and_the_rest_once_it_is_over() {
    let setup = Setup::start().await;
    let mut client = setup.used().await;
    setup.proxy.set(Fault::Drip(Duration::from_millis(20))).await;
    let asked = Instant::now();
    client.ask().await;
    let begin = client.exactly(5).await;
    assert!(asked.elapsed() >= Duration::from_millis(4 * 20), "{:?}", asked.elapsed());
    setup.proxy.set(Fault::Pass).await;
    assert_eq!(begin + &client.exactly(answer().len() - 5).await, answer());
}

#[tokio::test]
async fn partition_loses_bytes_in_silence_and_the_connection_stays_silent() {
    let setup = Setup::start().await;
    let mut old = setup.used().await;
    setup.proxy.set(Fault::Partition).await;
    old.ask().await;
    setup.struck().await;
    let mut new = setup.connect().await;
    new.ask().await;
    wait_until("both have lost bytes", SOON, || async { setup.proxy.struck() >= 2 }).await;
    setup.proxy.set(Fault::Pass).await;
    for client in [&mut old, &mut new] {
        client.ask().await;
    }
    setup.used().await;
    assert!(old.is_silent() && new.is_silent());
    assert_eq!(setup.questions.load(Ordering::SeqCst), 2, "only those of connections that lost nothing");
}

#[tokio::test]
async fn a_connection_ends_with_the_proxy() {
    let setup = Setup::start().await;
    let (mut client, address): (Client, SocketAddr) = (setup.used().await, setup.proxy.address());
    drop(setup);
    assert_eq!(client.rest().await.unwrap_or_default(), b"");
    wait_until("nothing listens", SOON, || async { TcpStream::connect(address).await.is_err() }).await;
}
