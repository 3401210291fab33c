package subject_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

type logPage struct {
	Lines []struct {
		ID, At, Level, Message string
		Attrs                  [][2]string
	}
	Before string
}

func (d *desk) log(t *testing.T, query string) (p logPage) {
	t.Helper()
	code, body := get(t, d.Desk, "/api/log"+query)
	if code != 200 {
		t.Fatalf("log%s = %d %.200s", query, code, body)
	}
	must(t, json.Unmarshal([]byte(body), &p))
	return p
}

// Every line is found once, the newest first, across files that are put aside
// between two pages.
func TestLogPages(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if p := d.log(t, ""); len(p.Lines) != 0 || p.Before != "" {
		t.Errorf("no log: %+v", p)
	}
	name := filepath.Join(d.dir, "gateway.log")
	write := func(file string, from, to int) {
		var b strings.Builder
		for i := from; i < to; i++ {
			level := []string{"DEBUG", "INFO", "WARN", "ERROR"}[i%4]
			fmt.Fprintf(&b, `{"time":"2026-05-04T12:%02d:%02d.%09dZ","level":%q,"msg":"line %d","session":"websocket:%d","err":"key sk-hush-0123456789 %s"}`+"\n", i/60%60, i%60, i, level, i, i%3, strings.Repeat("x", i%300))
		}
		must(t, os.WriteFile(file, []byte(b.String()), 0o600))
	}
	write(name+".1", 0, 700)
	write(name, 700, 1000)
	p := d.log(t, "")
	if len(p.Lines) != 200 || p.Lines[0].Message != "line 999" || p.Lines[0].Level != "error" || p.Before == "" {
		t.Fatalf("first page: %d lines, %+v", len(p.Lines), p.Lines[0])
	}
	if s := fmt.Sprint(p.Lines[0].Attrs); strings.Contains(s, "sk-hush") || !strings.Contains(s, "[redacted:key]") || !strings.Contains(s, "websocket:0") {
		t.Errorf("attributes: %s", s)
	}
	must(t, os.Rename(name+".1", name+".2"))
	must(t, os.Rename(name, name+".1"))
	write(name, 2000, 2010)
	seen, n := map[string]bool{}, 0
	for {
		for _, l := range p.Lines {
			if want := fmt.Sprint("line ", 999-n); l.Message != want || seen[l.ID] {
				t.Fatalf("%s at %s, want %s", l.Message, l.ID, want)
			}
			seen[l.ID] = true
			n++
		}
		if p.Before == "" {
			break
		}
		p = d.log(t, "?before="+p.Before)
	}
	if n != 1000 {
		t.Errorf("%d lines, want 1000", n)
	}
	if p := d.log(t, "?level=error&session=websocket:1&q=LINE+7"); len(p.Lines) == 0 || p.Lines[0].Message != "line 799" {
		t.Errorf("filtered: %+v", p.Lines)
	}
	for _, bad := range []string{"?level=loud", "?q=" + strings.Repeat("x", 201)} {
		if code, body := get(t, d.Desk, "/api/log"+bad); code != 400 {
			t.Errorf("%.30s = %d %s", bad, code, body)
		}
	}
	for _, gone := range []string{"?before=zz-5", "?before=x", "?before=-1"} {
		if code, body := get(t, d.Desk, "/api/log"+gone); code != 410 {
			t.Errorf("%s = %d %s", gone, code, body)
		}
	}
}

// A request looks at a bounded part of a log however long it, or a line of it, is.
func TestLogIsLarge(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	name := filepath.Join(d.dir, "gateway.log")
	f, err := os.Create(name)
	must(t, err)
	_, err = f.WriteString("time=2026-05-04T12:00:00.000Z level=INFO msg=\"the first \\u202e line\" session=a b=1\n")
	must(t, err)
	_, err = f.Seek(1<<30, 0) // a hole: one line of a gigabyte
	must(t, err)
	_, err = f.WriteString("\nno format at all, but long enough to be one\n")
	must(t, err)
	must(t, f.Close())
	p := d.log(t, "")
	if len(p.Lines) != 1 || p.Lines[0].Message != "no format at all, but long enough to be one" || p.Before == "" {
		t.Fatalf("page: %+v", p)
	}
	for range 5 {
		before := p.Before
		if p = d.log(t, "?before="+before); p.Before == before {
			t.Fatal("the cursor does not move")
		}
	}
	_, offset, _ := strings.Cut(p.Before, "-")
	if at, err := strconv.Atoi(offset); err != nil || at < 1<<30-6*5<<20 {
		t.Errorf("six pages reach back to %s", p.Before)
	}
	must(t, os.Truncate(name, 83))
	if p := d.log(t, ""); len(p.Lines) != 1 || p.Lines[0].Message != "the first \u202e line" || p.Lines[0].Level != "info" || fmt.Sprint(p.Lines[0].Attrs) != "[[session a] [b 1]]" {
		t.Errorf("text: %+v", p.Lines)
	}
}
