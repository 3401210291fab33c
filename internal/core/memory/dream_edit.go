package memory

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// draft holds the files of a run in memory. The model edits the draft, so
// nothing it does reaches the disk before the whole run has succeeded and was
// checked, and a path can only ever be a key of this map.
type draft struct {
	root  *diskio.Tree
	pages map[string]*page
}

func newDraft(root *diskio.Tree) *draft { return &draft{root: root, pages: map[string]*page{}} }

// page returns a file of the draft, read on first use.
func (d *draft) page(name string) (*page, error) {
	if p, ok := d.pages[name]; ok {
		return p, nil
	}
	p, err := readPage(d.root, name)
	if err == nil {
		d.pages[name] = p
	}
	return p, err
}

// changed returns the pages that differ from the disk, by name.
func (d *draft) changed() (out []page) {
	for _, name := range slices.Sorted(maps.Keys(d.pages)) {
		if p := d.pages[name]; p.changed() {
			out = append(out, *p)
		}
	}
	return out
}

// editor carries out what the model may do to a draft for one group of
// findings.
type editor struct {
	draft     *draft
	workspace string
	edits     map[string]bool // files that findings are about
	reads     []string        // files that may be read besides
	skills    map[string]bool // names that may be made
	library   *skill.Library  // nil: no skills
	done      int             // edits made
}

type readInput struct {
	Path string `json:"path" alias:"file_path|filename|file"`
}

type replaceInput struct {
	Path    string `json:"path" alias:"file_path|filename|file"`
	OldText string `json:"old_text" alias:"old_string|old_str|old"`
	NewText string `json:"new_text" alias:"new_string|new_str|new"`
}

type createInput struct {
	Path    string `json:"path" alias:"file_path|filename|file"`
	Content string `json:"content" alias:"contents|text"`
}

// tools returns the tools of the second phase. They are made again for every run
// because they are about one draft.
func (e *editor) tools() (*tool.Set, error) {
	set := []tool.Tool{
		tool.Func(tool.Tool{Name: "read_file", Trusted: true, Description: "Read one of the memory files or a SKILL.md.", ReadOnly: true}, e.read),
		tool.Func(tool.Tool{Name: "edit_file", Trusted: true, Description: "Replace a passage that occurs once in a memory file. An empty old_text adds new_text at the end.", Sink: tool.SinkMemory}, e.replace),
	}
	if len(e.skills) > 0 {
		set = append(set, tool.Func(tool.Tool{Name: "write_file", Trusted: true, Description: "Make the SKILL.md of a new skill.", Sink: tool.SinkMemory}, e.create))
	}
	return tool.NewSet(set...)
}

// name returns the draft's name for a path as a model writes it.
func (e *editor) name(p string) string {
	p = strings.TrimSpace(p)
	if rel, err := filepath.Rel(e.workspace, p); err == nil && filepath.IsAbs(p) && filepath.IsLocal(rel) {
		p = rel
	}
	return strings.TrimPrefix(filepath.ToSlash(p), "./")
}

// allowed names the files that may be edited, sorted.
func (e *editor) allowed() []string {
	names := slices.Sorted(maps.Keys(e.edits))
	for _, s := range slices.Sorted(maps.Keys(e.skills)) {
		names = append(names, skillFile(s))
	}
	return names
}

func skillFile(name string) string { return "skills/" + name + "/SKILL.md" }

func (e *editor) read(_ context.Context, _ tool.Call, in readInput) (tool.Result, error) {
	name := e.name(in.Path)
	if e.edits[name] || slices.Contains(e.reads, name) {
		p, err := e.draft.page(name)
		if err != nil {
			return tool.Fail(tool.NotFound, "%v", err), nil
		}
		if p.After == "" {
			return tool.Text("(empty)"), nil
		}
		return tool.Text(p.After), nil
	}

	if body, ok := e.readSkill(name); ok {
		return tool.Text(body), nil
	}
	return tool.Fail(tool.DeniedPolicy, "%s cannot be read here. Memory files: %s", in.Path, strings.Join(e.reads, ", ")), nil
}

func (e *editor) readSkill(name string) (string, bool) {
	if e.library == nil {
		return "", false
	}

	if builtin, ok := strings.CutPrefix(name, "builtin://"); ok {
		if !fs.ValidPath(builtin) {
			return "", false
		}
		data, err := fs.ReadFile(skill.BuiltinFS(), builtin)
		return string(data), err == nil
	}

	dir, ok := strings.CutPrefix(name, "skills/")
	dir, found := strings.CutSuffix(dir, "/SKILL.md")
	if !ok || !found || strings.Contains(dir, "/") {
		return "", false
	}

	s, ok := e.library.Load(dir)
	return s.Body, ok
}

func (e *editor) replace(_ context.Context, _ tool.Call, in replaceInput) (tool.Result, error) {
	name := e.name(in.Path)
	if !e.edits[name] {
		return tool.Fail(tool.DeniedPolicy, "%s must not be edited here; only %s", in.Path, strings.Join(e.allowed(), ", ")), nil
	}

	p, err := e.draft.page(name)
	if err != nil {
		return tool.Fail(tool.Conflict, "%v", err), nil
	}

	oldText, newText := strings.ReplaceAll(in.OldText, "\r\n", "\n"), strings.ReplaceAll(text.Clean(in.NewText), "\r\n", "\n")
	if strings.Contains(p.After, "\r\n") {
		oldText, newText = strings.ReplaceAll(oldText, "\n", "\r\n"), strings.ReplaceAll(newText, "\n", "\r\n")
	}

	var after string
	switch n := strings.Count(p.After, oldText); {
	case oldText == newText:
		return tool.Fail(tool.InvalidArgs, "old_text and new_text are the same"), nil
	case strings.TrimSpace(oldText) == "":
		after = p.After
		if after != "" && !strings.HasSuffix(after, "\n") {
			after += "\n"
		}
		after += strings.TrimRight(newText, "\r\n") + "\n"

	case n == 0:
		return tool.Fail(tool.NotFound, "old_text is not in %s; copy it exactly from the file", name), nil
	case n > 1:
		return tool.Fail(tool.Conflict, "old_text occurs %d times in %s; take more of the text around it", n, name), nil
	default:
		after = strings.Replace(p.After, oldText, newText, 1)
	}

	if len(after) > maxPage {
		return tool.Fail(tool.TooLarge, "%s would be over %d KB", name, maxPage>>10), nil
	}

	p.After = after
	e.done++
	return tool.Textf("Edited %s", name), nil
}

func (e *editor) create(_ context.Context, _ tool.Call, in createInput) (tool.Result, error) {
	name := e.name(in.Path)
	dir := strings.TrimSuffix(strings.TrimPrefix(name, "skills/"), "/SKILL.md")
	if !e.skills[dir] || name != skillFile(dir) {
		return tool.Fail(tool.DeniedPolicy, "%s must not be written here; only new skills that were found: %s", in.Path, strings.Join(e.allowed(), ", ")), nil
	}

	p, err := e.draft.page(name)
	if err != nil {
		return tool.Fail(tool.Conflict, "%v", err), nil
	}

	body := text.Clean(in.Content)
	head, rest, _ := strings.Cut(strings.TrimPrefix(body, "---\n"), "\n---")
	switch {
	case p.Existed:
		return tool.Fail(tool.Conflict, "the skill %s exists already and is not overwritten", dir), nil
	case len(body) > maxSkillBytes:
		return tool.Fail(tool.TooLarge, "a skill has at most %d KB", maxSkillBytes>>10), nil
	case !strings.HasPrefix(body, "---\n") || !strings.Contains("\n"+head, "\nname:") || !strings.Contains("\n"+head, "\ndescription:") || strings.TrimSpace(rest) == "":
		return tool.Fail(tool.InvalidArgs, "a SKILL.md begins with front matter: ---, name: %s, description: ..., ---, and then the text", dir), nil
	}

	p.After = strings.TrimRight(body, "\n") + "\n"
	e.done++
	return tool.Textf("Made %s", name), nil
}

// check applies the size guards to what the editor was allowed to touch.
func (e *editor) check(findings []finding, scope string) error {
	for name := range e.edits {
		p, err := e.draft.page(name)
		if err != nil {
			return err
		}

		var about []finding
		for _, f := range findings {
			if fileOf(scope, f.Target) == name {
				about = append(about, f)
			}
		}

		if p.changed() {
			if err := guard(p, about); err != nil {
				return fmt.Errorf("refused: %w", err)
			}
		}
	}
	return nil
}
