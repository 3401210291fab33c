//go:build race

package web

// raceOn leaves out tests that measure time and memory of one goroutine.
const raceOn = true
