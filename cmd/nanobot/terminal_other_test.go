//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

func terminals() bool { return false }

func (*fakes) terminal(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Fatalf("no pseudo terminals here; begin the script with: [!terminal] skip")
}
