package main

import (
	"time"

	"golang.org/x/sys/unix"
)

func clockNs(clock int32) uint64 {
	var now unix.Timespec
	check("clock_gettime", unix.ClockGettime(clock, &now))
	return uint64(now.Nano())
}

func nowNs() uint64 {
	return clockNs(unix.CLOCK_MONOTONIC)
}

// sleepUntil waits in the kernel. Go's own timers are late by up to a millisecond when nothing else
// runs, because the poller waits in whole milliseconds.
func sleepUntil(whenNs uint64) {
	when := unix.NsecToTimespec(int64(whenNs))
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &when, nil) == unix.EINTR {
	}
}

func wait(seconds float64) {
	time.Sleep(time.Duration(seconds * float64(time.Second)))
}
