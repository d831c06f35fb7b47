//! What is said of one process that is followed: its status page. It answers requests of `coldstream ctl`.

use coldstream_control::{
    Answer, Counter, Header, Mechanism, Mechanisms, Outcome, PageView, Switches,
};
use coldstream_host::{process, status_page};
use coldstream_io::shared::SharedPage;
use coldstream_io::sys::process::futex_wake_shared;
use coldstream_policy::{IoMode, IoModeSetting, Priorities, Profile};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The mechanisms that work from outside, where it is known who writes outputs.
const MECHANISMS: [Mechanism; 3] = [Mechanism::Reads, Mechanism::Writes, Mechanism::Handover];

/// The switches and the page of a process. Without a page nothing is counted.
#[derive(Debug)]
pub(crate) struct Status {
    pid: u32,
    started: u64,
    page: Option<(SharedPage, PathBuf)>,
    mechanisms: Mechanisms,
    off: Mechanisms,
    priorities: Priorities,
}

impl Status {
    /// Of a process, and of the time of its start. There is no page yet.
    pub(crate) fn new(pid: u32, started: u64) -> Self {
        Self {
            pid,
            started,
            page: None,
            mechanisms: Mechanisms::of(&MECHANISMS),
            off: Mechanisms::default(),
            priorities: Priorities::none(),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The path of the page, once that is made.
    pub(crate) fn page(&self) -> Option<&Path> {
        self.page.as_ref().map(|(_, path)| path.as_path())
    }

    /// What works in the process.
    pub(crate) fn mechanisms(&self) -> Mechanisms {
        self.mechanisms
    }

    /// It is not known who writes outputs.
    pub(crate) fn follow_reads_only(&mut self) {
        self.mechanisms = Mechanisms::of(&[Mechanism::Reads]);
    }

    /// A thread with the name of a background thread has written, though there was none at the start.
    pub(crate) fn follow_outputs(&mut self) {
        if !self.mechanisms.contains(Mechanism::Writes) {
            self.mechanisms = self.mechanisms.with(Mechanisms::of(&MECHANISMS));
            self.put_switches();
        }
    }

    /// Another process lowers priorities, as the page says.
    pub(crate) fn announce_priorities(&mut self) {
        self.priorities = Priorities::default();
        self.mechanisms = (self.mechanisms).with(Mechanisms::of(&[Mechanism::Priority]));
    }

    /// Makes the page, as the user of the process.
    pub(crate) fn publish(&mut self, window_bytes: u64, memory_bytes: u64) -> io::Result<()> {
        let directory = status_page::own_directory().map_err(io::Error::other)?;
        let path = status_page::page_of(self.pid);
        let c_string = |path: &PathBuf| CString::new(path.as_os_str().as_bytes());
        let page = SharedPage::create(&c_string(&directory)?, &c_string(&path)?)
            .map_err(io::Error::other)?;
        let own = std::process::id();
        let own_start = process::started(own).ok_or(io::ErrorKind::NotFound)?;
        let view = PageView::new(page.words()).map_err(io::Error::other)?;
        view.initialise(&Header {
            pid: self.pid,
            start_time_ticks: self.started,
            profile: Profile::Auto,
            configured: IoModeSetting::Fixed(IoMode::DropBehind),
            in_force: Some(IoMode::DropBehind),
            window_bytes,
            windows_in_flight: 1,
            memory_bytes,
        });
        view.set_keeper(own, own_start);
        self.page = Some((page, path));
        self.put_switches();
        Ok(())
    }

    fn view(&self) -> Option<PageView<'static>> {
        let (page, _) = self.page.as_ref()?;
        PageView::new(page.words()).ok()
    }

    pub(crate) fn count(&self, counter: Counter, amount: u64) {
        if amount != 0
            && let Some(view) = self.view()
        {
            view.add(counter, amount);
        }
    }

    /// What the page says.
    #[cfg(test)]
    pub(crate) fn counted(&self, counter: Counter) -> u64 {
        self.view().map_or(0, |view| view.get(counter))
    }

    fn put_switches(&self) {
        if let Some(view) = self.view() {
            view.put_switches(&Switches {
                mechanisms: self.mechanisms,
                off: self.off,
                priorities_bits: self.priorities.to_bits(),
            });
        }
    }

    pub(crate) fn is_on(&self, mechanism: Mechanism) -> bool {
        !self.off.contains(mechanism)
    }

    /// Answers a request of `coldstream ctl`.
    pub(crate) fn answer(&mut self) {
        let Some(view) = self.view() else {
            return;
        };
        let request = view.request();
        if request.number == view.answer().number {
            return;
        }
        let outcome = match request.checked(self.mechanisms) {
            Some((off, priorities)) => {
                self.off = off;
                if self.mechanisms.contains(Mechanism::Priority) {
                    self.priorities = priorities;
                }
                self.put_switches();
                Outcome::Done
            }
            None => Outcome::Refused,
        };
        view.add(Counter::SwitchRequests, 1);
        view.put_answer(&Answer {
            number: request.number,
            outcome,
        });
        if let Some(answered) = view.answered() {
            futex_wake_shared(answered);
        }
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.page {
            let _ = status_page::remove(path);
        }
    }
}
