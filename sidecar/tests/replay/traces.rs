//! Where recordings are, and how tests read them.

use std::path::{Path, PathBuf};

use agent_kill_switch::wire::Counting;
use kill_switch::replay::input::Input;
use kill_switch::replay::step::{PLAIN_CONFIG, StepReader, filter_config};
use kill_switch::replay::{Replayer, Run};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A file of the recordings written for the project.
pub fn own(name: &str) -> PathBuf {
    root().join("tests/traces").join(name)
}

/// All of them.
pub fn all_own() -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(root().join("tests/traces")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "jsonl"));
    files.sort();
    assert!(!files.is_empty());
    files
}

/// The public recordings. They are not ours to give away, so they may be missing: then this says so, loudly.
pub fn public() -> Option<Vec<PathBuf>> {
    let folder = match std::env::var_os("KILL_SWITCH_TRACES") {
        Some(folder) => PathBuf::from(folder),
        None => root().join("../shared/traces"),
    };
    let entries = std::fs::read_dir(&folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.to_string_lossy().contains(".jsonl")).collect();
    files.sort();
    if files.is_empty() {
        // Straight to the terminal: the test harness would swallow it.
        let words = format!(
            "SKIPPED: no recordings in {}; set KILL_SWITCH_TRACES to the folder that holds them\n",
            folder.display()
        );
        std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes()).unwrap();
        return None;
    }
    Some(files)
}

pub fn replayer(countings: &[Counting]) -> Replayer {
    Replayer::new(StepReader::new(&filter_config(PLAIN_CONFIG).unwrap(), countings))
}

/// Each line of a file.
pub fn each_line(path: &Path, mut each: impl FnMut(&[u8])) {
    let mut input = Input::open(path).unwrap();
    let mut line = Vec::new();
    while input.next_line(&mut line).unwrap().is_some() {
        each(&line);
    }
}

/// The runs of a file, decoded.
pub fn runs(path: &Path, countings: &[Counting]) -> Vec<Run> {
    let mut replayer = replayer(countings);
    let mut runs = Vec::new();
    each_line(path, |line| {
        replayer.line(line, &mut |run| runs.push(run)).unwrap();
    });
    replayer.end(&mut |run| runs.push(run));
    runs
}
