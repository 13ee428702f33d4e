//! The sidecar's disk is full for a while.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::stage::{Stage, loop_until_refused, names};
use super::table::Outcome;
use crate::mesh::SOON;
use crate::proc::{SidecarOptions, binary, wait_until};

const LOOPS: usize = 10;

/// Fills the disk, lets agents loop, and makes room again. Returns `None` if this machine can neither mount a small disk
/// nor limit the files of a process.
pub async fn full_disk() -> Option<Outcome> {
    let folder = TempDir::with_prefix("lab-disk-").expect("the temporary folder can be written");
    let mounted = Mounted::at(folder.path());
    if mounted.is_none() && !limit_files(std::process::id(), None) {
        return None;
    }
    let stage = Stage::with(on_disk(folder.path())).await;
    let loops = names("disk-loop", LOOPS);
    stage.know(&loops, true).await;
    let traffic = stage.healthy("disk").await;

    let filler = folder.path().join("filler");
    match mounted {
        Some(_) => fill(&filler),
        None => limit_sidecar(&stage, Some(0)),
    }
    for agent in &loops {
        let answered = loop_until_refused(stage.mesh.caller(agent)).await;
        assert_eq!(answered, Some(5), "{agent} is killed at its sixth call");
    }
    wait_until("the sidecar is not ready, and reports wait", SOON, || async {
        let url = format!("{}/readyz", stage.mesh.sidecar.url());
        let is_red = crate::http::client().get(url).send().await.is_ok_and(|answer| answer.status() == 503);
        is_red && stage.waiting().await > 0
    })
    .await;
    traffic.goes_on(20).await;

    match mounted {
        Some(_) => std::fs::remove_file(&filler).expect("the file can be removed"),
        None => limit_sidecar(&stage, None),
    }
    let recorded_after = stage.recorded(&loops).await;
    let healthy = traffic.end().await;
    let outcome = stage.outcome("full disk", &loops, healthy).await;
    drop(stage);
    Some(Outcome { recorded_after, ..outcome })
}

/// Makes the sidecar keep its database in `folder`, and survive writes that a limit forbids. They fail with an error then,
/// as they do when the disk is full.
fn on_disk(folder: &Path) -> impl FnOnce(SidecarOptions) -> SidecarOptions + Send + 'static {
    let database = folder.join("kill-switch.db").display().to_string();
    move |options| {
        let own = binary("kill-switch", "KILL_SWITCH_BIN").display().to_string();
        let before = ["-c", r#"trap "" XFSZ; exec "$0" "$@""#, &own].map(str::to_owned);
        let given = options.arguments.iter().map(|argument| argument.replace("{folder}/kill-switch.db", &database));
        SidecarOptions { binary: Some("sh".into()), arguments: before.into_iter().chain(given).collect(), ..options }
    }
}

fn limit_sidecar(stage: &Stage, bytes: Option<u64>) {
    let process = stage.mesh.sidecar.id().expect("the sidecar runs");
    assert!(limit_files(process, bytes), "the files of the sidecar can be limited");
}

/// Writes to a file until the disk is full.
fn fill(path: &Path) {
    let mut file = File::create(path).expect("a file can be created");
    for size in [4096, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
    }
}

/// Sets how large files may become that a process writes, or lifts the limit. Returns whether this machine can do so.
fn limit_files(process: u32, bytes: Option<u64>) -> bool {
    let limit = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
    let mut command = Command::new("prlimit");
    command.args(["--pid", &process.to_string(), &format!("--fsize={limit}:")]);
    command.status().is_ok_and(|status| status.success())
}

/// A small disk in memory, which is unmounted when this value is dropped.
struct Mounted<'a>(&'a Path);

impl Mounted<'_> {
    /// Mounts a disk. Returns `None` if that is not permitted, which it usually is to root only.
    fn at(folder: &Path) -> Option<Mounted<'_>> {
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(folder).output();
        output.is_ok_and(|output| output.status.success()).then_some(Mounted(folder))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // A lazy unmount succeeds even if a process that was killed has not released its files yet.
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}
