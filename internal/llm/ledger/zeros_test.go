package ledger_test

import (
	"bytes"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

// A disk that gives back zeros for the end of the log does not give the money back.
func TestZerosAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(data []byte) []byte{
		"the last lines": func(data []byte) []byte { return zeroed(data, len(data)-400) },
		"half a line":    func(data []byte) []byte { return zeroed(data, len(data)-70) },
		"all of it":      func(data []byte) []byte { return zeroed(data, 0) },
		"zeros behind":   func(data []byte) []byte { return append(data, make([]byte, 4096)...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, onDisk, ledger.Limits{})
			s.spend(40)
			before := s.today()
			s.put("2026-11.jsonl", lost(s.file("2026-11.jsonl")))
			if now := s.today(); now.USD < before.USD {
				t.Errorf("the ledger that is open: %+v, before %+v", now, before)
			}
			s.Ledger = s.open(ledger.Limits{})
			if now := s.today(); now.USD < before.USD-0.1 { // the sums that were saved lack the last lines
				t.Errorf("after a restart: %+v, before %+v", now, before)
			}
			s.spend(1)
			if now := s.today(); now.USD < before.USD-0.1 {
				t.Errorf("one more: %+v, before %+v", now, before)
			}
		})
	}
}

func zeroed(data []byte, from int) []byte {
	return append(bytes.Clone(data[:from]), make([]byte, len(data)-from)...)
}

func onDisk(_ testing.TB, dir string) store.Store { return disk.Open(dir, nil) }
