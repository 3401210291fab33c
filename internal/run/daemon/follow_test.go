package daemon

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestShowLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.log")
	if err := ShowLog(t.Context(), io.Discard, path, LogView{Lines: 1}); err == nil || !strings.Contains(err.Error(), "there is no log yet") {
		t.Errorf("without a log: %v", err)
	}
	write(t, path, "a one\nb two\na three\n")
	var out bytes.Buffer
	if err := ShowLog(t.Context(), &out, path, LogView{Lines: 2, Text: "a "}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "a one\na three\n" {
		t.Errorf("got %q", out.String())
	}
	if err := ShowLog(t.Context(), &out, path, LogView{Lines: 2, Text: "nothing"}); err == nil {
		t.Error("no line and no error")
	}
}

// What is added is shown, also after the log was put aside for a new one.
func TestFollowLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.log")
	write(t, path, "one\n")
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- ShowLog(ctx, w, path, LogView{Lines: 10, Follow: true}) }()
	lines := bufio.NewReader(r)
	expect := func(want string) {
		t.Helper()
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	expect("one\n")
	write(t, path, "two\nth") // a line that is not whole yet
	expect("two\n")
	write(t, path, "ree\n")
	expect("three\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write(t, path, "four\n")
	expect("four\n")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
