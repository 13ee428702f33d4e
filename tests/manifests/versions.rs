//! The versions that are written in several places.

use crate::support::{files, read};

#[test]
fn every_supported_envoy_has_a_row_without_a_failure_and_the_demo_has_the_newest() {
    let page = read("docs/compatibility.md");
    let versions = read("tools/envoy-versions");
    for version in versions.lines() {
        let start = format!("| {version} | ");
        let row = page.lines().find_map(|line| line.strip_prefix(&start));
        let row = row.unwrap_or_else(|| panic!("docs/compatibility.md has no row for {version}: run make test-envoys"));
        let numbers: Vec<u32> = row.split('|').filter_map(|cell| cell.trim().parse().ok()).collect();
        let [passed, failed, _skipped] = numbers[..] else { panic!("{version}: {row}") };
        assert!(passed > 80 && failed == 0, "{version}: {row}");
    }
    let newest = versions.lines().last().unwrap();
    assert!(read("Dockerfile").contains(&format!("ARG ENVOY_IMAGE=envoyproxy/envoy:v{newest}\n")), "{newest}");
}

#[test]
fn every_manifest_names_the_images_of_this_version() {
    let mut found = 0;
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        for image in text.split("registry.example.com/").skip(1).filter(|rest| rest.contains(':')) {
            let image = image.split_whitespace().next().unwrap();
            if let Some((_, tag)) = image.split_once(':') {
                assert_eq!(tag, env!("CARGO_PKG_VERSION"), "{}", file.display());
                found += 1;
            }
        }
    }
    assert!(found >= 5, "{found} images are found");
}
