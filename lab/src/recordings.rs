//! Public recordings of agents, which are not part of the repository.

use std::path::{Path, PathBuf};

use crate::skip;

/// The files of the public recordings, sorted by name. They lie in the folder that `KILL_SWITCH_TRACES` names, or in
/// `../shared/traces` beside the repository. Returns `None`, and notes that the test is skipped, if there are none.
pub fn public() -> Option<Vec<PathBuf>> {
    files(Path::new(""))
}

/// The files of a larger set of public recordings, in the folder `more` beside the others.
pub fn more() -> Option<Vec<PathBuf>> {
    files(Path::new("more"))
}

fn files(folder: &Path) -> Option<Vec<PathBuf>> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    let folder = std::env::var_os("KILL_SWITCH_TRACES").map_or_else(beside, PathBuf::from).join(folder);
    let files: Vec<_> = entries(&folder).into_iter().filter(|path| is_recording(path)).collect();
    if files.is_empty() {
        let missing =
            "there are no public recordings in ../shared/traces, its folder `more`, or in those of KILL_SWITCH_TRACES";
        skip::because(missing);
        return None;
    }
    Some(files)
}

/// The recordings in a folder and in all of its subfolders, sorted by path.
pub fn in_folder(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in entries(folder) {
        if path.is_dir() {
            files.extend(in_folder(&path));
        } else if is_recording(&path) {
            files.push(path);
        }
    }
    files
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> = entries.collect();
    paths.sort();
    paths
}

fn is_recording(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")
}
