// The load driver of Pebble: a real Go program on a real Pebble, in one static process.
//
// It takes the same documents and writes the same records as the driver of RocksDB
// (../driver). Every value that it reads is verified. It aggregates nothing: the laboratory
// makes the histograms. Readers are plain goroutines, which change threads as in any Go program.
package main

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const usage = `usage: coldstream-pebble-driver options|load|run PARAMETERS
PARAMETERS is a JSON document. ` + "`coldstream lab pebble`" + ` starts this program; see its --help.
`

// The exit codes, as the laboratory knows them (fail.h of the driver of RocksDB).
const (
	exitUsage        = 2
	exitEngine       = 3
	exitVerification = 4
)

// fail ends the driver.
func fail(code int, format string, words ...any) {
	fmt.Fprintf(os.Stderr, "pebble driver: "+format+"\n", words...)
	os.Exit(code)
}

// check ends the driver if the engine or the kernel has returned an error.
func check(what string, err error) {
	if err != nil {
		fail(exitEngine, "%s: %v", what, err)
	}
}

func main() {
	endWithParent()
	if len(os.Args) != 3 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(exitUsage)
	}
	document := os.Args[2]
	switch os.Args[1] {
	case "options":
		checkOptions(parseParameters[optionsParameters](document))
	case "load":
		load(parseParameters[loadParameters](document))
	case "run":
		run(parseParameters[runParameters](document))
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(exitUsage)
	}
}

// endWithParent makes the load end if the laboratory is killed. The signal belongs to a thread. The
// main thread does not end before the process does.
func endWithParent() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	check("prctl", unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
}
