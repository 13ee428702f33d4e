//! Texts of agents and models are not stored, unless the operator asks for an excerpt of the repeated prompt.

use std::path::Path;

use lab::Answer;
use lab::mesh::{Mesh, MeshOptions};
use serde_json::{Value, json};

use crate::support::{SIXTH_REFUSED, ask, repeated, run};

const QUESTION: &str = "quetzalcoatl asks for the secret recipe of the house";
const ANSWER: &str = "the xylophonist must not be told the recipe of the house";

/// Makes six calls that end in a kill. Returns the mesh after all reports have arrived, and the kill.
async fn killed(filter: Value) -> (Mesh, Value) {
    let mesh = Mesh::with(MeshOptions { filter, ..MeshOptions::default() }).await;
    mesh.enable("private", json!({})).await;
    let answer = Answer::text(ANSWER);
    assert_eq!(repeated(&mesh.caller("private"), &ask(QUESTION), Some(&answer), 6).await, SIXTH_REFUSED);
    mesh.scores("private", 6).await;
    let kill = mesh.kills("private", 1).await.remove(0);
    (mesh, kill)
}

/// Returns the files of a folder that contain a word.
fn files_with(folder: &Path, word: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let has_word = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    files.filter(|path| has_word(path)).map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn no_text_of_prompts_or_answers_is_logged_or_stored() {
    run(async {
        let (mesh, kill) = killed(json!({})).await;
        assert_eq!(kill["excerpt"], Value::Null);
        for word in ["quetzalcoatl", "xylophonist"] {
            assert_eq!(files_with(mesh.envoy.folder(), word), [""; 0], "no file of Envoy contains {word}");
            assert_eq!(files_with(mesh.sidecar.folder(), word), [""; 0], "no file of the sidecar contains {word}");
        }
    });
}

#[test]
fn with_evidence_the_beginning_of_the_repeated_prompt_is_in_the_kill_and_not_in_logs() {
    run(async {
        let (mesh, kill) = killed(json!({"evidence": "excerpt"})).await;
        assert!(kill["excerpt"].as_str().unwrap_or_default().contains("quetzalcoatl"), "{kill}");
        assert_eq!(files_with(mesh.envoy.folder(), "quetzalcoatl"), [""; 0], "no file of Envoy contains it");
        assert!(!mesh.sidecar.log().contains("quetzalcoatl"), "the sidecar's log does not contain it");
        assert_eq!(files_with(mesh.sidecar.folder(), "xylophonist"), [""; 0], "answers are never stored");
    });
}
