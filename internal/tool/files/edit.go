package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/tool"
)

type editInput struct {
	Path       string `json:"path" alias:"file_path|filename|file"`
	OldText    string `json:"old_text" alias:"old_string|old_str|old"`
	NewText    string `json:"new_text" alias:"new_string|new_str|new"`
	ReplaceAll bool   `json:"replace_all,omitempty"`
	Occurrence int    `json:"occurrence,omitempty" hidden:"1"` // the nth match
	LineHint   int    `json:"line_hint,omitempty" hidden:"1"`  // the match on this line
	Expected   int    `json:"expected_replacements,omitempty" hidden:"1"`
}

// refusal carries a result out of the code that decides about an edit.
type refusal struct{ result tool.Result }

func (r refusal) Error() string { return r.result.Content.Text }

func refuse(code tool.Code, format string, args ...any) error {
	return refusal{tool.Fail(code, format, args...)}
}

func (f *family) editFile(ctx context.Context, c tool.Call, in editInput) (tool.Result, error) {
	if res, no := readOnlyName(in.Path); no {
		return res, nil
	}
	if strings.EqualFold(extension(in.Path), ".ipynb") {
		return tool.Fail(tool.InvalidArgs, "%s is a notebook; use notebook_edit", in.Path), nil
	}
	if err := in.check(); err != nil {
		return f.refused(ctx, in.Path, err)
	}

	var done edited
	var warning string
	w, err := f.jail.Update(ctx, in.Path, maxEditBytes, func(old []byte, info fs.FileInfo) ([]byte, error) {
		if info == nil {
			return in.create(f)
		}
		if in.OldText == in.NewText {
			return nil, refuse(tool.InvalidArgs, "old_text and new_text are the same")
		}

		var err error
		if warning, err = f.staleness(c, in.Path, old, info); err != nil {
			return nil, err
		}

		done, err = in.apply(f.show(in.Path), old)
		return done.content, err
	})
	if err != nil {
		return f.refused(ctx, in.Path, err)
	}

	if w.Created {
		done.content = []byte(in.NewText)
	}

	f.wrote(c, in.Path, w, done.content)
	if w.Created {
		return tool.Textf("Created %s (%s)", f.show(w.Path), byteSize(int64(len(in.NewText)))), nil
	}
	return tool.Text(warning + done.message(f.show(w.Path))), nil
}

// refused words an error of an edit.
func (f *family) refused(ctx context.Context, name string, err error) (tool.Result, error) {
	if r, ok := errors.AsType[refusal](err); ok {
		return r.result, nil
	}
	return f.fail(ctx, name, err)
}

func (in editInput) check() error {
	switch {
	case in.Occurrence < 0 || in.LineHint < 0 || in.Expected < 0:
		return refuse(tool.InvalidArgs, "occurrence, line_hint and expected_replacements must be at least 1")
	case in.ReplaceAll && in.Occurrence > 0:
		return refuse(tool.InvalidArgs, "replace_all and occurrence exclude each other")
	case in.ReplaceAll && in.LineHint > 0:
		return refuse(tool.InvalidArgs, "replace_all and line_hint exclude each other")
	case in.Occurrence > 0 && in.LineHint > 0:
		return refuse(tool.InvalidArgs, "occurrence and line_hint exclude each other")
	case len(in.NewText) > maxEditBytes:
		return refuse(tool.TooLarge, "new_text is over %s", byteSize(maxEditBytes))
	}
	return nil
}

// create answers for a file that does not exist.
func (in editInput) create(f *family) ([]byte, error) {
	if in.OldText != "" {
		return nil, refuse(tool.NotFound, "%s does not exist.%s To create it leave old_text empty or use write_file.", in.Path, f.similar(in.Path))
	}
	return []byte(in.NewText), nil
}

// staleness compares a file with what the session last saw of it.
func (f *family) staleness(c tool.Call, name string, content []byte, info fs.FileInfo) (warning string, err error) {
	if c.State == nil {
		return "", nil
	}

	abs, err := f.jail.Path(name)
	if err != nil {
		return "", err
	}

	seen, ok := historyOf(c.State).get(abs)
	now := record{info: info, hash: sha256.Sum256(content), hashed: true}
	switch {
	case ok && seen.same(now):
		return "", nil
	case f.strict && ok:
		return "", refuse(tool.Conflict, "%s changed since it was read; read it again before editing", name)
	case ok:
		return "Warning: the file changed since it was last read; check the result.\n", nil
	}

	return "Warning: the file was not read before this edit; check the result.\n", nil
}

// edited is the outcome of applying an edit to a file's content.
type edited struct {
	content []byte
	lines   []int // where replacements start
	rung    rung
}

func (e edited) message(path string) string {
	where := fmt.Sprintf("line %d", e.lines[0])
	if len(e.lines) > 1 {
		where = fmt.Sprintf("%d places, first at line %d", len(e.lines), e.lines[0])
	}

	note := ""
	switch e.rung {
	case trimmedLines:
		note = "; matched ignoring indentation"
	case trimmedQuotes, mappedQuotes:
		note = "; matched ignoring quote style"
	}
	return fmt.Sprintf("Edited %s (%s%s)", path, where, note)
}

// apply computes the new content of an existing file. Line ends that the edit
// does not touch stay as they are.
func (in editInput) apply(shown string, raw []byte) (edited, error) {
	body, bom := bytes.CutPrefix(raw, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0 {
		return edited{}, refuse(tool.Unsupported, "%s is not UTF-8 text and cannot be edited; use exec", shown)
	}

	if in.OldText == "" {
		if len(bytes.TrimSpace(body)) > 0 {
			return edited{}, refuse(tool.InvalidArgs, "old_text is empty but %s is not; give the text to replace, or use write_file to replace everything", shown)
		}
		return edited{content: []byte(in.NewText), lines: []int{1}}, nil
	}

	content, back := unifyLines(string(body))
	old, repl := strings.ReplaceAll(in.OldText, "\r\n", "\n"), strings.ReplaceAll(in.NewText, "\r\n", "\n")
	found, r := findPassages(content, old)
	if found == nil && strings.Contains(old, "<U+") {
		old, repl = unescape(old), unescape(repl)
		found, r = findPassages(content, old)
	}

	if found == nil {
		return edited{}, refuse(tool.NotFound, "%s", nearMiss(shown, content, old))
	}

	chosen, err := in.choose(shown, content, found)
	if err != nil {
		return edited{}, err
	}

	e := edited{rung: r}
	index := lineStarts(content)
	var built strings.Builder
	at := 0 // in the original
	for _, m := range chosen {
		e.lines = append(e.lines, lineOf(index, m.start))
		put := adapt(content[m.start:m.end], old, repl, r, markdown(in.Path))
		if wholeLine := put == "" && (m.start == 0 || content[m.start-1] == '\n'); wholeLine &&
			!strings.HasSuffix(content[m.start:m.end], "\n") && m.end < len(content) && content[m.end] == '\n' {
			m.end++
		}

		built.Write(body[at:back.original(m.start)])
		built.WriteString(back.endings(content, m, put))
		at = back.original(m.end)
		if built.Len() > maxEditBytes {
			return edited{}, refuse(tool.TooLarge, "the result would be over %s", byteSize(maxEditBytes))
		}
	}

	built.Write(body[at:])
	out := built.String()
	if bom {
		out = "\ufeff" + out
	}

	e.content = []byte(out)
	return e, nil
}

// choose applies the selectors to the matches.
func (in editInput) choose(shown, content string, found []span) ([]span, error) {
	index := lineStarts(content)
	numbers := func() string {
		var n []string
		for _, m := range found[:min(3, len(found))] {
			n = append(n, strconv.Itoa(lineOf(index, m.start)))
		}
		if len(found) > 3 {
			n = append(n, "...")
		}
		return strings.Join(n, ", ")
	}

	chosen := found
	switch {
	case in.Occurrence > len(found):
		return nil, refuse(tool.Conflict, "occurrence %d was asked for, but old_text matches %d times in %s (lines %s)", in.Occurrence, len(found), shown, numbers())
	case in.Occurrence > 0:
		chosen = found[in.Occurrence-1 : in.Occurrence]
	case in.LineHint > 0:
		chosen = slices.DeleteFunc(slices.Clone(found), func(m span) bool {
			last := max(m.start, m.end-1)
			return in.LineHint < lineOf(index, m.start) || in.LineHint > lineOf(index, last)
		})
		if len(chosen) != 1 {
			return nil, refuse(tool.Conflict, "%d of %d matches in %s include line %d (matches start at lines %s)", len(chosen), len(found), shown, in.LineHint, numbers())
		}

	case len(found) > 1 && !in.ReplaceAll:
		return nil, refuse(tool.Conflict, "old_text matches %d times in %s (lines %s); add surrounding lines to make it unique, or give replace_all, occurrence or line_hint", len(found), shown, numbers())
	}

	if in.Expected > 0 && in.Expected != len(chosen) {
		return nil, refuse(tool.Conflict, "expected_replacements is %d, but %d would be replaced in %s (lines %s); nothing was changed", in.Expected, len(chosen), shown, numbers())
	}
	return chosen, nil
}

func markdown(path string) bool {
	switch strings.ToLower(extension(path)) {
	case ".md", ".mdx", ".markdown":
		return true
	}
	return false
}

// lineEnds maps a text with LF line ends back to the original with its mixture.
type lineEnds struct{ shifts }

// unifyLines turns CRLF into LF.
func unifyLines(s string) (string, lineEnds) {
	back := lineEnds{shifts{by: 1}}
	if !strings.Contains(s, "\r\n") {
		return s, back
	}

	var b strings.Builder
	b.Grow(len(s))
	for {
		i := strings.Index(s, "\r\n")
		if i < 0 {
			b.WriteString(s)
			return b.String(), back
		}

		b.WriteString(s[:i])
		back.at = append(back.at, b.Len())
		b.WriteByte('\n')
		s = s[i+2:]
	}
}

// endings gives the lines of a replacement the line ends of the lines they
// replace; further ones get that of the passage's last line, or of its neighbours.
func (l lineEnds) endings(content string, m span, repl string) string {
	if len(l.at) == 0 || !strings.Contains(repl, "\n") {
		return repl
	}

	crlf := func(pos int) bool { _, ok := slices.BinarySearch(l.at, pos); return ok }
	var styles []bool
	for i := m.start; i < m.end; i++ {
		if content[i] == '\n' {
			styles = append(styles, crlf(i))
		}
	}

	if after := strings.IndexByte(content[m.end:], '\n'); after >= 0 {
		styles = append(styles, crlf(m.end+after))
	} else if before := strings.LastIndexByte(content[:m.start], '\n'); before >= 0 {
		styles = append(styles, crlf(before))
	}

	var b strings.Builder
	n := 0
	for line := range strings.SplitAfterSeq(repl, "\n") {
		text, ended := strings.CutSuffix(line, "\n")
		b.WriteString(text)
		if ended {
			if len(styles) > 0 && styles[min(n, len(styles)-1)] {
				b.WriteByte('\r')
			}
			b.WriteByte('\n')
			n++
		}
	}

	return b.String()
}
