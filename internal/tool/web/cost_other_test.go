//go:build !linux

package web

import "time"

func cost(fn func()) time.Duration {
	start := time.Now()
	fn()
	return time.Since(start)
}
