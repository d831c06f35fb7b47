//! Lower priorities of background threads, from outside.
//!
//! They are set, and given back, by a process of its own. It gives them back where they are switched off, where
//! background threads wait for processors for long, and where the process that follows has ended, by whatever end.
//!
//! Threads are known by their names. A value is given back only while it is still the one that was set here.
//! A thread that a lowered one has made inherits its values: it gets the former ones of that thread back.

use coldstream_control::{Counter, Mechanism};
use coldstream_host::process::{self, ProcessHandle};
use coldstream_host::status_page::StatusPage;
use coldstream_io::sys::process::monotonic_ns;
use coldstream_io::sys::thread_priority;
use coldstream_policy::background::{Controller, Observed, ProcessorTime};
use coldstream_policy::{Held, Priorities, Priority, Profile, Role, changed, io_rank};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::time::Duration;

/// Time between two looks, as in the library.
pub const TEND_INTERVAL: Duration = Duration::from_millis(200);

/// The name of a thread is read at each look for so long: a new one may not have its own yet. Two seconds.
const YOUNG_LOOKS: u64 = 10;
/// After that it is read once a second. Opening that file of each of hundreds of threads is what a look costs.
const NAME_LOOKS: u64 = 5;

/// Values that threads had before and have since, most: one pool of threads has one.
const LOWERED_MAX: usize = 16;
/// Times that threads are listed when all is given back. A thread may be made between its maker's listing and reset.
const GIVE_BACK_MAX: usize = 16;

/// The threads of one process.
#[derive(Debug)]
pub struct Tended {
    process: u32,
    handle: ProcessHandle,
    threads: HashMap<i32, Changes>,
    roles: HashMap<i32, KnownRole>,
    look: u64,
    /// Values that were lowered at any time: those that a new thread may have inherited.
    lowered: Vec<Values>,
    priorities: Priorities,
    controller: Controller,
    page: Option<StatusPage>,
}

/// One thread.
#[derive(Clone, Copy, Debug)]
struct Thread {
    id: i32,
    role: Role,
}

/// By its name, when that was read last.
#[derive(Clone, Copy, Debug)]
struct KnownRole {
    role: Role,
    first_look: u64,
}

/// Nice value and I/O priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Values {
    nice: Held,
    io: Held,
}

/// What was changed of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Changes {
    values: Values,
    /// Its processor time at the last look.
    processor: ProcessorTime,
}

impl Tended {
    /// Changes nothing yet.
    ///
    /// # Errors
    /// The kernel's; `NotFound` if the process has ended.
    pub fn new(process: u32) -> io::Result<Self> {
        Ok(Self {
            process,
            handle: ProcessHandle::open(process)?,
            threads: HashMap::new(),
            roles: HashMap::new(),
            look: 0,
            lowered: Vec::new(),
            priorities: Priorities::default(),
            controller: Controller::default(),
            page: None,
        })
    }

    /// Whether the process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.handle.has_ended()
    }

    /// Sets priorities, or gives them back: to be called at each look.
    pub fn tend(&mut self) {
        if self.page.is_none() {
            self.page = StatusPage::open_for_requests(self.process).ok();
        }
        let view = self.page.as_ref().map(StatusPage::view);
        let switches = view.map(|it| it.switches());
        let is_off = switches.is_some_and(|it| it.off.contains(Mechanism::Priority));
        let asked = switches.and_then(|it| Priorities::from_bits(it.priorities_bits));
        self.priorities = asked.unwrap_or_default();
        let threads = self.list();
        let processor = self.processor_time(&threads);
        let observed = Observed {
            processor,
            ..Observed::default()
        };
        let is_behind = self
            .controller
            .tick(monotonic_ns(), &observed, None)
            .is_behind;
        self.set(&threads, !is_off && !is_behind);
        if let Some(view) = view {
            let changed = self.threads.values().filter(|it| it.values.any()).count();
            view.set(Counter::PriorityThreads, changed as u64);
            let releases = self.controller.figures().priority_releases;
            view.set(Counter::PriorityReleases, releases);
        }
    }

    /// Gives every priority back. Returns whether no thread has a lowered one any more.
    #[must_use]
    pub fn give_back(&mut self) -> bool {
        for _ in 0..GIVE_BACK_MAX {
            // Threads that lowered ones have made meanwhile are found the next time.
            if self.has_ended() {
                return true;
            }
            let threads = self.list();
            if self.set(&threads, false) == 0 {
                return true;
            }
        }
        false
    }

    /// All threads, by the names that were read lately.
    fn list(&mut self) -> Vec<Thread> {
        self.look += 1;
        let (process, look) = (self.process, self.look);
        let ids = process::thread_ids(process);
        let known = std::mem::take(&mut self.roles);
        for id in ids {
            let before = known.get(&id);
            let first_look = before.map_or(look, |it| it.first_look);
            // Not those of all threads at one look.
            let is_due = look - first_look < YOUNG_LOOKS
                || (look + id.unsigned_abs() as u64).is_multiple_of(NAME_LOOKS);
            let role = match before {
                Some(before) if !is_due => Some(before.role),
                _ => process::thread_name(process, id).map(|name| role_of(&name)),
            };
            if let Some(role) = role {
                self.roles.insert(id, KnownRole { role, first_look });
            }
        }
        let roles = self.roles.iter();
        roles
            .map(|(id, it)| Thread {
                id: *id,
                role: it.role,
            })
            .collect()
    }

    /// The processor time of all background threads since the last look.
    fn processor_time(&mut self, threads: &[Thread]) -> ProcessorTime {
        let mut sum = ProcessorTime::default();
        for thread in threads.iter().filter(|it| it.role != Role::Foreground) {
            let Some(now) = schedstat(self.process, thread.id) else {
                continue;
            };
            if let Some(known) = self.threads.get_mut(&thread.id) {
                let before = std::mem::replace(&mut known.processor, now);
                sum = sum.plus(ProcessorTime {
                    run_ns: now.run_ns.saturating_sub(before.run_ns),
                    wait_ns: now.wait_ns.saturating_sub(before.wait_ns),
                });
            }
        }
        sum
    }

    /// Returns how many threads had, or have, a lowered priority.
    fn set(&mut self, threads: &[Thread], may_lower: bool) -> usize {
        let mut lowered_threads = 0;
        let alive: HashSet<i32> = threads.iter().map(|it| it.id).collect();
        self.threads.retain(|id, _| alive.contains(id));
        // A thread that was listed before these were lowered has values of its own.
        let lowered = self.lowered.clone();
        for thread in threads {
            let known = self.threads.get(&thread.id).copied();
            let mut changes = known.unwrap_or_else(|| self.first_sight_of(thread.id, &lowered));
            let wanted = if may_lower {
                self.priorities.of(thread.role)
            } else {
                Priority::default()
            };
            let had_any = changes.values.any();
            if thread.role != Role::Foreground || had_any {
                changes.values.make(thread.id, wanted);
                self.remember(changes.values);
            }
            lowered_threads += usize::from(had_any || changes.values.any());
            self.threads.insert(thread.id, changes);
        }
        lowered_threads
    }

    /// A new thread has its own values, or those of a lowered thread that has made it.
    fn first_sight_of(&self, id: i32, lowered: &[Values]) -> Changes {
        let inherited = lowered.iter().find(|it| it.are_of(id));
        Changes {
            values: inherited.copied().unwrap_or_default(),
            processor: schedstat(self.process, id).unwrap_or_default(),
        }
    }

    fn remember(&mut self, values: Values) {
        if values.any() && !self.lowered.contains(&values) && self.lowered.len() < LOWERED_MAX {
            self.lowered.push(values);
        }
    }
}

impl Values {
    fn any(&self) -> bool {
        self.nice.is_changed() || self.io.is_changed()
    }

    /// Whether a thread has exactly these values.
    fn are_of(&self, id: i32) -> bool {
        thread_priority::nice(id) == Ok(self.nice.set)
            && thread_priority::io_priority(id) == Ok(self.io.set)
    }

    /// Sets a thread's values, or gives the former ones back.
    fn make(&mut self, id: i32, wanted: Priority) {
        if let Ok(now) = thread_priority::nice(id) {
            let held = changed(now, self.nice, wanted.nice.map(i32::from), |nice| nice);
            if held.set == now || thread_priority::set_nice(id, held.set).is_ok() {
                self.nice = held;
            }
        }
        if let Ok(now) = thread_priority::io_priority(id) {
            let io = wanted.io.map(|io| io.kernel_value());
            let held = changed(now, self.io, io, io_rank);
            if held.set == now || thread_priority::set_io_priority(id, held.set).is_ok() {
                self.io = held;
            }
        }
    }
}

fn role_of(name: &[u8]) -> Role {
    Profile::Auto.role_of_thread(name)
}

/// Time on a processor and in a run queue (`Documentation/scheduler/sched-stats.rst` of the kernel).
fn schedstat(process: u32, thread: i32) -> Option<ProcessorTime> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    Some(ProcessorTime {
        run_ns: numbers.next()?.ok()?,
        wait_ns: numbers.next()?.ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_io::sys::process::thread_id;
    use std::sync::Mutex;
    use std::sync::mpsc::{self, Sender};
    use std::thread::JoinHandle;

    /// Each test lowers all threads of this process that have such a name.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// A thread that makes others when it is asked. It ends when this is dropped.
    struct Worker {
        id: i32,
        ask: Option<Sender<Request>>,
        thread: Option<JoinHandle<()>>,
    }

    /// A name, and where the new thread goes.
    type Request = (&'static str, Sender<Worker>);

    impl Worker {
        fn start(name: &str) -> Self {
            let (ask, asked) = mpsc::channel::<Request>();
            let (say, hear) = mpsc::channel();
            let body = move || {
                say.send(thread_id()).unwrap();
                for (name, answer) in asked {
                    answer.send(Self::start(name)).unwrap();
                }
            };
            let thread = std::thread::Builder::new().name(name.to_owned());
            let thread = thread.spawn(body).unwrap();
            Self {
                id: hear.recv().unwrap(),
                ask: Some(ask),
                thread: Some(thread),
            }
        }

        fn make(&self, name: &'static str) -> Self {
            let (answer, made) = mpsc::channel();
            let ask = self.ask.as_ref().unwrap();
            ask.send((name, answer)).unwrap();
            made.recv().unwrap()
        }
    }

    impl Drop for Worker {
        fn drop(&mut self) {
            self.ask.take();
            let ended = self.thread.take().map(JoinHandle::join);
            assert!(ended.is_none_or(|it| it.is_ok()) || std::thread::panicking());
        }
    }

    /// I/O priority and nice value.
    fn values(id: i32) -> (i32, i32) {
        let io = thread_priority::io_priority(id).unwrap();
        (
            thread_priority::io_priority_with_class(io),
            thread_priority::nice(id).unwrap(),
        )
    }

    #[test]
    fn a_compactions_thread_gets_a_lower_priority_and_its_former_one_back() {
        let _one = ONE_AT_A_TIME.lock();
        let (compaction, client) = (Worker::start("rocksdb:low"), Worker::start("client"));
        let (before, of_client) = (values(compaction.id), values(client.id));
        let mut tended = Tended::new(std::process::id()).unwrap();
        tended.tend();
        assert_eq!(values(compaction.id), (2 << 13 | 7, 10.max(before.1)));
        assert_eq!(values(client.id), of_client);
        assert!(tended.give_back());
        assert_eq!(values(compaction.id).0, before.0);
        if may_raise() {
            assert_eq!(values(compaction.id).1, before.1);
        }
        assert_eq!(values(client.id), of_client);
    }

    /// Whether this process may give a lower nice value back.
    fn may_raise() -> bool {
        let tried = std::thread::spawn(|| {
            let before = thread_priority::nice(0).unwrap();
            thread_priority::set_nice(0, before + 1)?;
            thread_priority::set_nice(0, before)
        });
        tried.join().unwrap().is_ok()
    }

    #[test]
    fn what_a_lowered_thread_has_made_gets_its_makers_former_values() {
        let _one = ONE_AT_A_TIME.lock();
        if !may_raise() {
            eprintln!("skipped: this user may not give a nice value back");
            return;
        }
        let maker = Worker::start("rocksdb:low");
        let before = values(maker.id);
        let lowered = (2 << 13 | 7, 10.max(before.1));
        let mut tended = Tended::new(std::process::id()).unwrap();
        tended.tend();
        let made = ["rocksdb:low", "rocksdb:high", "client"].map(|name| maker.make(name));
        let of_made = || made.each_ref().map(|it| values(it.id));
        assert_eq!(of_made(), [lowered; 3]);
        tended.tend();
        assert_eq!(of_made(), [lowered, before, before]);
        assert!(tended.give_back());
        assert_eq!(of_made(), [before; 3]);
    }

    #[test]
    fn the_name_of_an_old_thread_is_read_once_a_second() {
        let _one = ONE_AT_A_TIME.lock();
        let compaction = Worker::start("rocksdb:low");
        let before = values(compaction.id);
        let mut tended = Tended::new(std::process::id()).unwrap();
        let named = |name: &str| {
            let path = format!("/proc/self/task/{}/comm", compaction.id);
            fs::write(path, name).unwrap();
        };
        for _ in 0..YOUNG_LOOKS {
            tended.tend();
        }
        assert_ne!(values(compaction.id), before);
        named("client");
        let mut looks = 0;
        while tended.roles[&compaction.id].role != Role::Foreground {
            tended.tend();
            looks += 1;
            assert!(looks <= NAME_LOOKS);
        }
        // A name that has changed between is seen the next time.
        named("rocksdb:low");
        let changes = (0..2 * NAME_LOOKS).filter(|_| {
            let before = tended.roles[&compaction.id].role;
            tended.tend();
            tended.roles[&compaction.id].role != before
        });
        assert_eq!(changes.count(), 1);
        assert!(tended.give_back());
        assert_eq!(values(compaction.id).0, before.0);
    }

    #[test]
    fn what_the_application_sets_itself_stays() {
        let _one = ONE_AT_A_TIME.lock();
        let compaction = Worker::start("rocksdb:low");
        let mut tended = Tended::new(std::process::id()).unwrap();
        tended.tend();
        thread_priority::set_io_priority(compaction.id, 3 << 13).unwrap();
        assert!(tended.give_back());
        assert_eq!(thread_priority::io_priority(compaction.id), Ok(3 << 13));
    }
}
