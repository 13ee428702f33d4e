//! A real PostgreSQL in a cluster of its own, which is removed when its handle is dropped.
//!
//! A shell owns the cluster: it creates it, starts and stops the server when told to, and ends the server and removes
//! everything when its standard input is closed. That happens however this process ends.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::find::free_address;

/// The password of the user `kill_switch`.
pub const PASSWORD: &str = "a-password-of-the-tests";

/// How long the server may take to start. This is long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Lists must be in the order of bytes whatever the locale is, so a locale in which they would not be is used if there is
/// one. Nothing has to survive a power failure here, so the server does not wait for the disk.
const OWNER: &str = r#"
bin=$1 dir=$2 port=$3
make() {
    "$bin/initdb" --pgdata="$dir/data" --username=kill_switch --pwfile="$dir/password" --auth=scram-sha-256 \
        --encoding=UTF8 --locale=C.UTF-8 --no-sync "$@" >>"$dir/log" 2>&1
}
make --locale-provider=icu --icu-locale=en-US || { rm -rf "$dir/data"; make; } || exit 1
tls=
[ -e "$dir/key.pem" ] && tls="-c ssl=on -c ssl_cert_file=$dir/cert.pem -c ssl_key_file=$dir/key.pem"
while read -r word; do
    case $word in
    start)
        "$bin/postgres" -D "$dir/data" -k "$dir" -p "$port" -c listen_addresses=127.0.0.1 -c fsync=off \
            $tls >>"$dir/log" 2>&1 &
        server=$!
        ;;
    stop)
        kill -INT "$server"
        wait "$server"
        ;;
    crash)
        kill -QUIT "$server"
        wait "$server"
        ;;
    esac
    echo "$word"
done
kill -INT "$server"
wait "$server"
rm -rf "$dir"
"#;

/// One cluster with its server.
#[derive(Debug)]
pub struct Postgres {
    bin: PathBuf,
    dir: PathBuf,
    port: u16,
    owner: Child,
    /// `None` when it is about to end.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Postgres {
    /// Creates a cluster and starts its server, with TLS if there is a certificate and a key, both as PEM. Returns `None`
    /// if PostgreSQL is not installed.
    pub fn start(certificate: Option<(&str, &str)>) -> Option<Postgres> {
        let bin = bin()?;
        let port = free_address().port();
        let dir = tempfile::tempdir().expect("the temporary folder can be written").keep();
        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            let written = std::fs::write(&path, text)
                .and_then(|()| std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)));
            written.unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        };
        write("password", PASSWORD);
        if let Some((certificate, key)) = certificate {
            write("cert.pem", certificate);
            write("key.pem", key);
        }
        let mut owner = Command::new("sh");
        owner.args(["-c", OWNER, "sh"]).arg(&bin).arg(&dir).arg(port.to_string()).current_dir(&dir);
        if let Some((user, group)) = server_user() {
            for path in ["", "password", "cert.pem", "key.pem"].map(|name| dir.join(name)).iter().filter(|p| p.exists())
            {
                chown(path, Some(user), Some(group)).expect("root may give files away");
            }
            owner.uid(user).gid(group);
        }
        let mut owner = owner.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell can be run");
        let orders = owner.stdin.take();
        let answers = BufReader::new(owner.stdout.take().expect("the output is a pipe"));
        let mut postgres = Postgres { bin, dir, port, owner, orders, answers };
        postgres.resume();
        Some(postgres)
    }

    /// Starts the server again.
    pub fn resume(&mut self) {
        self.order("start");
        let deadline = Instant::now() + DEADLINE;
        let is_ready = || {
            let asked = self.client("pg_isready").arg("-q").status();
            asked.is_ok_and(|status| status.success())
        };
        while !is_ready() {
            assert!(Instant::now() < deadline, "PostgreSQL did not start:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the server: connections are cut, and nothing listens any more.
    pub fn stop(&mut self) {
        self.order("stop");
    }

    /// Ends the server as a crash would: at its next start it recovers, and its unlogged tables are empty.
    pub fn crash(&mut self) {
        self.order("crash");
    }

    fn order(&mut self, word: &str) {
        let orders = self.orders.as_mut().expect("it is not about to end");
        writeln!(orders, "{word}").unwrap_or_else(|error| panic!("{error}:\n{}", self.log()));
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the output is text");
        assert_eq!(answer.trim_end(), word, "{}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Returns the URL of a database of the cluster.
    pub fn url(&self, name: &str) -> String {
        format!("postgres://kill_switch:{PASSWORD}@127.0.0.1:{}/{name}", self.port)
    }

    /// Returns the process id of the server, whose children serve the connections.
    pub fn id(&self) -> Option<u32> {
        let file = std::fs::read_to_string(self.dir.join("data/postmaster.pid")).ok()?;
        file.lines().next()?.trim().parse().ok()
    }

    /// Returns the port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the path of the certificate that the server shows, if it has one.
    pub fn certificate(&self) -> PathBuf {
        self.dir.join("cert.pem")
    }

    /// Returns a program that comes with the server.
    pub fn program(&self, name: &str) -> Command {
        Command::new(self.bin.join(name))
    }

    /// Returns a program that connects to the server as the user `kill_switch`.
    pub fn client(&self, name: &str) -> Command {
        let mut client = self.program(name);
        client.args(["-h", "127.0.0.1", "-U", "kill_switch", "-p", &self.port.to_string()]).env("PGPASSWORD", PASSWORD);
        client
    }

    /// Creates an empty database, and returns its URL.
    pub async fn database(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::SeqCst));
        let mut create = tokio::process::Command::from(self.client("createdb"));
        let created = create.arg(&name).status().await;
        assert!(created.is_ok_and(|status| status.success()), "a database can be created:\n{}", self.log());
        self.url(&name)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.owner.wait();
    }
}

/// Returns the folder of the server's programs: the one that `pg_config` names, or the newest one of Debian's packages.
fn bin() -> Option<PathBuf> {
    let told = Command::new("pg_config").arg("--bindir").output().ok();
    let told = told.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut kept: Vec<_> = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect();
    kept.sort();
    told.into_iter().chain(kept.into_iter().rev()).find(|bin| is_complete(bin))
}

fn is_complete(bin: &Path) -> bool {
    ["initdb", "postgres", "pg_isready", "createdb"].iter().all(|program| bin.join(program).exists())
}

/// Returns the user and the group that run the server if this process is root's, because PostgreSQL refuses root.
fn server_user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().ok()?;
        String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().ok()
    };
    if id(&["-u"]) != Some(0) {
        return None;
    }
    ["postgres", "nobody"].iter().find_map(|name| Some((id(&["-u", name])?, id(&["-g", name])?)))
}
