package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

func TestRecent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st, err := session.Open(session.Options{DataDir: dir, Store: disk.Open(dir, nil), Workspace: t.TempDir(), Fsync: session.FsyncNever})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if got, err := st.Recent(t.Context(), time.Time{}, 9); err != nil || len(got) != 0 {
		t.Errorf("of an empty store: %v, %v", got, err)
	}
	long := "test:" + strings.Repeat("long ", 80)
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i, key := range []string{"test:0", "test:1", long, "test:3"} {
		s, err := st.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Append(session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text("hi")}}); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
		logs, err := filepath.Glob(filepath.Join(st.Dir(), "*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range logs {
			if fi, err := os.Stat(name); err == nil && fi.ModTime().After(begin.Add(time.Minute)) {
				if err := os.Chtimes(name, begin, begin.Add(time.Duration(i)*time.Second)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, c := range []struct {
		since int
		most  int
		want  []string
	}{
		{-1, 9, []string{"test:3", long, "test:1", "test:0"}},
		{-1, 2, []string{"test:3", long}},
		{1, 9, []string{"test:3", long}},
		{5, 9, nil},
	} {
		found, err := st.Recent(t.Context(), begin.Add(time.Duration(c.since)*time.Second), c.most)
		var got []string
		for _, s := range found {
			got = append(got, s.Key)
		}
		if d := cmp.Diff(c.want, got); d != "" || err != nil {
			t.Error(fmt.Sprint(c.since, " ", c.most), err, d)
		}
	}
}
