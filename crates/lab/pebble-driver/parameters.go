package main

import (
	"encoding/json"
	"reflect"
	"strings"
)

// The driver's parameters. `coldstream lab pebble` writes them as one JSON document, from the structs
// of the same names in lab/src/driven/parameters.rs.

// optionsParameters belong to `options`.
type optionsParameters struct {
	// Pebble's own options file, without its version. See parseOptions.
	Options string `json:"options"`
}

// databaseParameters are part of the other documents.
type databaseParameters struct {
	Directory  string `json:"directory"`
	Options    string `json:"options"`
	Keys       uint64 `json:"keys"`
	ValueBytes uint64 `json:"value_bytes"`
}

// loadParameters belong to `load`.
type loadParameters struct {
	databaseParameters
	// Times that every key is written, each time as a sorted run of its own.
	SortedRuns uint64 `json:"sorted_runs"`
	// Uniformly chosen keys that are written again afterwards.
	Updates uint64 `json:"updates"`
}

// runParameters belong to `run`.
type runParameters struct {
	databaseParameters
	// "cold" or "warm": what of the database is in the page cache when the run begins.
	Start   string `json:"start"`
	HotKeys uint64 `json:"hot_keys"`
	// "scattered" or "contiguous".
	HotLayout string `json:"hot_layout"`
	Readers   uint64 `json:"readers"`
	// "open" or "closed".
	Loop           string   `json:"loop"`
	ReadsPerSecond uint64   `json:"reads_per_second"`
	LoadSteps      []uint64 `json:"load_steps"`
	Seed           uint64   `json:"seed"`
	// The first pass over the hot keys ends after this time, however slow the device is.
	FirstPassSeconds float64 `json:"first_pass_seconds"`
	WarmUpSeconds    float64 `json:"warm_up_seconds"`
	IdleSeconds      float64 `json:"idle_seconds"`
	// Only if updates keep compaction going.
	CompactionSeconds float64 `json:"compaction_seconds"`
	AfterSeconds      float64 `json:"after_seconds"`
	// Pebble has no such limit: must be 0.
	CompactionBytesPerSecond uint64 `json:"compaction_bytes_per_second"`
	// 0: no updates, and one manual compaction of everything.
	UpdateBytesPerSecond uint64 `json:"update_bytes_per_second"`
	// Compare the whole database with what was written, at the end.
	Verify bool `json:"verify"`
}

// parseParameters reads a document strictly. A field that is missing or unknown, or that has another type,
// ends the driver before it does anything.
func parseParameters[T any](document string) T {
	var parameters T
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&parameters); err != nil {
		fail(exitUsage, "parameters: %v", err)
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal([]byte(document), &given); err != nil {
		fail(exitUsage, "parameters: %v", err)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if _, is := given[field.Tag.Get("json")]; !is && !field.Anonymous {
			fail(exitUsage, "%s is missing", field.Tag.Get("json"))
		}
	}
	return parameters
}
