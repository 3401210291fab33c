//go:build race

package files_test

// underRace says that everything takes ten times as long.
const underRace = true
