//! A process that looks as if it ran under Coldstream.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use coldstream_control::{Counter, Header, PageView};
use coldstream_host::process::started;
use coldstream_host::status_page;
use coldstream_io::shared::SharedPage;
use coldstream_policy::{IoMode, IoModeSetting, Profile};

/// A process with a status page like the one that the library makes.
pub struct Process {
    pub child: Child,
    pub page: PathBuf,
}

impl Process {
    /// `started_later_ticks` other than 0 makes it the page of a process that has ended.
    pub fn new(started_later_ticks: u64) -> Self {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let page = status_page::page_of(pid);
        let c_string = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
        let shared = SharedPage::create(
            &c_string(&status_page::own_directory().unwrap()),
            &c_string(&page),
        )
        .unwrap();
        let view = PageView::new(shared.words()).unwrap();
        view.initialise(&Header {
            pid,
            start_time_ticks: started(pid).unwrap() + started_later_ticks,
            profile: Profile::RocksDb,
            configured: IoModeSetting::Auto,
            in_force: Some(IoMode::Direct),
            window_bytes: 1 << 20,
            windows_in_flight: 1,
            memory_bytes: 64 << 20,
        });
        view.add(Counter::BytesDirect, 3 << 20);
        view.record_declined(b"/data/db", b"keys in no order");
        Self { child, page }
    }

    /// Adds to a counter of its page.
    pub fn add(&self, counter: Counter, value: u64) {
        let path = CString::new(self.page.as_os_str().as_bytes()).unwrap();
        let shared = SharedPage::open_shared(&path).unwrap();
        PageView::new(shared.words()).unwrap().add(counter, value);
    }

    /// Makes the page one that `coldstream attach` keeps: this process is in its place.
    pub fn attach(&self) {
        let path = CString::new(self.page.as_os_str().as_bytes()).unwrap();
        let shared = SharedPage::open_shared(&path).unwrap();
        let own = std::process::id();
        let view = PageView::new(shared.words()).unwrap();
        view.set_keeper(own, started(own).unwrap());
    }

    /// Its id as text.
    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.page);
    }
}
