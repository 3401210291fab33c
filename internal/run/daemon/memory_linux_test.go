package daemon

import (
	"os"
	"strings"
	"testing"
)

func TestOwnPages(t *testing.T) {
	t.Parallel()
	const exe = "/opt/my bot"
	for line, want := range map[string]uintptr{
		"00400000-00402000 r-xp 00000000 fe:00 123      /opt/my bot\n":           0x2000,
		"00402000-00403000 r--p 00002000 fe:00 123      /opt/my bot\n":           0x1000,
		"00403000-00404000 rw-p 00003000 fe:00 123      /opt/my bot\n":           0,
		"00404000-00405000 r--s 00003000 fe:00 123      /opt/my bot\n":           0,
		"00404000-00405000 ---p 00003000 fe:00 123      /opt/my bot\n":           0,
		"00404000-00405000 r--p 00003000 fe:00 124      /lib/other\n":            0,
		"00404000-00405000 r--p 00003000 fe:00 124      /opt/my bot (deleted)\n": 0,
		"c000000000-c000400000 rw-p 00000000 00:00 0\n":                          0,
		"00405000-00404000 r--p 00003000 fe:00 123      /opt/my bot\n":           0,
		"zz-00404000 r--p 00003000 fe:00 123      /opt/my bot\n":                 0,
		"": 0,
	} {
		if _, size, ok := ownPages(line, exe); size != want || ok != (want > 0) {
			t.Errorf("%q: %#x, %v, want %#x", line, size, ok, want)
		}
	}
}

// A program goes on after its pages are gone, and has fewer of them.
func TestReleaseMemory(t *testing.T) {
	before := resident(t)
	releaseMemory()
	after := resident(t)
	t.Logf("pages of files: %s before, %s after", before, after)
	if !strings.HasSuffix(after, " kB") || len(after) > len(before) {
		t.Errorf("pages of files: %s before, %s after", before, after)
	}
}

func resident(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	figure, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(figure)
}
