//! A real PostgreSQL, in a cluster of its own that vanishes with the tests.
//!
//! A shell owns it: it makes the cluster, starts and stops the server when told to, and ends it and removes everything
//! when its standard input is closed, which happens however the test process ends.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lab::proc::free_address;
use lab::skip;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::SOON;

pub const PASSWORD: &str = "a-password-of-the-tests";

/// Lists must come in the order of bytes whatever the locale is, so that one is taken in which they would not, where
/// there is one. Nothing must survive a power cut here: the server need not wait for the disk.
const OWNER: &str = r#"
bin=$1 dir=$2 port=$3
make() {
    "$bin/initdb" --pgdata="$dir/data" --username=kill_switch --pwfile="$dir/password" --auth=scram-sha-256 \
        --encoding=UTF8 --locale=C.UTF-8 --no-sync "$@" >>"$dir/log" 2>&1
}
make --locale-provider=icu --icu-locale=en-US || { rm -rf "$dir/data"; make; } || exit 1
while read -r word; do
    case $word in
    start)
        "$bin/postgres" -D "$dir/data" -k "$dir" -p "$port" -c listen_addresses=127.0.0.1 -c fsync=off \
            -c ssl=on -c ssl_cert_file="$dir/cert.pem" -c ssl_key_file="$dir/key.pem" >>"$dir/log" 2>&1 &
        server=$!
        ;;
    stop)
        kill -INT "$server"
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
pub struct Cluster {
    bin: PathBuf,
    dir: PathBuf,
    port: u16,
    owner: Child,
    /// None when it is about to end.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Cluster {
    /// Makes a cluster and starts its server. Returns `None`, and notes that the test is skipped, if PostgreSQL is not
    /// installed.
    pub fn start() -> Option<Self> {
        let Some(bin) = bin() else {
            skip_without_postgres();
            return None;
        };
        let port = free_address().port();
        let dir = tempfile::tempdir().unwrap().keep();
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(dir.join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(dir.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        std::fs::set_permissions(dir.join("key.pem"), PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::write(dir.join("password"), PASSWORD).unwrap();

        let mut owner = Command::new("sh");
        owner.args(["-c", OWNER, "sh"]).arg(&bin).arg(&dir).arg(port.to_string()).current_dir(&dir);
        if let Some((user, group)) = server_user() {
            for path in [dir.clone(), dir.join("key.pem")] {
                chown(path, Some(user), Some(group)).unwrap();
            }
            owner.uid(user).gid(group);
        }
        let mut owner = owner.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = owner.stdin.take();
        let answers = BufReader::new(owner.stdout.take().unwrap());
        let mut cluster = Self { bin, dir, port, owner, orders, answers };
        cluster.resume();
        Some(cluster)
    }

    /// Starts the server again.
    pub fn resume(&mut self) {
        self.order("start");
        let deadline = Instant::now() + SOON;
        let is_ready = || {
            let port = self.port.to_string();
            let asked = Command::new(self.bin.join("pg_isready")).args(["-q", "-h", "127.0.0.1", "-p", &port]).status();
            asked.unwrap().success()
        };
        while !is_ready() {
            assert!(Instant::now() < deadline, "PostgreSQL did not start:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the server: connections are cut, and nobody listens any more.
    pub fn stop(&mut self) {
        self.order("stop");
    }

    fn order(&mut self, word: &str) {
        writeln!(self.orders.as_mut().unwrap(), "{word}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim_end(), word, "{}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// The URL of a database of the cluster.
    pub fn url(&self, name: &str) -> String {
        format!("postgres://kill_switch:{PASSWORD}@127.0.0.1:{}/{name}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate that the server shows.
    pub fn certificate(&self) -> PathBuf {
        self.dir.join("cert.pem")
    }

    /// A program that comes with the server.
    pub fn program(&self, name: &str) -> Command {
        Command::new(self.bin.join(name))
    }

    /// An empty database, and its URL.
    pub async fn database(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::SeqCst));
        execute(&self.url("postgres"), &format!("CREATE DATABASE {name}")).await;
        self.url(&name)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.owner.wait();
    }
}

fn skip_without_postgres() {
    skip::missing("PostgreSQL is not installed (tools/get-postgres), so nothing was tested against it");
}

/// The cluster that the tests of this process share. Returns `None`, and notes that the test is skipped, if PostgreSQL is
/// not installed.
pub fn shared() -> Option<&'static Cluster> {
    static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| bin().and_then(|_| Cluster::start()));
    if shared.is_none() {
        skip_without_postgres();
    }
    shared.as_ref()
}

/// An empty database of the shared cluster, or `None` as for [`shared`].
pub async fn database() -> Option<String> {
    Some(shared()?.database().await)
}

/// Runs a statement as somebody else than the sidecar.
pub async fn execute(url: &str, sql: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Where the server's programs are: what `pg_config` says, or the newest that Debian keeps.
fn bin() -> Option<PathBuf> {
    let told = Command::new("pg_config").arg("--bindir").output().ok();
    let told = told.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut kept: Vec<_> = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect();
    kept.sort();
    told.into_iter().chain(kept.into_iter().rev()).find(|bin| is_complete(bin))
}

fn is_complete(bin: &Path) -> bool {
    ["initdb", "postgres", "pg_isready"].iter().all(|program| bin.join(program).exists())
}

/// Who runs the server: PostgreSQL refuses root.
fn server_user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().ok()
    };
    if id(&["-u"]) != Some(0) {
        return None;
    }
    ["postgres", "nobody"].iter().find_map(|name| Some((id(&["-u", name])?, id(&["-g", name])?)))
}
