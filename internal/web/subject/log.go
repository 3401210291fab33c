package subject

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/web"
)

const (
	logPage   = 200      // lines, at most
	logBlock  = 64 << 10 // bytes that are read at once
	logScan   = 4 << 20  // bytes that one request looks at
	logLine   = 16 << 10 // bytes of a line that are shown
	logStamp  = 40       // bytes at the beginning that tell log files apart: the first time
	logFiles  = 100      // at most
	logFilter = 200      // bytes of q
)

// severity orders the levels; -1 is none of them.
func severity(level string) int {
	return slices.Index([]string{"debug", "info", "warn", "error"}, level)
}

// Log is the log files of the gateway, read from their end.
type Log struct {
	File    func() string      // the newest; older ones end in .1, .2 and so on
	Secrets *httpsafe.Registry // they are taken out of what is shown, and what looks like one
}

// Routes implements web.Subject.
func (l Log) Routes() web.Routes {
	return web.Routes{Reads: map[string]web.Read{"log": l.read}}
}

// entry is a line of the log.
type entry struct {
	ID      string      `json:"id"`
	At      string      `json:"at,omitempty"`
	Level   string      `json:"level,omitempty"`
	Message string      `json:"message"`
	Attrs   [][2]string `json:"attrs,omitempty"`
}

type logQuery struct {
	level          int
	session, words string
	before         string
	limit          int
}

type logAnswer struct {
	Lines  []entry `json:"lines"`            // the newest first
	Before string  `json:"before,omitempty"` // continues; there may be no more lines
}

func (l Log) read(ctx context.Context, r *http.Request) (any, error) {
	v := r.URL.Query()
	q := logQuery{
		level:   severity(cmp.Or(v.Get("level"), "debug")),
		session: v.Get("session"),
		words:   strings.ToLower(v.Get("q")),
		before:  v.Get("before"),
		limit:   logPage,
	}
	if q.level < 0 || len(q.words) > logFilter {
		return nil, web.Refuse(http.StatusBadRequest, "level can be debug, info, warn or error, and q has at most %d bytes", logFilter)
	}
	return l.page(ctx, q)
}

// logPart is one of the files. Its stamp stays when it is put aside.
type logPart struct {
	file  *os.File
	stamp string
	size  int64
}

// open opens the files, the newest first.
func (l Log) open() (parts []logPart, err error) {
	for i := range logFiles {
		name := l.File()
		if i > 0 {
			name += "." + strconv.Itoa(i)
		}

		f, err := os.Open(name)
		if diskio.IsMissing(err) && i > 0 {
			break
		}

		if err != nil {
			if diskio.IsMissing(err) {
				continue
			}
			return parts, err
		}

		first := make([]byte, logStamp)
		info, err := f.Stat()
		if n, _ := f.ReadAt(first, 0); err != nil || n < logStamp {
			_ = f.Close() // only read
			continue
		}

		h := fnv.New64a()
		_, _ = h.Write(first)
		parts = append(parts, logPart{f, strconv.FormatUint(h.Sum64(), 36), info.Size()})
	}
	return parts, nil
}

// page reads backwards until it has enough, or has looked at enough.
func (l Log) page(ctx context.Context, q logQuery) (logAnswer, error) {
	parts, err := l.open()
	defer func() {
		for _, p := range parts {
			_ = p.file.Close() // only read
		}
	}()

	out := logAnswer{Lines: []entry{}}
	if err != nil {
		return out, err
	}

	at, end := 0, int64(-1)
	if q.before != "" {
		stamp, offset, _ := strings.Cut(q.before, "-")
		n, err := strconv.ParseInt(offset, 10, 64)
		at = slices.IndexFunc(parts, func(p logPart) bool { return p.stamp == stamp && n >= 0 && n <= p.size })
		if err != nil || at < 0 {
			return out, web.Refuse(http.StatusGone, "this part of the log is gone; start again")
		}
		end = n
	}

	for budget := int64(logScan); at < len(parts) && ctx.Err() == nil; at, end = at+1, -1 {
		p := parts[at]
		if end < 0 {
			end = p.size
		}

		rest, err := backwards(p.file, end, &budget, func(offset int64, line []byte) bool {
			e, ok := l.parse(line, q)
			if ok {
				e.ID = fmt.Sprintf("%s-%d", p.stamp, offset)
				out.Lines = append(out.Lines, e)
			}
			return len(out.Lines) < q.limit
		})
		if err != nil {
			return out, err
		}
		if rest > 0 || len(out.Lines) >= q.limit && at+1 < len(parts) {
			out.Before = fmt.Sprintf("%s-%d", p.stamp, rest)
			break
		}
	}

	return out, ctx.Err()
}

// backwards gives the lines before end to yield, the last first, until it has
// enough or the budget is spent. It returns where to go on.
func backwards(f io.ReaderAt, end int64, budget *int64, yield func(offset int64, line []byte) bool) (int64, error) {
	var tail []byte // of a line whose beginning is not read yet
	stop := end     // where that line ends
	for at := end; at > 0; {
		if *budget <= 0 {
			if stop == end { // a line longer than the budget
				stop = at
			}
			return stop, nil
		}

		n := min(at, logBlock)
		block := make([]byte, n, n+int64(len(tail)))
		if _, err := f.ReadAt(block, at-n); err != nil {
			return 0, err
		}

		*budget -= n
		at -= n
		data := append(block, tail...)
		for len(data) > 0 {
			i := bytes.LastIndexByte(data[:len(data)-1], '\n')
			if i < 0 && at > 0 {
				break
			}

			stop = at + int64(i) + 1
			if !yield(stop, data[i+1:]) {
				return stop, nil
			}
			data = data[:i+1]
		}

		tail = data[:min(len(data), logLine)] // the end of a long line is not shown
	}

	return 0, nil
}

// textLine is a line of gateway.log.format text.
var textLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^time=(\S+) level=(\S+) msg=("(?:[^"\\]|\\.)*"|\S*) ?(.*)$`)
})

var textPair = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(\S+?)=("(?:[^"\\]|\\.)*"|\S*)`) })

func unquoted(s string) string {
	if plain, err := strconv.Unquote(s); err == nil {
		return plain
	}
	return s
}

// parse reads a line, and reports whether it is one of those that are wanted.
func (l Log) parse(line []byte, q logQuery) (e entry, ok bool) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return e, false
	}

	line = line[:min(len(line), logLine)]
	session := ""
	var fields map[string]any
	if json.Unmarshal(line, &fields) == nil {
		take := func(name string) string {
			v := fields[name]
			delete(fields, name)
			if s, ok := v.(string); ok {
				return s
			}
			return ""
		}

		e.At = take("time")
		e.Level = strings.ToLower(take("level"))
		e.Message = l.Secrets.Scrub(take("msg"))
		session, _ = fields["session"].(string)

		for name, v := range fields {
			s, ok := v.(string)
			if !ok {
				b, _ := json.Marshal(v) // it was JSON
				s = string(b)
			}
			e.Attrs = append(e.Attrs, [2]string{name, l.Secrets.Scrub(s)})
		}

		slices.SortStableFunc(e.Attrs, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	} else if m := textLine().FindStringSubmatch(string(line)); m != nil {
		e.At = m[1]
		e.Level = strings.ToLower(m[2])
		e.Message = l.Secrets.Scrub(unquoted(m[3]))

		for _, pair := range textPair().FindAllStringSubmatch(m[4], -1) {
			value := unquoted(pair[2])
			if pair[1] == "session" {
				session = value
			}
			e.Attrs = append(e.Attrs, [2]string{pair[1], l.Secrets.Scrub(value)})
		}
	} else {
		e.Message = l.Secrets.Scrub(string(line))
	}

	var all strings.Builder
	all.WriteString(e.Message)
	for _, a := range e.Attrs {
		all.WriteString("\n" + a[0] + " " + a[1])
	}
	return e, max(severity(e.Level), 0) >= q.level && (q.session == "" || session == q.session) && strings.Contains(strings.ToLower(all.String()), q.words)
}
