//! Scans a file with the scan reader, and shows what that did to the page cache.
//!
//! ```sh
//! cargo run --release -p coldstream-io --example scan_file -- FILE
//! ```

use coldstream_io::private::DescriptorRegistry;
use coldstream_io::probe::{filesystem_name, probe};
use coldstream_io::residency::of_range;
use coldstream_io::scan::{
    Event, Outcome, ReadMode, Request, ScanObserver, Scanner, Settings, Standalone,
};
use coldstream_io::sys::file::FileStamp;
use coldstream_io::sys::{Descriptor, stat};
use std::cell::Cell;
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Bytes of one read: as small as an engine's.
const READ_BYTES: usize = 4096;

/// Counts the windows that the scanner reads.
#[derive(Default)]
struct Windows {
    count: Cell<u64>,
}

impl ScanObserver for Windows {
    fn count(&self, event: Event, _amount: u64) {
        if matches!(event, Event::WindowRead(_)) {
            self.count.set(self.count.get() + 1);
        }
    }
}

/// This program owns its descriptors, so the scanner may open what it needs.
impl DescriptorRegistry for Windows {
    fn may_open(&self, slot: u32) -> bool {
        Standalone.may_open(slot)
    }
    fn lowest_descriptor(&self) -> i32 {
        Standalone.lowest_descriptor()
    }
    fn register(&self, _: Descriptor, _: u32, _: &FileStamp) {}
    fn unregister(&self, _: Descriptor) {}
}

/// Direct I/O where it works, else buffered reads whose pages are dropped.
fn choose_mode(file: &File) -> Result<ReadMode, Box<dyn Error>> {
    let probed = probe(file)?;
    let mode = if probed.direct_is_usable() {
        ReadMode::Direct(probed.alignment)
    } else {
        ReadMode::DropBehind
    };
    println!(
        "filesystem={} direct={:?} mode={mode:?}",
        filesystem_name(probed.filesystem_type).unwrap_or("unknown"),
        probed.direct
    );
    Ok(mode)
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: scan_file FILE")?;
    let file = File::open(path)?;
    let size_bytes = file.metadata()?.len();

    let mode = choose_mode(&file)?;
    let resident_before = of_range(&file, 0, size_bytes)?.resident_pages;
    let scanner = Scanner::for_process(Settings {
        window_bytes: 1 << 20,
        windows_in_flight: 2,
        memory_bytes: 64 << 20,
    })?;
    let windows = Windows::default();
    let mut buffer = vec![0; READ_BYTES];
    let (mut offset, mut cached, mut plain) = (0, 0, 0);
    let start = Instant::now();
    while offset < size_bytes {
        let request = Request {
            slot: 0,
            descriptor: Descriptor::from(&file),
            // Which content is this? The scanner serves no byte of an older one.
            stamp: stat::stamp(&file)?,
            mode,
            offset,
        };
        let bytes = match scanner.read_into(&request, &mut buffer, &windows) {
            Outcome::Served {
                bytes,
                cached_bytes,
            } => {
                cached += cached_bytes as u64;
                bytes
            }
            // The scanner declines for a reason, and never guesses: the plain call is always right.
            Outcome::Plain(fallback) => {
                if plain == 0 {
                    println!("plain reads, the first because of {fallback:?}");
                }
                plain += 1;
                file.read_at(&mut buffer, offset)?
            }
        };
        if bytes == 0 {
            break;
        }
        offset += bytes as u64;
    }
    let seconds = start.elapsed().as_secs_f64();
    scanner.close(0, &windows);

    println!(
        "bytes={offset} from_page_cache={cached} windows={} plain_reads={plain} MiB_per_s={:.0}",
        windows.count.get(),
        offset as f64 / (1 << 20) as f64 / seconds
    );
    println!(
        "resident_pages before={resident_before} after={}",
        of_range(&file, 0, size_bytes)?.resident_pages
    );
    Ok(())
}
