//go:build linux

package files_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// A FIFO in the tree must neither hang a search nor be read.
func TestFIFO(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("ok.txt", "needle\n")
	if err := syscall.Mkfifo(filepath.Join(b.dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	contains(t, b.text("grep", args{"pattern": "needle"}), "ok.txt")
	contains(t, b.text("list_dir", args{"path": "."}), "fifo")
	b.fails("read_file", args{"path": "fifo"}, tool.InvalidArgs, "named pipe")
	b.fails("grep", args{"path": "fifo", "pattern": "x"}, tool.InvalidArgs, "named pipe")
	b.fails("write_file", args{"path": "fifo", "content": "x"}, tool.InvalidArgs, "named pipe")
	b.fails("edit_file", args{"path": "fifo", "old_text": "a", "new_text": "b"}, tool.InvalidArgs, "named pipe")
}
