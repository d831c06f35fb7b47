//! The reader of events: programs in the kernel, and the ring that they fill.
//!
//! Its promises:
//! - it tells only of the processes that it was given;
//! - it believes no event before a file of its own was seen with its true number, device and pages;
//! - the end of the process, however it comes, takes the programs out of the kernel.

use crate::event::{Call, Event, FileId, What};
use crate::origin::Recognition;
use crate::programs::{self, LAYOUTS, Layout, Maps, REGISTERS, Registers};
use coldstream_io::Errno;
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::event_ring::EventRing;
use coldstream_io::sys::{bpf, fadvise};
use std::ffi::CStr;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};

/// 190,000 events: two seconds of 50,000 reads, which make two events each. The ring is emptied twenty times a second, but
/// not while one output is warmed, which takes two seconds at most.
const RING_BYTES: u32 = 16 << 20;
/// Processes that one tracer can follow.
pub const TARGETS_MAX: u32 = 64;
/// Pages of the file that checks the layout.
const PROOF_PAGES: u64 = 64;
/// The page of that file whose first bytes are read once more. No batch of a large read begins there.
const SMALL_READ_PAGE: u64 = 3;

/// Why there are no events.
#[derive(Debug, thiserror::Error)]
pub enum TracerError {
    /// The caller may not load programs.
    #[error(
        "the kernel lets this user load no BPF programs: run as root, or with CAP_BPF and CAP_PERFMON \
         (in a container: with both, and a seccomp profile that allows bpf)"
    )]
    NotPermitted,
    /// The kernel has no BPF, or not this tracepoint.
    #[error("this kernel cannot tell of reads: {what}: {errno}")]
    Unsupported {
        /// What it lacks.
        what: &'static str,
        /// Its answer.
        errno: Errno,
    },
    /// The events of our own file are not what we did.
    #[error("this kernel's structures are unknown: events of a file of our own were wrong")]
    UnknownLayout,
    /// The kernel has a shorter way for them, without the tracepoint.
    #[error(
        "this kernel does not tell of small reads of cached pages: pages that readers use could not be told from others"
    )]
    SmallReadsUntold,
    /// Files of tmpfs are never read into the page cache.
    #[error("temporary files are on tmpfs here: set TMPDIR to a directory on a disk")]
    NotOnDisk,
    /// The kernel's numbers of processes are not the caller's.
    #[error(
        "this is another namespace of process ids than the machine's: start it on the machine itself, outside of \
         the container (or with its `--pid=host`)"
    )]
    Namespace,
    /// The proof needs a file on a disk.
    #[error("cannot use a temporary file (TMPDIR names its directory): {0}")]
    File(#[from] io::Error),
}

fn refused(what: &'static str) -> impl FnOnce(Errno) -> TracerError {
    move |errno| match errno {
        Errno(libc::EPERM | libc::EACCES) => TracerError::NotPermitted,
        errno => TracerError::Unsupported { what, errno },
    }
}

/// Programs and their maps.
#[derive(Debug)]
pub struct Tracer {
    ring: EventRing,
    targets: bpf::Map,
    lost: bpf::Map,
    lost_before: u64,
    /// Closing them takes the programs out of the kernel.
    links: Vec<OwnedFd>,
}

impl Tracer {
    /// Loads the programs, and proves them.
    ///
    /// # Errors
    /// [`TracerError`], in words for the user.
    pub fn start(recognition: Recognition) -> Result<Self, TracerError> {
        let map = |kind, key, value, entries| {
            bpf::Map::new(kind, key, value, entries).map_err(refused("BPF maps"))
        };
        let mut tracer = Self {
            ring: EventRing::new(RING_BYTES).map_err(refused("a BPF ring"))?,
            targets: map(bpf::MapKind::Hash, 4, 4, TARGETS_MAX + 1)?,
            lost: map(bpf::MapKind::Array, 4, 8, 1)?,
            lost_before: 0,
            links: Vec::new(),
        };
        tracer.follow_layout(recognition)?;
        Ok(tracer)
    }

    fn maps(&self) -> Maps {
        Maps {
            targets: self.targets.number(),
            ring: self.ring.map().number(),
            lost: self.lost.number(),
        }
    }

    fn attach(
        &mut self,
        tracepoint: &CStr,
        what: &'static str,
        program: &[u64],
    ) -> Result<(), TracerError> {
        let program = bpf::load_raw_tracepoint(program, &mut []).map_err(refused(what))?;
        let link = bpf::open_raw_tracepoint(tracepoint, program.as_fd()).map_err(refused(what))?;
        self.links.push(link);
        Ok(())
    }

    /// Attaches the programs for the first layout that our own file proves.
    fn follow_layout(&mut self, recognition: Recognition) -> Result<(), TracerError> {
        if !is_first_namespace() {
            return Err(TracerError::Namespace);
        }
        let mut proof = Proof::new()?;
        if rustix::fs::fstatfs(&proof.file).is_ok_and(|found| found.f_type == libc::TMPFS_MAGIC) {
            return Err(TracerError::NotOnDisk);
        }
        self.follow(std::process::id())
            .map_err(refused("BPF maps"))?;
        let mut is_proven = Err(TracerError::UnknownLayout);
        let mut registers: Vec<Option<Registers>> = REGISTERS.into_iter().map(Some).collect();
        if recognition == Recognition::Names {
            // Names tell enough. Whether a thread reads or writes is told by the order of events then.
            registers.push(None);
        }
        let all = registers.iter().flat_map(|registers| {
            let layouts = LAYOUTS.iter();
            layouts.map(|layout| (*layout, *registers))
        });
        for (layout, registers) in all {
            self.attach_for(layout, registers, recognition)?;
            if proof.holds(self, registers.is_some(), recognition)? {
                is_proven = Ok(());
                break;
            }
            self.links.clear();
        }
        let _ = self.leave(std::process::id());
        self.drain(|_| {});
        is_proven
    }

    fn attach_for(
        &mut self,
        layout: Layout,
        registers: Option<Registers>,
        recognition: Recognition,
    ) -> Result<(), TracerError> {
        let maps = self.maps();
        let read = programs::read(layout, maps, registers);
        self.attach(c"mm_filemap_get_pages", "mm_filemap_get_pages", &read)?;
        let added = programs::added(layout, maps, registers);
        self.attach(
            c"mm_filemap_add_to_page_cache",
            "mm_filemap_add_to_page_cache",
            &added,
        )?;
        if let Some(registers) = registers
            && recognition == Recognition::Advice
        {
            let ahead = programs::read_ahead(layout, maps, registers);
            self.attach(c"page_cache_sync_ra", "page_cache_sync_ra", &ahead)?;
            self.attach(c"page_cache_async_ra", "page_cache_async_ra", &ahead)?;
        }
        Ok(())
    }

    /// From now on tells of this process.
    ///
    /// # Errors
    /// More than [`TARGETS_MAX`].
    pub fn follow(&self, process: u32) -> Result<(), Errno> {
        self.targets.store(process.into(), 1)
    }

    /// Tells no more of this process.
    ///
    /// # Errors
    /// It was not followed.
    pub fn leave(&self, process: u32) -> Result<(), Errno> {
        self.targets.remove(process.into())
    }

    /// Takes all events since the last time. Returns how many were lost meanwhile.
    pub fn drain(&mut self, mut visit: impl FnMut(&Event)) -> u64 {
        if self.drain_ring(&mut visit) == 0 {
            // None is lost while there is room.
            return 0;
        }
        let lost = self.lost.find(0).unwrap_or(self.lost_before);
        let lost_now = lost.saturating_sub(self.lost_before);
        self.lost_before = lost;
        if lost_now > 0 {
            // What came before the lost ones: the caller forgets what it knows of all that.
            self.drain_ring(&mut visit);
        }
        lost_now
    }

    /// Returns the number of records, also of those that are no event.
    fn drain_ring(&mut self, visit: &mut impl FnMut(&Event)) -> u64 {
        let mut records = 0;
        self.ring.drain(|words| {
            records += 1;
            if let Some(event) = Event::decode(words) {
                visit(&event);
            }
        });
        records
    }
}

/// Whether process ids are the machine's. The number of that namespace is fixed (`PROC_PID_INIT_INO`).
fn is_first_namespace() -> bool {
    const FIRST: u64 = 0xEFFF_FFFC;
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|found| found.ino() == FIRST)
}

/// A file of our own, whose reads must be seen as they are.
struct Proof {
    file: std::fs::File,
    id: FileId,
}

impl Proof {
    fn new() -> io::Result<Self> {
        let mut file = tempfile::tempfile()?;
        file.write_all(&vec![7; (PROOF_PAGES * PAGE_BYTES) as usize])?;
        file.sync_all()?;
        let metadata = file.metadata()?;
        let id = FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
        };
        Ok(Self { file, id })
    }

    /// Whether a read of the file brings each page in once, and is seen as it is. So must be one of some bytes of a page
    /// that is cached. Where calls are told, a write is
    /// seen, too; where only advice tells, that is.
    fn holds(
        &mut self,
        tracer: &mut Tracer,
        calls_are_told: bool,
        recognition: Recognition,
    ) -> Result<bool, TracerError> {
        let by_advice = recognition == Recognition::Advice;
        self.file.set_len(PROOF_PAGES * PAGE_BYTES)?;
        let _ = fadvise::advise(&self.file, 0, 0, libc::POSIX_FADV_DONTNEED);
        tracer.drain(|_| {});
        self.file.rewind()?;
        let mut windows = Vec::new();
        for advice in [libc::POSIX_FADV_NORMAL, libc::POSIX_FADV_SEQUENTIAL] {
            let _ = fadvise::advise(&self.file, 0, 0, advice);
            let mut half = vec![0; (PROOF_PAGES / 2 * PAGE_BYTES) as usize];
            self.file.read_exact(&mut half)?;
        }
        self.file
            .read_exact_at(&mut [0; 10], SMALL_READ_PAGE * PAGE_BYTES)?;
        self.file.write_all(&[7; PAGE_BYTES as usize])?;
        let (id, own) = (self.id, std::process::id());
        let descriptor = self.file.as_raw_fd() as u32;
        let mut added = vec![0_u32; PROOF_PAGES as usize + 1];
        let mut read = added.clone();
        let mut calls_are_true = true;
        let mut last_read = None;
        tracer.drain(|event| {
            if event.file != id || event.process != own {
                return;
            }
            let pages = match event.what {
                What::Added => &mut added,
                What::Read => {
                    last_read = Some(event.range());
                    &mut read
                }
                What::ReadAhead(pages) => {
                    windows.push(pages);
                    return;
                }
            };
            for page in event.page..event.page + event.pages {
                if let Some(count) = pages.get_mut(page as usize) {
                    *count += 1;
                }
            }
            let call = if event.page < PROOF_PAGES {
                Call::Read(descriptor)
            } else {
                Call::Write(descriptor)
            };
            calls_are_true &= !calls_are_told || event.call == Some(call);
        });
        let is_advice_seen = || {
            let (first, last) = (windows.first()?, windows.last()?);
            (*first > 0 && *last == 2 * first).then_some(())
        };
        read.truncate(PROOF_PAGES as usize);
        let is_true = added.iter().all(|count| *count == 1)
            && read.iter().all(|count| *count >= 1)
            && calls_are_true
            && (!by_advice || is_advice_seen().is_some());
        if is_true && last_read != Some(SMALL_READ_PAGE..SMALL_READ_PAGE + 1) {
            return Err(TracerError::SmallReadsUntold);
        }
        Ok(is_true)
    }
}
