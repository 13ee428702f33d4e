//! `kill-switch compare`: shows whether the detector takes two texts for similar, or for the same. Needs no server.

use std::path::PathBuf;

use agent_kill_switch::fingerprint::simhash::SIMILAR_BELOW;
use agent_kill_switch::printable::printable;
use clap::Args;
use serde_json::json;

use super::CliError;
use super::fingerprint::{FingerprintedText, TextOptions};
use super::output::{print, print_json};

#[derive(Args, Debug)]
pub(super) struct CompareOptions {
    /// File that holds one text; - is standard input
    a: PathBuf,
    /// File that holds the other text
    b: PathBuf,
    #[command(flatten)]
    options: TextOptions,
}

impl CompareOptions {
    pub(super) fn run(self) -> Result<(), CliError> {
        let patterns = self.options.patterns()?;
        let (a, b) = (FingerprintedText::read(&self.a, &patterns)?, FingerprintedText::read(&self.b, &patterns)?);
        let distance = a.fingerprint.simhash.distance(b.fingerprint.simhash);
        let similar = a.fingerprint.is_similar(b.fingerprint);
        let same = a.fingerprint.is_same(b.fingerprint);
        if self.options.json {
            let compared =
                json!({"a": a.json(), "b": b.json(), "distance": distance, "similar": similar, "same": same});
            return print_json(&compared);
        }
        let why_same = if same {
            "yes: they differ at most in what normalisation removes"
        } else if similar && a.normalised == b.normalised {
            "no: a number that stands free differs, which may be progress"
        } else {
            "no"
        };
        let text = |name, text: &FingerprintedText| {
            let normalised = printable(&text.normalised);
            format!("{name}         {normalised}\n          hash {}, digest {}\n", text.hash(), text.digest())
        };
        print(&format!(
            "{}{}distance  {distance} of 64 bits\nsimilar   {} {SIMILAR_BELOW}\nsame      {why_same}\n",
            text("A", &a),
            text("B", &b),
            if similar { "yes: below" } else { "no: not below" },
        ))
    }
}
