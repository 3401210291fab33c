//go:build !race

package files_test

const underRace = false
