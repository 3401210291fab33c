package wire_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

func collectSSE(r io.Reader) (events []string, err error) {
	for ev, e := range wire.SSE(r) {
		if e != nil {
			return events, e
		}
		s := string(ev.Data)
		if ev.Name != "" {
			s = ev.Name + "|" + s
		}
		events = append(events, s)
	}
	return events, nil
}

func TestSSE(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"LF", "data: a\n\ndata: b\n\n", []string{"a", "b"}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"CRLF inside an event", "data: a\r\ndata: b\r\n\r\n", []string{"a\nb"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"mixed", "data: a\r\n\ndata: b\r\r\ndata: c\n\n", []string{"a", "b", "c"}},
		{"no space", "data:a\n\n", []string{"a"}},
		{"one space only", "data:  a\n\n", []string{" a"}},
		{"several lines", "data: a\ndata: b\ndata:\n\n", []string{"a\nb\n"}},
		{"BOM", "\xEF\xBB\xBFdata: a\n\n", []string{"a"}},
		{"BOM-like start", "\xEF\xBB\n\ndata: a\n\n", []string{"a"}},
		{"comments", ": keep-alive\n\n:\n\ndata: a\n: more\n\n", []string{"a"}},
		{"other fields", "id: 1\nretry: 5\nfoo\nevent: ping\ndata: a\n\n", []string{"ping|a"}},
		{"name is not kept", "event: x\n\ndata: a\n\n", []string{"a"}},
		{"name after data", "data: a\nevent: x\n\n", []string{"x|a"}},
		{"flush at EOF", "data: a\n\ndata: b", []string{"a", "b"}},
		{"flush at EOF after line", "data: a\n", []string{"a"}},
		{"empty data", "data:\n\n", []string{""}},
		{"empty", "", nil},
		{"blank lines", "\n\n\r\n", nil},
		{"colon in value", "data: {\"a\":1}\n\n", []string{`{"a":1}`}},
		{"field without colon", "data\n\n", []string{""}},
		{"long line", "data: " + strings.Repeat("x", 100_000) + "\n\n", []string{strings.Repeat("x", 100_000)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in)), iotest.DataErrReader(strings.NewReader(c.in))} {
				got, err := collectSSE(r)
				if d := cmp.Diff(c.want, got); d != "" || err != nil {
					t.Errorf("error %v, events differ: %s", err, d)
				}
			}
		})
	}
}

func TestSSEReadError(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	got, err := collectSSE(io.MultiReader(strings.NewReader("data: a\n\ndata: half"), iotest.ErrReader(boom)))
	if d := cmp.Diff([]string{"a"}, got); d != "" || !errors.Is(err, boom) {
		t.Errorf("error %v, want boom; events differ: %s", err, d)
	}
}

func TestSSELineTooLong(t *testing.T) {
	t.Parallel()
	_, err := collectSSE(strings.NewReader("data: " + strings.Repeat("x", 17<<20)))
	if e := llm.AsError(err); e.Kind != llm.ServerError || e.Retryable() {
		t.Errorf("error = %v, want a final server error", err)
	}
}

func FuzzSSE(f *testing.F) {
	f.Add("data: a\r\n\r\nevent: x\rdata: b\r\r: c\n\ndata")
	f.Add("\xEF\xBB\xBFdata:a\ndata: b\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		whole, err := collectSSE(strings.NewReader(s))
		if err != nil {
			t.Fatalf("error without a read error: %v", err)
		}
		bytewise, err := collectSSE(iotest.OneByteReader(strings.NewReader(s)))
		if d := cmp.Diff(whole, bytewise); d != "" || err != nil {
			t.Errorf("reading byte by byte: error %v, differs: %s", err, d)
		}
		total := 0
		for _, ev := range whole {
			total += len(ev)
		}
		if total > len(s) {
			t.Errorf("%d bytes of data out of %d", total, len(s))
		}
	})
}
