//! A mail server on a real socket: as much of SMTP as it takes to receive a message.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// One message as it came.
#[derive(Clone, Debug, Default)]
pub struct Mail {
    pub from: String,
    pub to: Vec<String>,
    pub text: String,
}

#[derive(Clone)]
pub struct MailServer {
    pub url: String,
    mails: Arc<Mutex<Vec<Mail>>>,
    refusals: Arc<Mutex<u32>>,
}

impl MailServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("smtp://{}", listener.local_addr().unwrap());
        let server = Self { url, mails: Arc::default(), refusals: Arc::default() };
        let own = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = own.clone();
                tokio::spawn(async move { server.talk(stream).await });
            }
        });
        server
    }

    pub fn mails(&self) -> Vec<Mail> {
        self.mails.lock().unwrap().clone()
    }

    /// The next so many messages are refused for now.
    pub fn refuse(&self, count: u32) {
        *self.refusals.lock().unwrap() = count;
    }

    async fn talk(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        stream.write_all(b"220 ready\r\n").await?;
        let mut mail = Mail::default();
        loop {
            let line = read_line(&mut stream).await?;
            let upper = line.to_ascii_uppercase();
            let answer = if line.is_empty() {
                return Ok(());
            } else if upper.starts_with("EHLO") {
                "250-here\r\n250 8BITMIME".to_owned()
            } else if upper.starts_with("MAIL FROM:") {
                mail.from = line["MAIL FROM:".len()..].trim().to_owned();
                "250 ok".to_owned()
            } else if upper.starts_with("RCPT TO:") {
                mail.to.push(line["RCPT TO:".len()..].trim().to_owned());
                "250 ok".to_owned()
            } else if upper.starts_with("DATA") {
                stream.write_all(b"354 go on\r\n").await?;
                mail.text = read_message(&mut stream).await?;
                self.take(std::mem::take(&mut mail))
            } else if upper.starts_with("QUIT") {
                stream.write_all(b"221 bye\r\n").await?;
                return Ok(());
            } else {
                "250 ok".to_owned()
            };
            stream.write_all(format!("{answer}\r\n").as_bytes()).await?;
        }
    }

    fn take(&self, mail: Mail) -> String {
        let mut refusals = self.refusals.lock().unwrap();
        if *refusals > 0 {
            *refusals -= 1;
            return "451 try again later".to_owned();
        }
        self.mails.lock().unwrap().push(mail);
        "250 taken".to_owned()
    }
}

async fn read_line(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    Ok(line)
}

async fn read_message(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut text = String::new();
    loop {
        let line = read_line(stream).await?;
        if line == ".\r\n" || line.is_empty() {
            return Ok(text);
        }
        text.push_str(&line);
    }
}
