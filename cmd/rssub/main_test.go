package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rshub/rshub/test/scripts"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rssub": main})
}

// The scripts run the real command.
func TestScripts(t *testing.T) { scripts.Run(t, "testdata/script", nil, nil) }
