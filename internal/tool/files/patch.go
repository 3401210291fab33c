package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
)

type patchInput struct {
	Edits  []patchEdit `json:"edits" min:"1" max:"20"`
	DryRun bool        `json:"dry_run,omitempty" hidden:"1"`
}

type patchEdit struct {
	Path    string  `json:"path" alias:"file_path|filename|file"`
	Action  string  `json:"action" enum:"replace|add"`
	OldText string  `json:"old_text,omitempty" alias:"old_string|old_str|old"`
	NewText *string `json:"new_text,omitempty" alias:"new_string|new_str|new|content"`
}

// patchPaths lists the files a patch changes.
func patchPaths(input json.RawMessage) (paths []string) {
	var in patchInput
	if json.Unmarshal(input, &in) != nil {
		return nil
	}

	for _, e := range in.Edits {
		if e.Path != "" {
			paths = append(paths, e.Path)
		}
	}
	return paths
}

// patched is a file of a patch.
type patched struct {
	name    string // as first given
	key     string
	old     []byte
	info    fs.FileInfo // nil: the file is new
	content []byte
	done    bool
	written diskio.Written
}

// patchSet is the work of one call of apply_patch.
type patchSet struct {
	f     *family
	call  tool.Call
	files []*patched
}

// applyPatch makes all edits or none. Everything is worked out before the first
// write; each file is then replaced by a rename, so that a process that dies
// in between leaves every file either old or new, and an error puts back what
// was written before it.
func (f *family) applyPatch(ctx context.Context, c tool.Call, in patchInput) (tool.Result, error) {
	s := patchSet{f: f, call: c}
	summary, err := s.plan(ctx, in.Edits)
	if err != nil {
		return s.refused(ctx, err)
	}
	if in.DryRun {
		return tool.Text("Would apply (dry_run, nothing was written):\n" + strings.Join(summary, "\n")), nil
	}
	if res, err := s.commit(ctx); err != nil || res.IsError {
		return res, err
	}

	for _, p := range s.files {
		f.wrote(c, p.name, p.written, p.content)
	}
	return tool.Text("Applied:\n" + strings.Join(summary, "\n")), nil
}

// commit writes all files. If one fails the others are put back.
func (s *patchSet) commit(ctx context.Context) (tool.Result, error) {
	for _, p := range s.files {
		err := s.write(ctx, p)
		if err == nil {
			continue
		}

		// Half a patch is worse than a late answer.
		if stuck := s.restore(context.WithoutCancel(ctx)); stuck != nil {
			res := tool.Fail(tool.Conflict, "%s could not be written (%v), and putting back the files before it failed too: %v. Check them.", s.f.show(p.key), err, stuck)
			res.MayHaveRun = true
			return res, nil
		}

		if ctx.Err() != nil {
			return tool.Result{}, ctx.Err()
		}
		return s.refused(ctx, err)
	}
	return tool.Result{}, nil
}

// editError says what is wrong with one edit of a patch.
type editError struct {
	n    int
	name string
	err  error
}

func (e editError) Error() string { return e.err.Error() }
func (e editError) Unwrap() error { return e.err }

// refused words an error and says that nothing was changed.
func (s *patchSet) refused(ctx context.Context, err error) (tool.Result, error) {
	name, where := "", ""
	if e, ok := errors.AsType[editError](err); ok {
		name, where = e.name, fmt.Sprintf("edit %d: ", e.n)
		err = e.err
	}

	res, err := s.f.refused(ctx, name, err)
	if err == nil {
		text := strings.TrimPrefix(res.Content.Text, "Error: ")
		res = tool.Fail(res.Code, "%s%s Nothing was changed.", where, strings.TrimSuffix(text, ".")+".")
	}
	return res, err
}

// plan works out the new content of every file.
func (s *patchSet) plan(ctx context.Context, edits []patchEdit) (summary []string, err error) {
	byKey := map[string]*patched{}
	for i, e := range edits {
		fail := func(err error) ([]string, error) { return nil, editError{i + 1, e.Path, err} }
		if err := e.check(); err != nil {
			return fail(err)
		}

		key := s.f.fileKey(e.Path)
		p := byKey[key]
		if p == nil {
			if p, err = s.inspect(ctx, e.Path, key); err != nil {
				return fail(err)
			}
			byKey[key] = p
			s.files = append(s.files, p)
		}

		added, removed, err := p.edit(e, s.f.show(p.key))
		if err != nil {
			return fail(err)
		}

		verb := e.Action
		if p.info == nil {
			verb = "create"
		}
		summary = append(summary, fmt.Sprintf("%s %s +%d/-%d", verb, s.f.show(p.key), added, removed))
	}

	return summary, nil
}

// fileKey is the same for two names of a file, so that edits through both chain.
func (f *family) fileKey(name string) string {
	abs, err := f.jail.Path(name)
	if err != nil {
		return name
	}
	if target, err := filepath.EvalSymlinks(abs); err == nil {
		return target
	}
	return abs
}

func (e patchEdit) check() error {
	if res, no := readOnlyName(e.Path); no {
		return refusal{res}
	}

	switch {
	case strings.EqualFold(extension(e.Path), ".ipynb"):
		return refuse(tool.InvalidArgs, "%s is a notebook; use notebook_edit", e.Path)
	case e.NewText == nil:
		return refuse(tool.InvalidArgs, "new_text is missing")
	case e.Action == "replace" && e.OldText == "":
		return refuse(tool.InvalidArgs, "replace needs old_text; use add to append or create")
	case e.Action == "replace" && e.OldText == *e.NewText:
		return refuse(tool.InvalidArgs, "old_text and new_text are the same")
	case e.Action == "add" && e.OldText != "":
		return refuse(tool.InvalidArgs, "add takes no old_text; use replace")
	}

	return nil
}

// errLooked ends an update that was only meant to look.
var errLooked = errors.New("looked")

// inspect reads a file under the rules of writing, so that what may not be
// written is refused before anything is.
func (s *patchSet) inspect(ctx context.Context, name, key string) (*patched, error) {
	p := &patched{name: name, key: key}
	_, err := s.f.jail.Update(ctx, name, maxEditBytes, func(old []byte, info fs.FileInfo) ([]byte, error) {
		p.old = old
		p.content = old
		p.info = info

		if s.f.strict && info != nil {
			if _, err := s.f.staleness(s.call, name, old, info); err != nil {
				return nil, err
			}
		}
		return nil, errLooked
	})
	if !errors.Is(err, errLooked) {
		return nil, err
	}
	return p, nil
}

// edit applies one edit to the planned content.
func (p *patched) edit(e patchEdit, shown string) (added, removed int, err error) {
	body, bom := bytes.CutPrefix(p.content, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0 {
		return 0, 0, refuse(tool.Unsupported, "%s is not UTF-8 text and cannot be edited; use exec", shown)
	}

	var out string
	if e.Action == "add" {
		out = appendText(string(body), *e.NewText)
		added = countLines(*e.NewText)
	} else {
		if p.content == nil {
			return 0, 0, refuse(tool.NotFound, "%s does not exist; use add to create it", shown)
		}
		if out, err = replaceOnce(string(body), e.OldText, *e.NewText, shown); err != nil {
			return 0, 0, err
		}
		added, removed = lineChange(e.OldText, *e.NewText)
	}

	if bom {
		out = "\ufeff" + out
	}

	if len(out) > maxEditBytes {
		return 0, 0, refuse(tool.TooLarge, "%s would be over %s", shown, byteSize(maxEditBytes))
	}

	p.content = []byte(out)
	return added, removed, nil
}

// replaceOnce replaces a passage that occurs exactly once. Line ends are
// compared as LF and written as around the passage.
func replaceOnce(body, old, repl, shown string) (string, error) {
	content, back := unifyLines(body)
	old, repl = strings.ReplaceAll(old, "\r\n", "\n"), strings.ReplaceAll(repl, "\r\n", "\n")
	found := substrings(content, old)
	if found == nil && strings.Contains(old, "<U+") {
		old, repl = unescape(old), unescape(repl)
		found = substrings(content, old)
	}

	switch {
	case found == nil:
		return "", refuse(tool.NotFound, "%s", nearMiss(shown, content, old))
	case len(found) > 1 || strings.Contains(content[found[0].start+1:], old):
		index := lineStarts(content)
		return "", refuse(tool.Conflict, "old_text occurs more than once in %s, first on line %d; add surrounding lines to make it unique", shown, lineOf(index, found[0].start))
	}

	m := found[0]
	return body[:back.original(m.start)] + back.endings(content, m, repl) + body[back.original(m.end):], nil
}

// appendText adds to the end of a text, on a line of its own, with the line
// ends the text has.
func appendText(body, more string) string {
	if body == "" {
		return more
	}

	end := "\n"
	if i := strings.LastIndexByte(body, '\n'); i > 0 && body[i-1] == '\r' {
		end = "\r\n"
		more = strings.ReplaceAll(strings.ReplaceAll(more, "\r\n", "\n"), "\n", "\r\n")
	}
	if !strings.HasSuffix(body, "\n") && more != "" {
		body += end
	}
	return body + more
}

func countLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// lineChange counts the lines that differ between the ends two texts share.
func lineChange(old, repl string) (added, removed int) {
	a, b := strings.Split(old, "\n"), strings.Split(repl, "\n")
	if repl == "" {
		b = nil
	}

	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}

	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(b), len(a)
}

// write replaces a file that is still as it was planned from.
func (s *patchSet) write(ctx context.Context, p *patched) error {
	w, err := s.f.jail.Update(ctx, p.name, maxEditBytes, func(old []byte, info fs.FileInfo) ([]byte, error) {
		if (info == nil) != (p.info == nil) || !bytes.Equal(old, p.old) {
			return nil, &diskio.JailError{Path: s.f.show(p.key), Kind: diskio.ErrChanged, Detail: "was changed by something else just now; read it again"}
		}
		return p.content, nil
	})
	p.done, p.written = err == nil, w
	return err
}

// restore puts back the files that were written, unless they have changed
// since.
func (s *patchSet) restore(ctx context.Context) error {
	var errs []error
	for _, p := range s.files {
		if !p.done {
			continue
		}
		if p.info == nil {
			errs = append(errs, s.f.jail.Remove(ctx, p.name, p.content))
			continue
		}

		_, err := s.f.jail.Update(ctx, p.name, maxEditBytes, func(now []byte, _ fs.FileInfo) ([]byte, error) {
			if !bytes.Equal(now, p.content) {
				return nil, fmt.Errorf("%s was changed meanwhile", s.f.show(p.key))
			}
			return p.old, nil
		})

		errs = append(errs, err)
	}

	return errors.Join(errs...)
}
