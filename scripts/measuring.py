"""What the scripts that measure a server from outside of this project have in common."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys


def say(text):
    print(text, file=sys.stderr, flush=True)


def arguments(parser, modes, memory_mib):
    """Adds the options that all of these scripts have."""
    parser.add_argument("--coldstream", type=pathlib.Path, required=True, metavar="PATH", help="the command that `make build` made")
    parser.add_argument("--work", type=pathlib.Path, required=True, metavar="DIR", help="where what is fetched and the data lie")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="turns of each mode (default: 3)")
    parser.add_argument("--modes", default=",".join(modes), metavar="LIST", help=f"default: {','.join(modes)}")
    parser.add_argument("--memory-mib", type=int, default=memory_mib, metavar="N", help=f"the limit of the cgroup (default: {memory_mib})")
    parser.add_argument("--read-ahead-kb", type=int, default=16, metavar="N", help="of the device, for the time of the runs (default: 16)")
    parser.add_argument("--keep-awake", action="store_true", help="let no processor halt, as `coldstream lab --keep-awake` does")
    parser.add_argument("--json", action="store_true", help="print each turn as JSON")


def parse(parser, known_modes):
    """The options, checked. `modes` is a list, and the paths are there."""
    options = parser.parse_args()
    options.modes = options.modes.split(",")
    if unknown := set(options.modes) - set(known_modes):
        parser.error(f"unknown mode: {', '.join(sorted(unknown))}; there are {', '.join(known_modes)}")
    if os.geteuid():
        parser.error("a cgroup and the readahead of a device need root")
    options.coldstream = options.coldstream.resolve()
    if not options.coldstream.exists():
        parser.error(f"{options.coldstream} does not exist: run `make build` first")
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    return options


def take_turns(options, turn, report):
    """Calls `turn` for each mode in turn, and prints what came of it."""
    turns = []
    with readahead(options.work, options.read_ahead_kb), awake() if options.keep_awake else contextlib.nullcontext():
        for run in range(options.runs):
            for mode in options.modes:
                say(f"run {run + 1} of {options.runs}: {mode}")
                turns.append(turn(mode))
    turns.sort(key=lambda turn: options.modes.index(turn["mode"]))
    if options.json:
        print(json.dumps(turns, indent=2))
    else:
        report(turns)


def cold_page_cache():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def in_cgroup(name, memory_mib, command):
    """`command` in a memory cgroup of its own. Cgroup v1 where it is mounted, v2 else. Page cache is charged in both."""
    first = pathlib.Path("/sys/fs/cgroup/memory")
    cgroup = (first if first.exists() else first.parent) / name
    cgroup.mkdir(exist_ok=True)
    limit = "memory.limit_in_bytes" if first.exists() else "memory.max"
    (cgroup / limit).write_text(str(memory_mib << 20))
    return ["sh", "-c", f'echo $$ > {cgroup / "cgroup.procs"} && exec "$@"', "sh", *command]


def handover_counters(coldstream, pid):
    status = subprocess.run([coldstream, "ctl", "status", str(pid), "--json"], capture_output=True, text=True, check=True)
    return {name: int(value) for name, value in re.findall(r'"(handover_\w+)": ?(\d+)', status.stdout)}


def handed_over(turn):
    """SSTables that were handed over, and that were declined, as they stand in a report."""
    names = ("handover_sstables", "handover_declined")
    return ", ".join(str(turn["counters"][name]) for name in names if name in turn["counters"])


@contextlib.contextmanager
def awake():
    """A process of the lowest class spins on each processor. A halted one of a virtual machine wakes up too late."""
    with setting(pathlib.Path("/proc/sys/kernel/sched_autogroup_enabled"), "0"):
        spin = ["chrt", "--idle", "0", "sh", "-c", "while :; do :; done"]
        spinning = [subprocess.Popen(["taskset", "--cpu-list", str(number), *spin]) for number in os.sched_getaffinity(0)]
        try:
            yield
        finally:
            for process in spinning:
                process.kill()


def readahead(directory, kib):
    """Sets how far the kernel reads ahead on the device of `directory`, and gives it back."""
    device = os.stat(directory).st_dev
    block = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    disk = block.parent if (block / "partition").exists() else block
    return setting(disk / "queue/read_ahead_kb", str(kib))


@contextlib.contextmanager
def setting(path, value):
    """Sets a setting of the kernel, and gives it back."""
    before = path.read_text()
    path.write_text(value)
    try:
        yield
    finally:
        path.write_text(before)
