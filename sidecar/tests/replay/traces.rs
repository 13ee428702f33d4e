//! Finds recordings and reads them.

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
