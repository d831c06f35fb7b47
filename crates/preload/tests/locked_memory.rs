//! An application locks its memory (`mlockall`). Coldstream's reservations are not locked, and do not become resident. The call
//! ends as it does without Coldstream, and the application can lock as much.

use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{directories, files, skip, tools};
use std::path::PathBuf;
use tempfile::TempDir;

const CURRENT: i32 = 1;
const FUTURE: i32 = 2;
const ON_FAULT: i32 = 4;
const FLAGS: [i32; 6] = [
    CURRENT,
    FUTURE,
    CURRENT | FUTURE,
    CURRENT | ON_FAULT,
    FUTURE | ON_FAULT,
    CURRENT | FUTURE | ON_FAULT,
];
/// The library's code, data and used state, and the libraries that it needs.
const LIBRARY_KIB_MAX: i64 = 6 << 10;
/// Windows and bookkeeping have so much. They are there in each run.
const RESERVATIONS_KIB_MIN: i64 = 80 << 10;
const ENOMEM: i64 = 12;

/// What the program prints.
#[derive(Clone, Copy, Debug)]
struct Printed {
    mapped_kib: i64,
    result: i64,
    errno: i64,
    locked_kib: i64,
    resident_kib: i64,
    reservations_kib: i64,
    locked_reservations_kib: i64,
    /// Under a limit.
    room_kib: Option<i64>,
}

struct Locks {
    directory: TempDir,
    program: PathBuf,
}

impl Locks {
    fn new() -> Self {
        let directory = directories::on_disk();
        let program = tools::compile("locks.c", directory.path(), "locks", &["-pthread"]);
        files::create(&directory.path().join("000001.sst"), 1, 8 << 20);
        std::thread::sleep(files::REST);
        Self { directory, program }
    }

    /// `None` where memory cannot be locked.
    fn run(
        &self,
        order: &str,
        flags: i32,
        limit_kib: Option<i64>,
        preload: Option<&Preload>,
    ) -> Option<Printed> {
        let mut program = Program::new(&self.program)
            .argument(self.directory.path().join("000001.sst"))
            .argument(order)
            .argument(flags.to_string());
        if let Some(limit_kib) = limit_kib {
            program = program.argument(limit_kib.to_string());
        }
        let ended = program.run_either(preload);
        if ended.status.code() == Some(3) {
            skip(format!("mlockall({flags}) is refused here"));
            return None;
        }
        let text = ended.well().text();
        let mut numbers = text
            .split_whitespace()
            .map(|word| word.parse::<i64>().expect("a number"));
        let mut next = || numbers.next().expect("a number");
        let printed = Printed {
            mapped_kib: next(),
            result: next(),
            errno: next(),
            locked_kib: next(),
            resident_kib: next(),
            reservations_kib: next(),
            locked_reservations_kib: next(),
            room_kib: limit_kib.map(|_| next()),
        };
        assert_eq!(
            printed.reservations_kib > RESERVATIONS_KIB_MIN,
            preload.is_some(),
            "{order} {flags}: {printed:?}"
        );
        Some(printed)
    }
}

#[test]
fn reservations_are_neither_locked_nor_resident() {
    let locks = Locks::new();
    let mut too_much = Vec::new();
    for order in ["before", "unseen", "after"] {
        for flags in FLAGS {
            let (Some(plain), Some(with)) = (
                locks.run(order, flags, None, None),
                locks.run(order, flags, None, Some(&Preload::quiet())),
            ) else {
                return;
            };
            let locked_kib = with.locked_kib - plain.locked_kib;
            let resident_kib = with.resident_kib - plain.resident_kib;
            println!("{order} {flags}: {locked_kib} KiB more locked, {resident_kib} more resident");
            if locked_kib.max(resident_kib) > LIBRARY_KIB_MAX || with.locked_reservations_kib > 0 {
                too_much.push((order, flags, plain, with));
            }
        }
    }
    assert!(too_much.is_empty(), "{too_much:#?}");
}

/// The kernel compares all mappings with the limit.
#[test]
fn reservations_do_not_count_against_the_limit() {
    let locks = Locks::new();
    for order in ["before", "after"] {
        for flags in [CURRENT, CURRENT | FUTURE, CURRENT | ON_FAULT] {
            let Some(unlimited) = locks.run(order, flags, None, None) else {
                return;
            };
            // A thread's stack must fit too.
            let enough = unlimited.mapped_kib + 1536;
            for (limit_kib, result) in [(enough, (0, 0)), (unlimited.mapped_kib - 64, (-1, ENOMEM))]
            {
                let [Some(plain), Some(with)] = [None, Some(&Preload::quiet())]
                    .map(|preload| locks.run(order, flags, Some(limit_kib), preload))
                else {
                    return;
                };
                assert_eq!((plain.result, plain.errno), result, "{plain:?}");
                assert_eq!(
                    (with.result, with.errno),
                    result,
                    "{order} {flags}, limit {limit_kib}: {with:?}"
                );
                assert_eq!(with.locked_reservations_kib, 0);
            }
        }
    }
}

#[test]
fn the_application_can_lock_as_much_as_without_reservations() {
    let locks = Locks::new();
    for flags in [FUTURE, FUTURE | ON_FAULT] {
        for order in ["before", "unseen", "after"] {
            let limit_kib = Some(6 << 10);
            let [Some(plain), Some(with)] = [None, Some(&Preload::quiet())]
                .map(|preload| locks.run(order, flags, limit_kib, preload))
            else {
                return;
            };
            assert_eq!((plain.result, with.result), (0, 0));
            let less_kib = plain.room_kib.unwrap() - with.room_kib.unwrap();
            println!("{order} {flags}: {less_kib} KiB less");
            // Pages of maps and of the status page.
            assert!(less_kib <= 512, "{plain:?} {with:?}");
        }
    }
}
