//! The space of a deleted SSTable is given back as soon as the application has no descriptor of it. No private
//! descriptor outlives the application's last one, in whatever way that one goes away.

use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{directories, files, skip, tools};

/// Ways in which the application's last descriptor goes away.
const WAYS: [&str; 15] = [
    "closed",
    "deleted-first",
    "removed",
    "range",
    "from",
    "replaced",
    "stream",
    "stream-deleted-first",
    "stream-reopened",
    "stream-removed",
    "raw",
    "raw-removed",
    "raw-deleted-first",
    "overwritten",
    "child",
];

#[test]
fn no_private_descriptor_outlives_the_applications_last_one() {
    let directory = directories::on_disk();
    let program = tools::compile("deleted.c", directory.path(), "deleted", &["-pthread"]);
    let run = |way: &str, preload: Option<&Preload>| {
        files::create(&directory.path().join("000001.sst"), 1, 8 << 20);
        std::thread::sleep(files::REST);
        let program = Program::new(&program)
            .argument(way)
            .argument(directory.path());
        program.run_either(preload)
    };
    let mut left = Vec::new();
    for way in WAYS {
        let plain = run(way, None);
        if plain.status.code() == Some(3) {
            skip(format!("{way}: not possible here"));
            continue;
        }
        let plain = plain.well();
        assert!(
            plain.text().lines().all(|line| line == "0"),
            "{way}: {plain:?}"
        );
        let with = run(way, Some(&Preload::quiet())).well();
        if with.stderr == plain.stderr {
            skip(format!(
                "{way}: this filesystem gets no private descriptors"
            ));
            continue;
        }
        if with.text() != plain.text() {
            left.push((way, with.text()));
        }
    }
    assert!(left.is_empty(), "descriptors of deleted SSTables: {left:?}");
}
