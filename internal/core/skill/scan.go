package skill

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// scan looks at the workspace's skills and parses those that changed since
// old. No link is followed.
func (l *Library) scan(old *snapshot) (entries map[string]*entry, skipped map[string]string) {
	if l.opts.Workspace == "" {
		return nil, nil
	}

	root, err := l.openSkills()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // no workspace yet is normal
	case err != nil:
		return nil, l.skip(old, skipped, folder, err)
	}

	defer root.Close() //nolint:errcheck // opened for reading
	dirs, err := listDir(root)
	if err != nil {
		skipped = l.skip(old, skipped, folder, err)
	}

	for _, name := range dirs {
		if slices.Contains(l.opts.Disabled, name) {
			continue
		}
		if l.opts.Foreign != nil && l.opts.Foreign(filepath.Join(l.opts.Workspace, folder, name, fileName)) {
			skipped = l.skip(old, skipped, name, errForeign)
			continue
		}

		e, err := l.examine(root, name, old.workspace[name])
		switch {
		case errors.Is(err, fs.ErrNotExist): // a directory without SKILL.md is not a skill
		case err != nil:
			skipped = l.skip(old, skipped, name, err)
		default:
			if entries == nil {
				entries = make(map[string]*entry, len(dirs))
			}
			entries[name] = e
		}
	}

	return entries, skipped
}

var errForeign = errors.New("words from outside are in it: look at its SKILL.md and, if it is yours, run nanobot trust with its folder")

// skip remembers why a directory is left out and logs it unless that is old news.
func (l *Library) skip(old *snapshot, skipped map[string]string, name string, err error) map[string]string {
	if skipped == nil {
		skipped = map[string]string{}
	}
	if skipped[name] = err.Error(); old.skipped[name] != err.Error() {
		l.opts.Log.Warn("skill skipped", "skill", name, "err", err)
	}
	return skipped
}

// openSkills opens the workspace's folder of skills.
func (l *Library) openSkills() (*diskio.Tree, error) {
	ws, err := diskio.OpenTree(l.opts.Workspace)
	if err != nil {
		return nil, err
	}
	defer ws.Close() //nolint:errcheck // only a way

	return ws.Sub(folder)
}

// listDir returns the names of the first maxSkills directories or links.
func listDir(root *diskio.Tree) ([]string, error) {
	list, err := root.ReadDir(".")
	if err != nil {
		return nil, err
	}

	var names []string
	for _, d := range list {
		if d.IsDir() || d.Type()&fs.ModeSymlink != 0 {
			names = append(names, d.Name())
		}
	}

	slices.Sort(names)
	return names[:min(len(names), maxSkills)], nil
}

// examine returns the entry of a directory: known itself if its file is unchanged.
func (l *Library) examine(root *diskio.Tree, name string, known *entry) (*entry, error) {
	file := path.Join(name, fileName)
	info, err := root.Lstat(file)
	if err != nil {
		return nil, err
	}
	if known != nil && known.mtime.Equal(info.ModTime()) && known.size == info.Size() {
		return known, nil
	}
	if why := badName(name); why != "" {
		return nil, errors.New(why)
	}

	data, err := readFile(root, file)
	if err != nil {
		return nil, err
	}

	e := &entry{skill: parse(name, string(data)), mtime: info.ModTime(), size: info.Size()}
	e.skill.Source = FromWorkspace
	e.skill.Path = filepath.Join(l.opts.Workspace, folder, name, fileName)
	return e, nil
}

func (l *Library) readWorkspace(name string) ([]byte, error) {
	root, err := l.openSkills()
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	return readFile(root, path.Join(name, fileName))
}

// readFile reads as much of a skill file as can matter.
func readFile(root *diskio.Tree, file string) ([]byte, error) {
	return root.ReadHead(file, maxFront+maxBody+1)
}

func readBuiltin(tree fs.FS) []*entry {
	dirs, err := fs.ReadDir(tree, folder)
	if err != nil {
		return nil
	}

	var entries []*entry
	for _, d := range dirs {
		at := folder + "/" + d.Name() + "/" + fileName
		data, err := fs.ReadFile(tree, at)
		if err != nil || badName(d.Name()) != "" {
			continue
		}

		e := &entry{skill: parse(d.Name(), string(data))}
		e.skill.Source = FromBuiltin
		e.skill.Path = scheme + at
		entries = append(entries, e)
	}

	return entries
}

// badName says why a directory name cannot stand in a prompt, or "". It is
// more generous than what names should look like, see oddName.
func badName(name string) string {
	switch {
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || r == '`' || r == '*' }):
		return "name has characters that cannot be shown"
	case strings.HasPrefix(name, "."):
		return "name begins with a dot"
	case text.Cut(name, 64) != name:
		return "name is longer than 64 characters"
	}
	return ""
}

// mentions returns the names of the skills that stand behind a "$" in msg, in
// order of appearance. The longest name counts. ASCII letters, digits and "_"
// before the "$" or after the name mean something else, as in "cost$cron" or
// "$cron_tab"; other scripts, which put no blanks between words, do not.
func mentions(msg string, skills []Skill) []string {
	var names []string
	for at := strings.IndexByte(msg, '$'); at >= 0; {
		rest := msg[at+1:]
		if at == 0 || !wordByte(msg[at-1]) && msg[at-1] != '$' && msg[at-1] != '\\' {
			best := ""
			for _, s := range skills { // sorted, so of two that fit the longer comes last
				if strings.HasPrefix(rest, s.Name) && wordEnds(rest[len(s.Name):]) {
					best = s.Name
				}
			}

			if best != "" && !slices.Contains(names, best) {
				names = append(names, best)
			}
		}

		next := strings.IndexByte(rest, '$')
		if next < 0 {
			break
		}
		at += 1 + next
	}

	return names
}

// wordEnds reports whether a word may end before rest: a "-" or "." goes on
// with it only if a letter or digit follows.
func wordEnds(rest string) bool {
	if rest != "" && (rest[0] == '-' || rest[0] == '.') {
		rest = rest[1:]
	}
	return rest == "" || !wordByte(rest[0])
}

func wordByte(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}
