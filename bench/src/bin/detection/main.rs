//! Replays recordings with our counting and with the published rules of others, and writes docs/detection-benchmark.md.
//!
//! `make detection` starts it. The page and its picture are the same, byte for byte, whenever the recordings are.

// Tooling: a program that cannot continue panics with a good message.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod chant;
mod page;
mod picture;
mod rules;
mod score;
mod sources;
mod steps;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use score::Scores;

/// Compares loop detectors on recorded runs.
#[derive(Parser)]
struct Options {
    /// The folder with the recordings: `.jsonl` and `.jsonl.gz` files, also in its subfolders.
    #[arg(long, default_value = "../shared/traces")]
    traces: PathBuf,
    /// The page to write. The picture is written beside it.
    #[arg(long, default_value = "docs/detection-benchmark.md")]
    write: PathBuf,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match compare(&options.traces, &options.write) {
        Ok(table) => {
            println!("{table}\nwritten: {}", options.write.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Replays all recordings in a folder and writes the page. Returns its main table.
fn compare(traces: &Path, page: &Path) -> Result<String, String> {
    let files = lab::recordings::in_folder(traces);
    if files.is_empty() {
        return Err(format!(
            "there are no recordings (*.jsonl or *.jsonl.gz) in {0}, so nothing was compared and nothing was written.\n\
             Name another folder with `make detection TRACES=FOLDER`. docs/cli.md describes the format, and\n\
             docs/detection-benchmark.md says where the public recordings come from.",
            traces.display()
        ));
    }
    let scores = Scores::of_files(&files).map_err(|error| error.to_string())?;
    let picture = page.with_extension("svg");
    let picture_name = picture.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let write =
        |path: &Path, text: &str| std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()));
    write(&picture, &picture::svg(&scores))?;
    write(page, &page::markdown(&scores, &picture_name))?;
    Ok(page::totals(&scores))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path, traces: &str) -> Result<(String, String), String> {
        let page = folder.join("page.md");
        compare(&Path::new(env!("CARGO_MANIFEST_DIR")).join(traces), &page)?;
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("the file was written");
        Ok((read("page.md"), read("page.svg")))
    }

    #[test]
    fn a_folder_of_recordings_becomes_a_page_and_a_picture_that_are_the_same_every_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let (page, picture) = written(folder.path(), "../tests/traces").expect("a page");
        assert_eq!((page.clone(), picture.clone()), written(folder.path(), "../tests/traces").expect("a page"));
        for name in score::detectors() {
            assert!(page.contains(name) && picture.contains(name), "{name}");
        }
        assert!(page.contains("![") && page.contains("](page.svg)") && picture.starts_with("<svg"), "{page}");
        // The runs in this folder are those whose verdicts our own tests demand.
        assert!(page.contains("| **Agent Kill Switch** | **0 of "), "{page}");
        assert!(page.contains("No verdict differs from its label."), "{page}");
        let long = page.lines().find(|line| line.chars().count() > 124 && !line.starts_with('|'));
        assert_eq!(long, None);
    }

    #[test]
    fn a_folder_without_recordings_is_an_error_that_says_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = written(folder.path(), "../docs/screenshots").expect_err("nothing to replay");
        assert!(error.contains("there are no recordings") && error.contains("TRACES="), "{error}");
        assert!(!folder.path().join("page.md").exists());
    }
}
