//! `kill-switch compare`: whether the detector takes two texts for similar, or for the same, and why. Asks no server.

use std::path::PathBuf;

use agent_kill_switch::fingerprint::simhash::SIMILAR_BELOW;
use clap::Args;
use serde_json::json;

use super::CliError;
use super::fingerprint::{Reading, Seen};
use super::output::{inert, print, print_json};

#[derive(Args, Debug)]
pub(super) struct CompareOptions {
    /// File that holds one text; - is standard input
    a: PathBuf,
    /// File that holds the other
    b: PathBuf,
    #[command(flatten)]
    reading: Reading,
}

impl CompareOptions {
    pub(super) fn run(self) -> Result<(), CliError> {
        let patterns = self.reading.patterns()?;
        let (a, b) = (Seen::read(&self.a, &patterns)?, Seen::read(&self.b, &patterns)?);
        let distance = a.fingerprint.simhash.distance(b.fingerprint.simhash);
        let similar = a.fingerprint.is_similar(b.fingerprint);
        let same = a.fingerprint.is_same(b.fingerprint);
        if self.reading.json {
            let compared =
                json!({"a": a.json(), "b": b.json(), "distance": distance, "similar": similar, "same": same});
            return print_json(&compared);
        }
        print(&format!(
            "A         {}\n          hash {:016x}, digest {:08x}\nB         {}\n          hash {:016x}, digest {:08x}\n\
             distance  {distance} of 64 bits\nsimilar   {}\nsame      {}\n",
            inert(&a.normalised),
            a.fingerprint.simhash.0,
            a.fingerprint.digest,
            inert(&b.normalised),
            b.fingerprint.simhash.0,
            b.fingerprint.digest,
            if similar { format!("yes: below {SIMILAR_BELOW}") } else { format!("no: not below {SIMILAR_BELOW}") },
            same_in_words(same, similar, &a, &b),
        ))
    }
}

fn same_in_words(same: bool, similar: bool, a: &Seen, b: &Seen) -> &'static str {
    match () {
        () if same => "yes: but for what is normalised",
        () if similar && a.normalised == b.normalised => "no: a number that stands free differs, which may be progress",
        () => "no",
    }
}
