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
    let entries = std::fs::read_dir(&folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<_> = entries.filter(|path| path.to_string_lossy().contains(".jsonl")).collect();
    files.sort();
    if files.is_empty() {
        let missing =
            "there are no public recordings in ../shared/traces, its folder `more`, or in those of KILL_SWITCH_TRACES";
        skip::because(missing);
        return None;
    }
    Some(files)
}
