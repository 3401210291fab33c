package files

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"sync"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// maxRecords bounds the files remembered for one session.
const maxRecords = 1000

// history holds what one session has seen of its files. It lets a repeated read
// be answered in one line and an edit of unseen content be noticed.
type history struct {
	mu    sync.Mutex
	seq   int
	files map[string]record
}

type record struct {
	info   fs.FileInfo
	offset int // of the lines shown; 0: the content was written, not shown
	limit  int
	pages  string
	hash   [sha256.Size]byte
	hashed bool // files too large to hash are told apart by size and time only
	seq    int
}

func historyOf(s *tool.State) *history {
	return tool.StateOf(s, func() *history { return &history{files: map[string]record{}} })
}

func (h *history) get(path string) (record, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.files[path]
	return r, ok
}

func (h *history) store(path string, r record) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.seq++
	r.seq = h.seq
	h.files[path] = r
	if len(h.files) <= maxRecords {
		return
	}

	oldest, at := "", h.seq+1
	for p, r := range h.files {
		if r.seq < at {
			oldest, at = p, r.seq
		}
	}

	delete(h.files, oldest)
}

// same reports whether two looks at a file saw the same content.
func (r record) same(o record) bool {
	if r.hashed && o.hashed {
		return r.hash == o.hash
	}
	return os.SameFile(r.info, o.info) && r.info.Size() == o.info.Size() && r.info.ModTime().Equal(o.info.ModTime())
}
