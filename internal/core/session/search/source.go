package search

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// kind says how a file is read.
type kind int

const (
	kindLog kind = iota
	kindHistory
	kindNote
)

const (
	maxText = 64 << 10 // bytes of one document that are indexed
	maxNote = 1 << 20  // bytes of a memory file that are read
	maxLine = 16 << 20 // bytes of a line that are looked at
	// dirScope marks names that are directories of scopes rather than scopes.
	dirScope = "\x01"
)

// source is a file and how far it was read. The fields are those of the table.
type source struct {
	id      int64 // 0: not in the table yet
	label   string
	kind    kind
	ident   string
	size    int64
	mtime   int64
	pos     int64  // everything before is in the index
	tail    []byte // the bytes before pos, to recognise the file
	session string
	scope   string // of the turn at pos
	tainted bool   // words from outside are in the conversation before pos
	foreign bool   // they are, or may be, in the text at pos
	time    int64  // of the last message before pos, in milliseconds
	docs    int64
	words   int64
	bytes   int64

	info  store.Info // when it was listed
	reset bool       // what is in the index is void
}

// doc is a text on its way into the index.
type doc struct {
	id       int64
	src      *source
	pos, len int64
	session  string
	scope    string
	role     Role
	tainted  bool
	time     int64
	toks     []token
}

// notes finds the memory files. Links are not followed: a tool may have made
// them.
func (x *Index) notes() ([]*source, error) {
	if x.opt.Workspace == "" {
		return nil, nil
	}

	tree, err := diskio.OpenTree(x.opt.Workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	defer tree.Close() //nolint:errcheck // only read from
	var out []*source
	for _, pattern := range []string{"USER.md", "SOUL.md", "memory/*.md", "memory/scopes/*/MEMORY.md"} {
		names, err := fs.Glob(tree.FS(), pattern)
		if err != nil {
			return nil, err
		}

		for _, name := range names {
			fi, err := tree.Lstat(name)
			if err != nil || !fi.Mode().IsRegular() {
				continue
			}

			scope := ""
			if strings.HasPrefix(name, "memory/scopes/") {
				scope = dirScope + path.Base(path.Dir(name))
			}
			out = append(out, &source{label: "n/" + name, kind: kindNote, info: fileInfo(name, fi), scope: scope})
		}
	}

	return out, nil
}

// opened is a source that can be read.
type opened struct {
	io.ReaderAt
	io.Closer

	info store.Info
}

// openSource opens what a label names.
func (x *Index) openSource(ctx context.Context, label string) (*opened, error) {
	place, name, _ := strings.Cut(label, "/")
	switch place {
	case "h":
		return x.openLog(ctx, x.opt.History)
	case "s":
		return x.openLog(ctx, path.Join(x.opt.Sessions, name))
	case "a":
		return x.openLog(ctx, path.Join(x.opt.Sessions, dirArchive, name))
	case "n":
		return openIn(x.opt.Workspace, name)
	}

	if i, err := strconv.Atoi(strings.TrimPrefix(place, "o")); err == nil && i < len(x.opt.OldSessions) {
		return openIn(x.opt.OldSessions[i], name)
	}
	return nil, fmt.Errorf("no such source %q", label)
}

// openLog opens a log of the store.
func (x *Index) openLog(ctx context.Context, name string) (*opened, error) {
	l, err := x.opt.Store.Log(ctx, name)
	if err != nil {
		return nil, err
	}

	info, err := l.Info(ctx)
	if err == nil && !info.Exists() {
		err = fs.ErrNotExist
	}

	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &opened{l, l, info}, nil
}

// openIn opens a file of a folder that commands may change.
func openIn(dir, name string) (*opened, error) {
	tree, err := diskio.OpenTree(dir)
	if err != nil {
		return nil, err
	}

	f, err := tree.Open(name)
	if err = errors.Join(err, tree.Close()); err != nil {
		return nil, err
	}

	fi, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &opened{f, f, fileInfo(name, fi)}, nil
}

// fileInfo describes a file outside of the store. Its name is all that tells it
// from another one.
func fileInfo(name string, fi fs.FileInfo) store.Info {
	return store.Info{Name: name, ID: "-", Size: fi.Size(), Changed: fi.ModTime()}
}

// keyOf returns the key that the name of a log tells, for logs that do not say it.
func keyOf(label string) string {
	place, name, _ := strings.Cut(label, "/")
	name = strings.TrimSuffix(name, ".jsonl")
	if place == "a" {
		name = strings.TrimSuffix(name, path.Ext(name)) // the number
	}
	if raw, err := base64.RawURLEncoding.Strict().DecodeString(name); err == nil && place[0] != 'o' {
		return string(raw)
	}
	return strings.Replace(name, "_", ":", 1)
}

// logLine takes a line of a session log in: what it says about the turn stays
// in s, and the text it holds is returned, "" when there is none to index.
func (s *source) logLine(line []byte) (text string, role Role) {
	if len(line) < 2 || line[0] != '{' || len(line) > maxLine {
		return "", ""
	}
	// Results of tools are most of a log and only matter for the fence.
	if bytes.HasPrefix(line, []byte(`{"role":"tool"`)) {
		s.tainted = s.tainted || fenced(line)
		return "", ""
	}

	if bytes.Contains(line, []byte(`"_type"`)) {
		var m struct {
			Type string `json:"_type"`
			Key  string `json:"key"`
		}
		if json.Unmarshal(line, &m) == nil && m.Type != "" {
			if m.Key != "" {
				s.session = m.Key
			}
			return "", ""
		}
	}

	var r session.Record
	if r.UnmarshalJSON(line) != nil {
		return "", ""
	}
	if r.Mark() {
		return "", ""
	}

	switch r.Role {
	case llm.ToolRole:
		s.tainted = s.tainted || fenced(line)
		return "", ""
	case llm.User:
		if !r.Command {
			s.scope, s.foreign = turnOf(&r)
			s.tainted = s.tainted || s.foreign
		}
		role = User

	case llm.Assistant:
		// It may repeat what was said before, also turns ago.
		_, described := turnOf(&r)
		s.tainted = s.tainted || described && r.Runtime != nil
		s.foreign, role = s.tainted, Assistant

	default:
		return "", ""
	}

	if r.Command || r.Internal || r.Hidden || r.Interrupted {
		return "", ""
	}

	if !r.Time.IsZero() {
		s.time = r.Time.UnixMilli()
	}
	return strings.TrimSpace(r.Display()), role
}

// turnOf returns what a message says about itself: whose it is, and whether
// words from outside are in it. One that does not say where it came from, such
// as one of another program, may be from any person.
func turnOf(r *session.Record) (scope string, tainted bool) {
	if r.Runtime == nil {
		return "", true
	}

	tainted = r.Event != ""
	for _, mark := range r.Runtime.Sources {
		if after, ok := strings.CutPrefix(mark, "scope:"); ok {
			scope = after
		}
		tainted = tainted || mark == "untrusted" || mark == "media"
	}
	return scope, tainted
}

func fenced(line []byte) bool {
	return bytes.Contains(line, []byte("<untrusted id=")) || bytes.Contains(line, []byte(`\u003cuntrusted id=`))
}

// entryLine reads a line of the history.
func (s *source) entryLine(line []byte) (text string, role Role) {
	var e struct {
		Timestamp string `json:"timestamp"`
		Content   string `json:"content"`
		Session   string `json:"session_key"`
		Scope     string `json:"scope"`
		Tainted   bool   `json:"tainted"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
			return "", ""
		}
	}

	s.session = e.Session
	s.scope = e.Scope
	s.tainted = e.Tainted
	s.foreign = e.Tainted
	if t, err := time.ParseInLocation("2006-01-02 15:04", e.Timestamp, time.Local); err == nil {
		s.time = t.UnixMilli()
	}
	return strings.TrimSpace(e.Content), Summary
}

// paragraphs yields the pieces of a memory file between empty lines and before
// headings, and where they are.
func paragraphs(data []byte, yield func(pos int, text string)) {
	start := -1
	end := 0
	flush := func() {
		if start >= 0 {
			yield(start, string(data[start:end]))
		}
		start = -1
	}
	for pos := 0; pos < len(data); {
		line := data[pos:]
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}

		trimmed := bytes.TrimSpace(line)
		switch {
		case len(trimmed) == 0:
			flush()
		case trimmed[0] == '#':
			flush()
			start = pos
		case start < 0:
			start = pos
		}

		if len(trimmed) > 0 {
			end = pos + len(bytes.TrimRight(line, "\r\n"))
		}
		pos += len(line)
	}

	flush()
}

// load reads the text of a document again.
func load(f io.ReaderAt, k kind, pos, size int64) (string, bool) {
	if size <= 0 || size > maxLine {
		return "", false
	}

	raw := make([]byte, size)
	if _, err := f.ReadAt(raw, pos); err != nil && !errors.Is(err, io.EOF) {
		return "", false
	}

	var text string
	switch k {
	case kindLog:
		text = words(raw)
	case kindHistory:
		text, _ = (&source{}).entryLine(raw)
	default:
		text = string(raw)
	}

	return clip(text), text != ""
}

// words returns the text of a line of a log that was read before, so that only the
// text is of interest.
func words(line []byte) string {
	if rest, ok := bytes.CutPrefix(line, []byte(`{"role":`)); ok && !bytes.Contains(line, []byte(`"_runtime_context"`)) {
		if _, rest, ok = bytes.Cut(rest, []byte(`,"content":"`)); ok {
			for end := 0; end < len(rest); end++ {
				if rest[end] == '\\' {
					end++
				} else if rest[end] == '"' {
					var s string
					if json.Unmarshal(line[len(line)-len(rest)-1:len(line)-len(rest)+end+1], &s) == nil {
						return strings.TrimSpace(s)
					}
					break
				}
			}
		}
	}

	var r struct {
		Content llm.Content             `json:"content"`
		Runtime *session.RuntimeContext `json:"_runtime_context"`
	}
	if json.Unmarshal(line, &r) != nil {
		return ""
	}
	return strings.TrimSpace(session.Record{Message: llm.Message{Content: r.Content}, Runtime: r.Runtime}.Display())
}

// clip returns the part of a text that is indexed.
func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return canonical(s)
}

// same reports whether a row of the table describes the file as it is.
func (s *source) same(row *source) bool {
	return row.ident == s.info.ID && row.size == s.info.Size && row.mtime == s.info.Changed.UnixNano()
}

// tailKept is how many bytes before a position must be as they were.
const tailKept = 64

// grown reports whether a file is what the row describes with more behind it.
func grown(f *opened, row *source) bool {
	if row.kind == kindNote || row.ident != f.info.ID || f.info.Size < row.pos {
		return false
	}
	same, err := diskio.SameTail(f, row.pos, row.tail)
	return err == nil && same
}
