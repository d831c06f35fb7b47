package main

import (
	"bytes"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sys/unix"
)

// firstCompaction is the longest wait for the first compaction, if the phase is not shorter. Updates that are too
// slow for one are measured without it: the share of the time in which a compaction ran shows that.
const firstCompaction = 30 * time.Second

// tickers are what the engine has counted since it was opened.
type tickers struct {
	compactionRead, compactionWritten, user, stalledUs uint64
}

func (s *shared) tickers() tickers {
	metrics := s.database.Metrics()
	counted := tickers{user: metrics.WAL.BytesIn, stalledUs: s.stalledUs.Load()}
	for _, level := range metrics.Levels {
		counted.compactionRead += level.TableBytesRead
		counted.compactionWritten += level.TableBytesCompacted
	}
	return counted
}

// addSince adds to the records what was counted since `earlier`.
func (t tickers) addSince(earlier tickers, output *output) {
	output.add(
		record{kindCompacted, phaseCompaction, t.compactionRead - earlier.compactionRead,
			t.compactionWritten - earlier.compactionWritten, 0},
		record{kindWritten, phaseCompaction, t.user - earlier.user, t.stalledUs - earlier.stalledUs, 0})
}

// watchStalls counts the time for which the engine stalls writes. One stall ends before the next.
func (s *shared) watchStalls() *pebble.EventListener {
	var begun time.Time
	return &pebble.EventListener{
		WriteStallBegin: func(pebble.WriteStallBeginInfo) { begun = time.Now() },
		WriteStallEnd:   func() { s.stalledUs.Add(uint64(time.Since(begun).Microseconds())) },
		// A failed compaction leaves the old tables as they are, so nothing else shows it.
		BackgroundError: func(err error) { fail(exitEngine, "a flush or compaction failed: %v", err) },
	}
}

func (s *shared) debtBytes() uint64 {
	return s.database.Metrics().Compact.EstimatedDebt
}

// enter begins a phase. The processor time of goroutines cannot be told apart. All of it counts as that
// of the load, and none as the engine's own.
func (s *shared) enter(phase uint32) {
	cpuNs := clockNs(unix.CLOCK_PROCESS_CPUTIME_ID)
	s.phase.Store(phase)
	s.output.addPhase(phase, cpuNs, cpuNs)
}

// writeRecords flushes the records ten times a second, and samples the backlog between.
func (s *shared) writeRecords() {
	for !s.stop.Load() {
		wait(0.1)
		phase := s.phase.Load()
		metrics := s.database.Metrics()
		level0 := uint64(metrics.Levels[0].TablesCount)
		var compacting uint64
		if metrics.Compact.NumInProgress > 0 {
			compacting = 1
		}
		s.output.add(record{kindBacklog, phase, level0, metrics.Compact.EstimatedDebt, compacting})
		s.output.flush()
	}
}

// startUpdates updates keys from now on. It waits for the first compaction: until then memtables fill, and
// nothing is measured.
func (s *shared) startUpdates(goroutines *sync.WaitGroup) {
	s.enter(phaseWarmUp)
	goroutines.Go(s.update)
	phase := time.Duration(s.parameters.CompactionSeconds * float64(time.Second))
	end := time.Now().Add(min(phase, firstCompaction))
	for s.database.Metrics().Compact.NumInProgress == 0 && time.Now().Before(end) {
		wait(0.01)
	}
}

// compactContinuously lets the updates go on, so that one compaction follows the other, while the reads go
// through their steps.
func (s *shared) compactContinuously() {
	updatesBefore := s.updates.Load()
	s.updateLateNs.Store(0)
	for _, step := range s.parameters.LoadSteps {
		s.readsPerSecond.Store(step)
		wait(s.parameters.CompactionSeconds / float64(len(s.parameters.LoadSteps)))
	}
	s.readsPerSecond.Store(s.parameters.ReadsPerSecond)
	s.output.add(record{kindUpdated, phaseCompaction, s.updates.Load() - updatesBefore, s.updateLateNs.Load(), s.debtBytes()})
}

// run reads the data set before, during and after a compaction.
func run(parameters runParameters) {
	if parameters.CompactionBytesPerSecond != 0 {
		fail(exitUsage, "Pebble cannot limit the rate of its compactions")
	}
	continuous := parameters.UpdateBytesPerSecond > 0
	setPages(parameters.Directory, parameters.Start == "warm")
	s := &shared{parameters: parameters, content: newContent(parameters.ValueBytes)}
	options := mustParseOptions(parameters.Options)
	options.DisableAutomaticCompactions = !continuous
	options.EventListener = s.watchStalls()
	s.database = openDatabase(parameters.Directory, options)
	s.readsPerSecond.Store(parameters.ReadsPerSecond)

	var goroutines sync.WaitGroup
	s.enter(phaseWarmUp)
	for index := range parameters.Readers {
		reader := reader{shared: s, index: index, state: parameters.Seed*7919 + index}
		goroutines.Go(reader.read)
	}
	goroutines.Go(s.writeRecords)
	for s.firstPasses.Load() < parameters.Readers {
		wait(0.01)
	}
	s.output.add(record{kindFirstPass, phaseWarmUp, s.firstPassKeys.Load(), parameters.HotKeys, 0})
	wait(parameters.WarmUpSeconds)
	s.enter(phaseIdle)
	wait(parameters.IdleSeconds)
	if continuous {
		s.startUpdates(&goroutines)
	}
	before := s.tickers()
	s.enter(phaseCompaction)
	if continuous {
		s.compactContinuously()
	} else {
		compactEverything(s.database, parameters.Keys)
	}
	s.tickers().addSince(before, &s.output)
	s.enter(phaseAfter)
	wait(parameters.AfterSeconds)
	s.enter(phaseEnded)
	s.stop.Store(true)
	goroutines.Wait()
	if parameters.Verify {
		s.verify()
	}
	s.output.flush()
	closeAll(s.database)
}

// verify reads the whole database in order, and compares every value.
func (s *shared) verify() {
	iterator, err := s.database.NewIter(nil)
	check("scan", err)
	var number uint64
	var buffer []byte
	for valid := iterator.First(); valid; valid = iterator.Next() {
		if !bytes.Equal(iterator.Key(), key(number)) {
			fail(exitVerification, "key %d is missing", number)
		}
		var isRight bool
		if isRight, buffer = s.content.matches(number, iterator.Value(), buffer); !isRight {
			fail(exitVerification, "key %d has a wrong value", number)
		}
		number++
	}
	check("scan", iterator.Close())
	if number != s.parameters.Keys {
		fail(exitVerification, "%d keys, %d were written", number, s.parameters.Keys)
	}
}
