//! A `PostgreSQL` server of the tests' own.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use unfazed::store::{PgConfig, PgStore, SessionId};

use super::suite::{Place, WaitedStore};
use crate::waiting::{Waited, wait};

/// No server refuses to run as this one.
const USER: &str = "postgres";
pub(crate) const PASSWORD: &str = "hunter2-and-more";

/// A server, as long as anybody uses it.
pub(crate) struct Server {
    dir: TempDir,
    pub(crate) port: u16,
}

/// A database of one test.
pub(crate) struct Database {
    pub(crate) server: Arc<Server>,
    pub(crate) name: String,
}

impl Server {
    /// One of the caller's own.
    pub(crate) fn new() -> Arc<Self> {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self { dir, port };
        server.initialise();
        server.start();
        Arc::new(server)
    }

    /// The one that tests share.
    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Self::new();
            *shared = Arc::downgrade(&server);
            server
        })
    }

    fn initialise(&self) {
        let (data, secret) = (self.data(), self.dir.path().join("password"));
        fs::create_dir(&data).unwrap();
        fs::write(&secret, PASSWORD).unwrap();
        self.certificate();
        if is_root() {
            let owned = Command::new("chown").args(["-R", USER]).arg(self.dir.path()).status().unwrap();
            assert!(owned.success());
        }
        self.run(
            "initdb",
            &["-U", "unfazed", "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"],
            |command| {
                command.arg("--pwfile").arg(&secret).arg("-D").arg(&data);
            },
        );
    }

    /// For `localhost`, signed by itself.
    fn certificate(&self) {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
            .args([
                "-addext",
                "subjectAltName=DNS:localhost",
                "-addext",
                "basicConstraints=critical,CA:FALSE",
            ])
            .arg("-keyout")
            .arg(self.dir.path().join("key.pem"))
            .arg("-out")
            .arg(self.certificate_file())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        fs::set_permissions(self.dir.path().join("key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub(crate) fn certificate_file(&self) -> PathBuf {
        self.dir.path().join("certificate.pem")
    }

    pub(crate) fn start(&self) {
        let dir = self.dir.path().display();
        let settings = [
            format!("port={}", self.port),
            "listen_addresses=127.0.0.1".to_owned(),
            "unix_socket_directories=".to_owned(),
            // The machine does not lose its power here.
            "fsync=off".to_owned(),
            "max_connections=200".to_owned(),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={dir}/certificate.pem"),
            format!("ssl_key_file={dir}/key.pem"),
        ];
        let options: Vec<String> = settings.iter().map(|setting| format!("-c {setting}")).collect();
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            // What was killed has left its mark.
            let _ = fs::remove_file(self.data().join("postmaster.pid"));
            let started = self
                .command("pg_ctl")
                .arg("start")
                .arg("-w")
                .arg("-D")
                .arg(self.data())
                .arg("-l")
                .arg(self.dir.path().join("data/log"))
                .arg("-o")
                .arg(options.join(" "))
                .status()
                .unwrap();
            if started.success() {
                return;
            }
            // What was killed may not have given everything back yet.
            let log = fs::read_to_string(self.dir.path().join("data/log")).unwrap_or_default();
            assert!(Instant::now() < end, "PostgreSQL does not start: {log}");
        }
    }

    /// All of it dies at once, and nothing is put in order.
    pub(crate) fn kill(&self) {
        kill(self.pid());
    }

    pub(crate) fn pid(&self) -> u32 {
        let pid = fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        pid.lines().next().unwrap().parse().unwrap()
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// One of its programs, as a user that may run it.
    fn command(&self, program: &str) -> Command {
        let program = programs().join(program);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.dir.path()).stdout(Stdio::null()).stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, args: &[&str], more: impl FnOnce(&mut Command)) {
        let mut command = self.command(program);
        command.args(args);
        more(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.command("pg_ctl").args(["stop", "-m", "immediate", "-D"]).arg(self.data()).status();
    }
}

impl Database {
    /// A new one, with the tables of this version.
    pub(crate) fn new() -> Self {
        Self::on(Server::shared())
    }

    /// The same, on that server.
    pub(crate) fn on(server: Arc<Server>) -> Self {
        let database = Self::empty_on(server);
        wait(PgStore::migrate(&database.config())).unwrap();
        database
    }

    /// One without tables.
    pub(crate) fn empty() -> Self {
        Self::empty_on(Server::shared())
    }

    fn empty_on(server: Arc<Server>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let all = Self { server, name: "postgres".to_owned() };
        all.sql(&format!("create database {name}"));
        Self { name, ..all }
    }

    /// Without TLS: nobody trusts its certificate.
    pub(crate) fn url(&self) -> String {
        format!("postgres://unfazed:{PASSWORD}@127.0.0.1:{}/{}?sslmode=disable", self.server.port, self.name)
    }

    pub(crate) fn config(&self) -> PgConfig {
        PgConfig::parse(&self.url()).unwrap()
    }

    pub(crate) fn store(&self) -> PgStore {
        wait(PgStore::connect(self.config())).unwrap()
    }

    /// What the database answers.
    pub(crate) fn sql(&self, sql: &str) -> String {
        let output = self.psql(&["-c", sql]);
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn sql_file(&self, file: &Path) {
        let output = self.psql(&["-f", file.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn psql(&self, args: &[&str]) -> Output {
        let mut command = Command::new(programs().join("psql"));
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", &self.url()]);
        command.args(args).output().unwrap()
    }
}

pub(crate) fn waited(store: PgStore) -> WaitedStore {
    Waited(Box::new(store))
}

impl Place for Database {
    fn host(&self) -> WaitedStore {
        waited(self.store())
    }

    fn damage(&self, id: &SessionId) {
        self.sql(&format!(
            "update unfazed_record set line = replace(line, 'Find a', 'Lose a') where session = '{id}' and seq = 1"
        ));
    }
}

/// Kills a server with all its processes, and waits until they are gone.
pub(crate) fn kill(pid: u32) {
    let all = signal(pid, "-KILL");
    let end = Instant::now() + Duration::from_secs(30);
    let lives = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    while all.iter().any(lives) {
        assert!(Instant::now() < end, "the server cannot be killed");
    }
}

/// Sends a signal to a server and all its processes, and says which they are.
pub(crate) fn signal(pid: u32, signal: &str) -> Vec<String> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let all: Vec<String> =
        std::iter::once(pid.to_string()).chain(children.split_whitespace().map(str::to_owned)).collect();
    // Some may have gone by themselves.
    let _ = Command::new("kill").arg(signal).args(&all).stderr(Stdio::null()).status().unwrap();
    all
}

fn is_root() -> bool {
    uid() == 0
}

/// Of this process.
fn uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").map_or(1, |meta| meta.uid())
}

/// Where the server's programs are.
fn programs() -> PathBuf {
    if let Some(dir) = std::env::var_os("UNFAZED_POSTGRES_BIN") {
        return PathBuf::from(dir);
    }
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found =
        versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("initdb").exists()).max();
    found.expect("PostgreSQL is not installed; UNFAZED_POSTGRES_BIN says where its programs are")
}
