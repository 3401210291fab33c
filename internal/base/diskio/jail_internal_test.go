package diskio

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestCheckWindowsName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		ok   bool
	}{
		{`C:\x\y.txt`, true},
		{`c:/x/y.txt`, true},
		{`dir\file.txt`, true},
		{`..\x`, true},
		{`.gitignore`, true},
		{`console.txt`, true},
		{`COM10`, true},
		{`\\host\share\x`, false},
		{`//host/share/x`, false},
		{`\\?\C:\x`, false},
		{`\\.\PhysicalDrive0`, false},
		{`C:x`, false},
		{`C:`, false},
		{`1:\x`, false},
		{`x:ads`, false},
		{`dir\x.txt:stream`, false},
		{`x.`, false},
		{`x `, false},
		{`dir. \x`, false},
		{`CON`, false},
		{`con.txt`, false},
		{`dir\NUL`, false},
		{`aux .log`, false},
		{`COM1`, false},
		{`lpt9.txt`, false},
		{`COM¹`, false},
		{`a?b`, false},
	} {
		if err := checkWindowsName(c.name); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrBadName) {
			t.Errorf("checkWindowsName(%q) = %v, want ok %v", c.name, err, c.ok)
		}
	}
}

func TestGuardFoldsCase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.json")
	g := &guard{deny: []string{config}, fold: true}
	for _, name := range []string{"config.json", "CONFIG.JSON", "Config.json", "config.json/x"} {
		if err := g.check(filepath.Join(dir, name), false); !errors.Is(err, ErrProtected) {
			t.Errorf("check(%s) on a folding disk = %v, want ErrProtected", name, err)
		}
	}
	for _, name := range []string{"config.json5", "config", "xconfig.json"} {
		if err := g.check(filepath.Join(dir, name), false); err != nil {
			t.Errorf("check(%s) = %v", name, err)
		}
	}
	g.fold = false
	if err := g.check(filepath.Join(dir, "CONFIG.JSON"), false); err != nil {
		t.Errorf("a different file on an exact disk = %v", err)
	}
}

func TestKernelPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path        string
		write, want bool
	}{
		{"/dev/zero", false, true},
		{"/dev/fd/3", false, true},
		{"/dev/shm/x", false, false},
		{"/device/x", false, false},
		{"/proc/meminfo", false, false},
		{"/proc/self/status", false, false},
		{"/proc/self/environ", false, true},
		{"/proc/12/root/etc/passwd", false, true},
		{"/proc/thread-self/maps", false, true},
		{"/proc/self/task/1/environ", false, true},
		{"/proc/sys/kernel/hostname", false, false},
		{"/proc/sys/kernel/core_pattern", true, true},
		{"/sys/power/state", true, true},
		{"/home/u/proc/self/environ", false, false},
	} {
		if got := kernelPath(c.path, c.write); got != c.want {
			t.Errorf("kernelPath(%q, %v) = %v, want %v", c.path, c.write, got, c.want)
		}
	}
}
