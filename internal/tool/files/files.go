// Package files is the family of tools that work on the user's files:
// read_file, write_file, edit_file, apply_patch, list_dir, glob, grep and
// notebook_edit. It hides how text is paged, matched, searched and patched;
// every name the model gives goes through one diskio.Jail. Tools share nothing
// between calls but the jail and the per-session state of what was read.
package files

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // the descriptions
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/document"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// maxEditBytes bounds what is written, and what is edited in memory.
const maxEditBytes = 32 << 20

// maxResultChars bounds a page of text, in characters.
const maxResultChars = 128_000

// pageChars returns the length of a page that with its footer fits into a result of
// limit characters; 0 means that only our own bound holds.
func pageChars(limit int) int {
	const (
		footer = 300
		least  = 500 // a page must show something
	)
	if limit <= 0 {
		return maxResultChars
	}
	return min(max(limit-footer, least), maxResultChars)
}

// Options configures the family.
type Options struct {
	// Jail opens every file. Required.
	Jail *diskio.Jail
	// Virtual holds read-only files that are part of the program. They are
	// addressed as builtin://<path in Virtual>; built-in skills therefore lie
	// under skills/. A relative skills/... that the workspace lacks is looked
	// up here too. May be nil.
	Virtual fs.FS
	// StrictEdit refuses to edit a file that changed since it was read,
	// instead of warning.
	StrictEdit bool
	// Foreign reports files that came from outside, such as what a command
	// downloaded; the path is absolute. What is shown of them, their names
	// included, is untrusted. May be nil.
	Foreign func(path string) bool
	// ForeignSum reports contents that were seen in such a file, by their
	// SHA-256. May be nil.
	ForeignSum func(sum [sha256.Size]byte) bool
}

// Tools returns the family's tools.
func Tools(o Options) []tool.Tool {
	f := &family{jail: o.Jail, virtual: o.Virtual, strict: o.StrictEdit, isForeign: o.Foreign, foreignSum: o.ForeignSum}
	path := tool.PathArg("path")
	list := []tool.Tool{
		tool.Func(tool.Tool{Name: "read_file", Trusted: true, Description: describe(readText), ReadOnly: true}, f.readFile),
		tool.Func(tool.Tool{Name: "write_file", Trusted: true, Description: describe(writeText), Sink: tool.SinkWrite, Paths: path}, f.writeFile),
		tool.Func(tool.Tool{Name: "edit_file", Trusted: true, Description: describe(editText), Sink: tool.SinkWrite, Paths: path}, f.editFile),
		tool.Func(tool.Tool{Name: "apply_patch", Trusted: true, Description: describe(patchText), Sink: tool.SinkWrite, Paths: patchPaths}, f.applyPatch),
		tool.Func(tool.Tool{Name: "list_dir", Trusted: true, Description: describe(listText), ReadOnly: true}, f.listDir),
		tool.Func(tool.Tool{Name: "glob", Trusted: true, Description: describe(globText), ReadOnly: true, Older: olderGlob}, f.glob),
		tool.Func(tool.Tool{Name: "grep", Trusted: true, Description: describe(grepText), ReadOnly: true}, f.grep),
		tool.Func(tool.Tool{Name: "notebook_edit", Trusted: true, Description: describe(notebookText), Sink: tool.SinkWrite, Paths: path}, f.notebookEdit),
	}
	for i := range list {
		if list[i].Paths != nil {
			list[i].Run = f.quoting(list[i])
		}
	}
	return list
}

// quoting makes the result of a tool that writes untrusted when it may quote a
// file from outside.
func (f *family) quoting(t tool.Tool) func(ctx context.Context, c tool.Call) (tool.Result, error) {
	return func(ctx context.Context, c tool.Call) (tool.Result, error) {
		foreign := slices.ContainsFunc(t.Paths(c.Input), func(name string) bool {
			abs, err := f.jail.Path(name)
			return err == nil && f.foreign(abs)
		})
		res, err := t.Run(ctx, c)
		res.Untrusted = res.Untrusted || foreign
		return res, err
	}
}

// The descriptions the model sees.
var (
	//go:embed describe/read_file.md
	readText string
	//go:embed describe/write_file.md
	writeText string
	//go:embed describe/edit_file.md
	editText string
	//go:embed describe/apply_patch.md
	patchText string
	//go:embed describe/list_dir.md
	listText string
	//go:embed describe/glob.md
	globText string
	//go:embed describe/grep.md
	grepText string
	//go:embed describe/notebook_edit.md
	notebookText string
)

func describe(md string) string { return strings.ReplaceAll(strings.TrimSpace(md), "\n", " ") }

type family struct {
	jail       *diskio.Jail
	virtual    fs.FS
	strict     bool
	isForeign  func(abs string) bool
	foreignSum func(sum [sha256.Size]byte) bool
	pictures   document.Pictures
}

// foreign reports whether a file may hold words from outside.
func (f *family) foreign(abs string) bool {
	return f.jail.Foreign(abs) || f.isForeign != nil && f.isForeign(abs)
}

// fail words an error for the model. A cancelled call ends the turn instead.
func (f *family) fail(ctx context.Context, name string, err error) (tool.Result, error) {
	if ctx.Err() != nil {
		return tool.Result{}, ctx.Err()
	}
	res := tool.FailFile(name, err)
	if res.Code == tool.NotFound {
		return tool.Fail(tool.NotFound, "%s does not exist.%s", name, f.similar(name)), nil
	}
	return res, nil
}

// similar suggests names beside a missing one.
func (f *family) similar(name string) string {
	abs, err := f.jail.Path(name)
	if err != nil {
		return ""
	}

	dir, base := filepath.Split(abs)
	entries, err := f.jail.ReadDir(dir)
	if err != nil {
		if _, err := f.jail.Stat(dir); diskio.IsMissing(err) {
			return fmt.Sprintf(" Its directory %s does not exist either.", f.show(filepath.Clean(dir)))
		}
		return ""
	}

	type near struct {
		name  string
		ratio float64
	}
	var found []near
	for _, e := range entries[:min(len(entries), 2000)] {
		if f.foreign(filepath.Join(dir, e.Name())) {
			continue // its name may be words from outside, too
		}
		longest := max(len([]rune(base)), len([]rune(e.Name())))
		ratio := 1 - float64(text.Distance(strings.ToLower(base), strings.ToLower(e.Name())))/float64(longest)
		if ratio >= 0.6 {
			found = append(found, near{e.Name(), ratio})
		}
	}

	if len(found) == 0 {
		return ""
	}

	slices.SortStableFunc(found, func(a, b near) int { return cmp.Compare(b.ratio, a.ratio) })
	var names []string
	for _, n := range found[:min(3, len(found))] {
		names = append(names, f.show(filepath.Join(dir, n.name)))
	}
	return " Did you mean " + strings.Join(names, ", ") + "?"
}

// show returns how a path appears in results: short, and one line whatever it
// contains.
func (f *family) show(path string) string { return printable(f.jail.Display(path)) }

// builtin maps a name to a path in the virtual files.
func (f *family) builtin(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, "builtin://")
	if !ok {
		return "", false
	}
	rest = strings.Trim(filepath.ToSlash(filepath.Clean("/"+rest)), "/")
	if rest == "" {
		rest = "."
	}
	return rest, true
}

// fallback maps a missing relative skills/... path to a virtual one.
func (f *family) fallback(name string) (string, bool) {
	if f.virtual == nil || filepath.IsAbs(name) {
		return "", false
	}
	rest := filepath.ToSlash(filepath.Clean(name))
	if !strings.HasPrefix(rest, "skills/") {
		return "", false
	}
	_, err := fs.Stat(f.virtual, rest)
	return rest, err == nil
}

// readOnlyName answers attempts to change virtual files.
func readOnlyName(name string) (tool.Result, bool) {
	if !strings.HasPrefix(name, "builtin://") {
		return tool.Result{}, false
	}
	return tool.Fail(tool.DeniedPolicy, "%s is built in and cannot be changed; write a copy under skills/ in the workspace, which takes precedence", name), true
}
