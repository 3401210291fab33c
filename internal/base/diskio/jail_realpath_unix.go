//go:build unix && !linux

package diskio

import "os"

func realPath(f *os.File, abs string) (string, error) { return realPathByName(f, abs) }
