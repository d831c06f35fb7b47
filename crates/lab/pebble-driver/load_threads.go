package main

import (
	"math"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// Writes that a stalled writer of a closed loop makes up for, as a time. See load_threads.cc of the
// driver of RocksDB.
const closedLoopBacklogNs = 1e8

// Records that a reader collects before it takes the output's lock.
const recordsPerBatch = 256

// shared by all goroutines of a run.
type shared struct {
	parameters runParameters
	database   *pebble.DB
	content    content
	output     output
	// Reads a second of all readers together, now. For an open loop.
	readsPerSecond atomic.Uint64
	phase          atomic.Uint32
	stop           atomic.Bool
	// Readers that have ended their first pass over the hot keys, and the keys that they have read in it.
	firstPasses   atomic.Uint64
	firstPassKeys atomic.Uint64
	updates       atomic.Uint64
	// The longest delay between the time at which an update was due and its start.
	updateLateNs atomic.Uint64
	// Time for which the engine has stalled writes, of stalls that are over.
	stalledUs atomic.Uint64
}

// hotKey returns the number of the key with this index among the hot keys.
func (s *shared) hotKey(hot uint64) uint64 {
	keys, count := s.parameters.Keys, s.parameters.HotKeys
	if s.parameters.HotLayout == "contiguous" {
		return (keys/3 + hot) % keys
	}
	return (hot*keys/count + keys/count/2) % keys
}

// reader is one goroutine that reads hot keys.
type reader struct {
	*shared
	index  uint64
	state  uint64
	buffer []byte
}

// readOne reads a key and compares its value. Returns the times of begin and end.
func (r *reader) readOne(number uint64) (uint64, uint64) {
	name := key(number)
	beginNs := nowNs()
	value, closer, err := r.database.Get(name)
	endNs := nowNs()
	check("get", err)
	var isRight bool
	if isRight, r.buffer = r.content.matches(number, value, r.buffer); !isRight {
		fail(exitVerification, "key %d has a wrong value", number)
	}
	closeAll(closer)
	return beginNs, endNs
}

// firstPass reads this reader's share of the hot keys once, in random order.
func (r *reader) firstPass() {
	endNs := nowNs() + uint64(r.parameters.FirstPassSeconds*1e9)
	var share []uint64
	for hot := r.index; hot < r.parameters.HotKeys; hot += r.parameters.Readers {
		share = append(share, hot)
	}
	for left := len(share); left > 1; left-- {
		other := mix(&r.state) % uint64(left)
		share[left-1], share[other] = share[other], share[left-1]
	}
	for _, hot := range share {
		if nowNs() >= endNs {
			break
		}
		r.readOne(r.hotKey(hot))
		r.firstPassKeys.Add(1)
	}
	r.firstPasses.Add(1)
}

// read until `stop`: in an open loop at random times that do not depend on earlier answers, in a
// closed one as soon as the answer is there.
func (r *reader) read() {
	r.firstPass()
	isOpen := r.parameters.Loop == "open"
	dueNs := float64(nowNs())
	var records []record
	for !r.stop.Load() {
		if isOpen {
			uniform := float64(mix(&r.state)>>11) / (1 << 53)
			dueNs -= math.Log1p(-uniform) * r.meanGapNs()
			sleepUntil(uint64(dueNs))
		}
		number := r.hotKey(mix(&r.state) % r.parameters.HotKeys)
		beginNs, endNs := r.readOne(number)
		intendedNs := beginNs
		if isOpen {
			intendedNs = uint64(dueNs)
		}
		records = append(records, record{kindRead, phaseWarmUp, intendedNs, beginNs, endNs})
		if len(records) >= recordsPerBatch {
			r.output.add(records...)
			records = records[:0]
		}
	}
	if isOpen {
		records = append(records, r.unstarted(dueNs)...)
	}
	r.output.add(records...)
}

// meanGapNs is the mean time between two reads of this goroutine in an open loop.
func (r *reader) meanGapNs() float64 {
	return 1e9 * float64(r.parameters.Readers) / float64(r.readsPerSecond.Load())
}

// unstarted tells of the reads that are due by now and were not started. They are counted, not drawn: there
// may be millions.
func (r *reader) unstarted(dueNs float64) []record {
	now := nowNs()
	reads := uint64(max(float64(now)-dueNs, 0) / r.meanGapNs())
	if reads == 0 {
		return nil
	}
	return []record{{kindUnstarted, phaseWarmUp, uint64(dueNs), reads, now}}
}

// update rewrites uniformly chosen keys at a fixed rate, until the compaction phase is over. After a
// write stall it makes up for what it missed; in a closed loop only for a tenth of a second of it.
func (s *shared) update() {
	var value []byte
	state := s.parameters.Seed + 17
	version := uint64(1) << 32 // Higher than any version of the loaded data set.
	dueNs := float64(nowNs())
	gapNs := 1e9 * float64(s.content.valueBytes()) / float64(s.parameters.UpdateBytesPerSecond)
	for !s.stop.Load() && s.phase.Load() < phaseAfter {
		dueNs += gapNs
		sleepUntil(uint64(dueNs))
		begunNs := float64(nowNs())
		lateNs := uint64(max(begunNs-dueNs, 0))
		if s.parameters.Loop == "closed" {
			dueNs = max(dueNs, begunNs-closedLoopBacklogNs)
		}
		s.updateLateNs.Store(max(lateNs, s.updateLateNs.Load()))
		version++
		number := mix(&state) % s.parameters.Keys
		value = s.content.fill(number, version, value)
		check("put", s.database.Set(key(number), value, pebble.NoSync))
		s.updates.Add(1)
	}
}
