package main

import (
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// parseOptions reads options in the format of Pebble's own OPTIONS file, without its version. Pebble
// refuses what it does not know. One section is the driver's: in [Driver], `drop_all=true` puts
// dropAll around the filesystem.
func parseOptions(text string) (*pebble.Options, error) {
	options := &pebble.Options{
		FS:                 vfs.Default,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             quiet{},
	}
	err := options.Parse(text, &pebble.ParseHooks{
		NewFilterPolicy: func(name string) (pebble.FilterPolicy, error) {
			if policy := bloom.FilterPolicy(10); policy.Name() == name {
				return policy, nil
			}
			return nil, fmt.Errorf("unknown filter policy %q", name)
		},
		SkipUnknown: func(name, value string) bool {
			if name != "Driver.drop_all" || value != "true" {
				return false
			}
			options.FS = dropAll{vfs.Default}
			return true
		},
	})
	return options, err
}

// quiet says nothing but what is fatal.
type quiet struct{}

func (quiet) Infof(string, ...any) {}

func (quiet) Errorf(format string, words ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", words...)
}

func (quiet) Fatalf(format string, words ...any) {
	fail(exitEngine, format, words...)
}

func mustParseOptions(text string) *pebble.Options {
	options, err := parseOptions(text)
	check("options", err)
	return options
}

// checkOptions finds an unknown option before a data set is built.
func checkOptions(parameters optionsParameters) {
	options := mustParseOptions(parameters.Options)
	options.EnsureDefaults()
	check("options", options.Validate())
}

func openDatabase(directory string, options *pebble.Options) *pebble.DB {
	database, err := pebble.Open(directory, options)
	check("open "+directory, err)
	return database
}

func closeAll(closer io.Closer) {
	check("close", closer.Close())
}
