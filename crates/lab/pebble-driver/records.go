package main

import (
	"encoding/binary"
	"os"
	"sync"
)

// The phases of a run, as the laboratory numbers them (Phase::from_number in phase.rs).
const (
	phaseWarmUp = iota
	phaseIdle
	phaseCompaction
	phaseAfter
	phaseEnded
)

// The kinds of records (`decode` in driver.rs).
const (
	kindRead      = 0
	kindPhase     = 1
	kindCompacted = 2
	kindUpdated   = 4
	kindWritten   = 5
	kindBacklog   = 6
	kindUnstarted = 7
	kindFirstPass = 8
)

// record of standard output: 32 bytes. Its last three words depend on the kind, as in records.h of the
// driver of RocksDB.
type record struct {
	kind, phase          uint32
	first, second, third uint64
}

// output collects the records of all goroutines. One goroutine writes them in large pieces.
type output struct {
	mutex   sync.Mutex
	pending []byte
}

func (o *output) add(records ...record) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for _, record := range records {
		o.append(record)
	}
}

// addPhase adds the start of a phase. Its time is taken under the lock: every read that starts later comes
// behind it.
func (o *output) addPhase(phase uint32, processCPUNs, loadCPUNs uint64) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.append(record{kindPhase, phase, processCPUNs, nowNs(), loadCPUNs})
}

// append is to be called with the lock.
func (o *output) append(record record) {
	o.pending = binary.NativeEndian.AppendUint32(o.pending, record.kind)
	o.pending = binary.NativeEndian.AppendUint32(o.pending, record.phase)
	o.pending = binary.NativeEndian.AppendUint64(o.pending, record.first)
	o.pending = binary.NativeEndian.AppendUint64(o.pending, record.second)
	o.pending = binary.NativeEndian.AppendUint64(o.pending, record.third)
}

func (o *output) flush() {
	o.mutex.Lock()
	bytes := o.pending
	o.pending = nil
	o.mutex.Unlock()
	_, err := os.Stdout.Write(bytes)
	check("standard output", err)
}
