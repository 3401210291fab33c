//go:build !linux

package shell_test

func play() (code int, played bool) { return 0, false }
