package document_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/document"
)

// slow is a file on a disk that takes its time.
type slow struct{ r *bytes.Reader }

func (s slow) ReadAt(p []byte, off int64) (int, error) {
	time.Sleep(3 * time.Second)
	return s.r.ReadAt(p, off)
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain.pdf", "report.docx", "book.xlsx", "deck.pptx"} {
		data := fixture(t, name)
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, err := document.Extract(t.Context(), name, slow{bytes.NewReader(data)}, int64(len(data)), document.Options{})
			if !errors.Is(err, document.ErrTooSlow) {
				t.Errorf("%s: %v, want ErrTooSlow", name, err)
			}
			if took := time.Since(start); took > 16*time.Second {
				t.Errorf("%s: stopped only after %v", name, took)
			}
		})
	}
}
