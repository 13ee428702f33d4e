//! Notes about tests that cannot run on this machine.
//!
//! A test that lacks something calls one of these functions and returns. The test harness hides what a passing test
//! prints, so the note is also appended to the file that `KILL_SWITCH_SKIPS` names, from which `tools/test` makes its
//! summary. A line of that file is the name of the test, a tab, and the reason.

use std::fs::File;
use std::io::Write;

/// Notes that the running test is skipped, because of something that `make test` does not install.
pub fn because(reason: &str) {
    eprintln!("SKIPPED: {reason}");
    let Some(file) = std::env::var_os("KILL_SWITCH_SKIPS") else { return };
    // The test harness names each thread after its test.
    let line = format!("{}\t{reason}\n", std::thread::current().name().unwrap_or("unknown"));
    let written =
        File::options().create(true).append(true).open(&file).and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
}

/// Notes that the running test is skipped, because of something that `make test` installs.
///
/// Panics if the environment variable `CI` is `true`: continuous integration must not pass because an installation
/// failed.
pub fn missing(reason: &str) {
    assert!(!std::env::var("CI").is_ok_and(|value| value == "true"), "{reason}. With CI=true this is a failure");
    because(reason);
}
