package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// loader writes to a database as fast as it accepts writes, without a log.
type loader struct {
	*pebble.DB
	content content
	value   []byte
}

func newLoader(database databaseParameters, change func(*pebble.Options)) *loader {
	options := mustParseOptions(database.Options)
	options.DisableWAL = true
	change(options)
	return &loader{openDatabase(database.Directory, options), newContent(database.ValueBytes), nil}
}

func (l *loader) put(number, version uint64) {
	l.value = l.content.fill(number, version, l.value)
	check("put", l.Set(key(number), l.value, pebble.NoSync))
}

// load builds the data set that all runs of a case start from.
func load(parameters loadParameters) {
	loadSortedRuns(parameters)
	if parameters.Updates != 0 {
		updateUniformly(parameters)
	}
}

// loadSortedRuns writes every key once per sorted run. The first run is compacted to the last level.
// The others stay above it and overlap it wholly.
func loadSortedRuns(parameters loadParameters) {
	loader := newLoader(parameters.databaseParameters, func(options *pebble.Options) {
		options.DisableAutomaticCompactions = true
		options.L0StopWritesThreshold = 1000000
	})
	defer closeAll(loader)
	for run := range parameters.SortedRuns {
		for number := range parameters.Keys {
			loader.put(number, run)
			if number%50000 == 0 {
				fmt.Fprintf(os.Stderr, "loading: run %d of %d, %d %%\n", run+1, parameters.SortedRuns,
					number*100/parameters.Keys)
			}
		}
		check("flush", loader.Flush())
		if run == 0 {
			compactEverything(loader.DB, parameters.Keys)
		}
	}
}

// updateUniformly rewrites uniformly chosen keys. The engine's own compactions then bring the levels
// into the shape that they have in the long run.
func updateUniformly(parameters loadParameters) {
	loader := newLoader(parameters.databaseParameters, func(*pebble.Options) {})
	defer closeAll(loader)
	state := uint64(1)
	for update := range parameters.Updates {
		loader.put(mix(&state)%parameters.Keys, parameters.SortedRuns+update)
	}
	check("flush", loader.Flush())
	// No compaction runs, and none has begun for half a second.
	for rests := 0; rests < 10; rests++ {
		if loader.Metrics().Compact.NumInProgress != 0 {
			rests = 0
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func compactEverything(database *pebble.DB, keys uint64) {
	check("compaction", database.Compact(context.Background(), key(0), key(keys), true))
}
