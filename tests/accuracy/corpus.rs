//! Texts that no test file holds: documentation, manual pages and sources, as this machine happens to have them.
//!
//! Deterministic on one machine: sorted paths, a fixed choice of them, fixed excerpts. Nothing is read that is a link,
//! and no more than [`BYTES_MAX`] of a file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use agent_kill_switch::fingerprint::display::normalised;

/// What is read of a file.
const BYTES_MAX: usize = 110_000;
/// How many words the excerpts have, in turn; the last is all that was read.
const WORDS: [usize; 10] = [5, 10, 20, 50, 100, 200, 500, 1_500, 5_000, usize::MAX];

/// An excerpt of a file.
pub struct Text {
    pub path: PathBuf,
    pub text: String,
}

/// Where texts may be, and how many files of each place are wanted.
fn places() -> Vec<(PathBuf, usize)> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).unwrap_or_default();
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    vec![
        ("/usr/share/doc".into(), 600),
        ("/usr/share/man".into(), 300),
        ("/usr/share/common-licenses".into(), 20),
        (cargo.join("registry/src"), 700),
        (own.join("src"), 200),
        (own.join("tests"), 50),
    ]
}

/// The machine's texts: excerpts of five words to a hundred kilobytes, two of each file.
pub fn texts() -> Vec<Text> {
    let mut texts = Vec::new();
    for (place, wanted) in places() {
        for path in choose(files(&place), wanted) {
            let Some(whole) = read(&path) else { continue };
            let next = texts.len();
            let [first, second] = [next, next + 1].map(|number| excerpt(&whole, WORDS[number % WORDS.len()]));
            texts.push(Text { path: path.clone(), text: first.to_owned() });
            if second != first {
                texts.push(Text { path: path.clone(), text: second.to_owned() });
            }
        }
    }
    texts
}

/// All files below a directory, in order.
fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::path);
    let mut found = Vec::new();
    for entry in entries {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

/// As many as wanted, spread evenly.
fn choose(files: Vec<PathBuf>, wanted: usize) -> impl Iterator<Item = PathBuf> {
    let step = files.len().div_ceil(wanted).max(1);
    files.into_iter().step_by(step)
}

/// The beginning of a file as text, unpacked if need be. Nothing where it is not text, or says next to nothing.
fn read(path: &Path) -> Option<String> {
    let mut bytes = match path.extension() {
        Some(extension) if extension == "gz" => Command::new("gzip").arg("-dc").arg(path).output().ok()?.stdout,
        _ => std::fs::read(path).ok()?,
    };
    bytes.truncate(BYTES_MAX);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let unreadable = text.chars().filter(|&c| matches!(c, '\0' | char::REPLACEMENT_CHARACTER)).count();
    (unreadable <= 1 && text.split_whitespace().count() >= 30).then_some(text)
}

/// This many words from the middle of a text, where no licence is.
fn excerpt(text: &str, words: usize) -> &str {
    let starts: Vec<usize> =
        text.split_whitespace().map(|word| word.as_ptr() as usize - text.as_ptr() as usize).collect();
    let first = starts.len().saturating_sub(words) / 2;
    let start = starts[first];
    let end = starts.get(first.saturating_add(words)).copied().unwrap_or(text.len());
    text[start..end].trim_end()
}

/// The distinct words of a text, normalised: what two texts truly have in common.
pub fn word_set(text: &str) -> BTreeSet<String> {
    let normalised = normalised(text.as_bytes());
    let words = normalised.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// The share of the words of both that both have.
pub fn overlap(a: &str, b: &str) -> f64 {
    let (a, b) = (word_set(a), word_set(b));
    let both = a.intersection(&b).count();
    both as f64 / (a.len() + b.len() - both).max(1) as f64
}
