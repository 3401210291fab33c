//go:build !linux

package shell

import "github.com/nanobot-go/nanobot/internal/base/diskio"

// canWatch says that the memory of processes together can be seen, which other
// systems leave to each process.
const canWatch = false

func (k *kin) twin() *kin { return k }

func (k *kin) alive() []int { return nil }

func (k *kin) hold() (release func()) { return func() {} }

// freeSpace returns what is left on the disk of a folder.
func freeSpace(dir string) uint64 {
	free, _ := diskio.FreeBytes(dir)
	return free
}
