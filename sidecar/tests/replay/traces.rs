//! Finds and reads recordings.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use kill_switch::replay::detector::{Counting, Decoder, ReadOptions, Rules};
use kill_switch::replay::input::Input;
use kill_switch::replay::{Run, RunReader};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Returns the path of a recording that was written for the project.
pub fn own(name: &str) -> PathBuf {
    root().join("tests/traces").join(name)
}

/// Returns the paths of all recordings that were written for the project.
pub fn all_own() -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(root().join("tests/traces")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "jsonl"));
    files.sort();
    assert!(!files.is_empty());
    files
}

pub fn run_reader(countings: &[Counting]) -> RunReader {
    RunReader::new(Decoder::new(ReadOptions::defaults().unwrap(), countings))
}

pub fn each_line(path: &Path, mut each: impl FnMut(&[u8])) {
    let mut input = Input::open(path, &ProgressBar::hidden()).unwrap();
    let mut line = Vec::new();
    while input.next_line(&mut line).unwrap().is_some() {
        each(&line);
    }
}

/// Reads the runs of a file.
pub fn runs(path: &Path, countings: &[Counting]) -> Vec<Run> {
    runs_with(Rules::default(), path, countings)
}

/// Reads the runs of a file as these rules say.
pub fn runs_with(rules: Rules, path: &Path, countings: &[Counting]) -> Vec<Run> {
    let mut options = ReadOptions::defaults().unwrap();
    options.rules = rules;
    let mut reader = RunReader::new(Decoder::new(options, countings));
    let mut runs = Vec::new();
    each_line(path, |line| runs.extend(reader.line(line).unwrap()));
    runs.extend(reader.end_of_file());
    runs
}
