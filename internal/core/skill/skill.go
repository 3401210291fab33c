// Package skill hides where skills come from and how their files are written.
// A skill is a directory with a SKILL.md: front matter that says what it is
// for and what it needs, and a text that teaches the model. A Library knows
// the skills of a workspace and those built into the binary, tells which can
// be used here, and renders what the prompt says about them.
//
// A Library may be used from many goroutines. It reads the disk only when
// asked and then costs one directory listing and one stat per workspace skill;
// files are read again only after they changed. Nothing a file contains makes
// it fail: what cannot be understood becomes a note of that skill.
package skill

import (
	"embed"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// scheme begins the address of a built-in file: scheme + a path of BuiltinFS.
const scheme = "builtin://"

// maxBody is the largest skill text in bytes; the rest of a longer one is cut.
const maxBody = 64 << 10

const (
	fileName   = "SKILL.md"
	folder     = "skills"
	maxFront   = 16 << 10 // bytes of front matter looked at
	maxSkills  = 500      // directories of a workspace looked at
	longBody   = 32 << 10 // bytes of text from which one skill fills a prompt noticeably
	shortLine  = 300      // code points of a description in the short summary
	maxSummary = 16 << 10 // bytes of the summary beyond which descriptions are cut
	bodyMarker = "\n\n[The rest of this skill was cut: the limit is 64 KiB.]"
	// recheck is how long the answer of LookPath and Getenv is believed, so
	// that a prompt does not search PATH but a tool installed meanwhile is
	// noticed.
	recheck = time.Minute
)

//go:embed skills
var builtin embed.FS

// BuiltinFS returns the read-only tree of built-in skills; "skills/<name>/SKILL.md"
// is in it, and the model addresses it as "builtin://skills/<name>/SKILL.md".
func BuiltinFS() fs.FS { return builtin }

// Source says where a skill was found.
type Source string

// The sources. Those of the workspace hide built-in skills of the same name.
const (
	FromWorkspace Source = "workspace" // written by the user or the agent
	FromInstalled Source = "installed" // third-party, put into the workspace by Install
	FromBuiltin   Source = "builtin"
)

// Skill is one skill as its front matter describes it.
type Skill struct { //nolint:recvcheck // describe fills it in, all else only reads
	Name        string // the directory's name
	Description string // one line; the name when the file has none
	Source      Source
	Path        string // what read_file takes: a file path or a builtin:// address
	Always      bool   // its text belongs in every prompt
	Homepage    string
	Emoji       string
	OS          []string // runtime.GOOS names it works on; empty = all
	Bins        []string // commands it needs on PATH
	Env         []string // environment variables it needs
	Tools       []string // tools of the agent it needs
	// Missing says why the skill cannot be used here, such as
	// "CLI: gh, ENV: TOKEN"; empty means it is available.
	Missing string
	Notes   []string // what was odd about the front matter
	// Body is the text without front matter. Only Load and Mentioned fill it.
	Body string
	// File is the whole text. Only Load fills it.
	File string
}

// Available reports whether everything the skill needs is there.
func (s Skill) Available() bool { return s.Missing == "" }

// text returns the form in which a skill's full text enters a prompt.
func (s Skill) text() string {
	title := "### Skill: " + s.Name
	if s.Source == FromInstalled {
		title += " (source: installed, third-party)"
	}
	return title + "\n\n" + s.Body
}

// Options configure a Library.
type Options struct {
	Workspace string       // directory that holds skills/; empty = built-in skills only
	Builtin   fs.FS        // laid out like BuiltinFS, which nil means
	Ledger    store.Store  // in which Install keeps its record; nil = none
	Disabled  []string     // names that do not exist, wherever they are found
	Log       *slog.Logger // nil discards; directories that had to be skipped
	// Foreign reports files that hold words from outside. A skill is followed as
	// the user's word, so one with such a SKILL.md is left out. nil: none is.
	Foreign func(path string) bool

	// How needs are checked; nil or empty means the running system.
	LookPath func(name string) (string, error)
	Getenv   func(name string) string
	GOOS     string
	// HasTool reports whether the agent offers a tool; nil means that it offers
	// every tool a skill asks for.
	HasTool func(name string) bool
}

// Library is the collection of skills. Make one with Open.
type Library struct {
	opts    Options
	builtin func() []*entry // parsed once
	last    atomic.Pointer[snapshot]
}

// entry is a parsed file and the state of the file it was parsed from.
type entry struct {
	skill Skill // without Missing; with Body only for always-skills
	mtime time.Time
	size  int64
}

// snapshot is one immutable view of all skills. Refreshing makes a new one out
// of the old; two goroutines that do so at once only repeat work.
type snapshot struct {
	workspace map[string]*entry
	installed *installedView
	skipped   map[string]string // directory -> reason, to log each only once
	skills    []Skill           // sorted by name
	summary   string
	short     string // the summary for small models
	active    string
	checked   time.Time // when needs were last looked up
}

// Open makes a library. It reads nothing yet.
func Open(o Options) *Library {
	if o.Builtin == nil {
		o.Builtin = builtin
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.LookPath == nil {
		o.LookPath = exec.LookPath
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.GOOS == "" {
		o.GOOS = runtime.GOOS
	}

	o.Disabled = slices.Clone(o.Disabled)
	return &Library{opts: o, builtin: sync.OnceValue(func() []*entry { return readBuiltin(o.Builtin) })}
}

// List returns all skills that are not disabled, sorted by name.
func (l *Library) List() []Skill { return slices.Clone(l.refresh().skills) }

// Prompt returns the full text of the always-skills that are available, and a list
// of the skills the model may load, grouped by source, one line each: once as they
// are described, once with short descriptions. Both are empty without skills and
// change only when a skill does.
func (l *Library) Prompt() (active, summary, short string) {
	snap := l.refresh()
	return snap.active, snap.summary, snap.short
}

// Load returns a skill with its Body; ok is false when there is none of that
// name or its file cannot be read.
func (l *Library) Load(name string) (s Skill, ok bool) {
	skills := l.refresh().skills
	i, ok := slices.BinarySearchFunc(skills, name, func(s Skill, name string) int { return strings.Compare(s.Name, name) })
	if !ok {
		return Skill{}, false
	}

	s = skills[i]
	var data []byte
	var err error
	if s.Source == FromBuiltin {
		data, err = fs.ReadFile(l.opts.Builtin, folder+"/"+name+"/"+fileName)
	} else {
		data, err = l.readWorkspace(name)
	}

	if err != nil {
		return Skill{}, false
	}

	s.File = string(data)
	_, s.Body, _ = split(s.File)
	return s, true
}

// Mentioned returns the skills that msg names as $name, with their bodies, in
// the order of first mention. Unavailable ones are included: the user asked
// for them and should hear what is missing.
func (l *Library) Mentioned(msg string) []Skill {
	if !strings.Contains(msg, "$") {
		return nil
	}

	var found []Skill
	for _, name := range mentions(msg, l.refresh().skills) {
		if s, ok := l.Load(name); ok {
			found = append(found, s)
		}
	}
	return found
}

// refresh returns a view that is current as far as cheap checks can tell.
func (l *Library) refresh() *snapshot {
	old := l.last.Load()
	if old == nil {
		old = &snapshot{}
	}

	workspace, skipped := l.scan(old)
	installed := l.installed(old.installed)
	now := time.Now()
	same := old.skills != nil && installed == old.installed && maps.Equal(workspace, old.workspace) && maps.Equal(skipped, old.skipped)
	if same && now.Sub(old.checked) < recheck {
		return old
	}

	next := &snapshot{workspace: workspace, installed: installed, skipped: skipped, checked: now, skills: []Skill{}}
	for _, e := range l.builtin() {
		if _, shadowed := workspace[e.skill.Name]; !shadowed && !slices.Contains(l.opts.Disabled, e.skill.Name) {
			next.skills = append(next.skills, e.skill)
		}
	}

	for name, e := range workspace {
		s := e.skill
		if rec, ok := installed.of(name); ok {
			s.Source, s.Always = FromInstalled, s.Always && rec.Always
		}
		next.skills = append(next.skills, s)
	}

	sort.Slice(next.skills, func(i, j int) bool { return next.skills[i].Name < next.skills[j].Name })
	var active []string
	for i := range next.skills {
		s := &next.skills[i]
		s.Missing = l.missing(*s)
		if s.Always && s.Available() {
			active = append(active, s.text())
		}
		s.Body = ""
	}

	next.active = strings.Join(active, "\n\n---\n\n")
	next.short = l.summarise(next.skills, shortLine)
	next.summary = next.short

	for line := maxDescription; line > shortLine; line /= 2 {
		if s := l.summarise(next.skills, line); len(s) <= maxSummary {
			next.summary = s
			break
		}
	}

	l.last.Store(next)
	return next
}

// missing says what a skill needs and does not have.
func (l *Library) missing(s Skill) string {
	var lacks []string
	for _, bin := range s.Bins {
		if _, err := l.opts.LookPath(bin); err != nil {
			lacks = append(lacks, "CLI: "+bin)
		}
	}

	for _, name := range s.Env {
		if l.opts.Getenv(name) == "" {
			lacks = append(lacks, "ENV: "+name)
		}
	}

	if tools := l.lacksTools(s); tools != "" {
		lacks = append(lacks, tools)
	}
	if len(s.OS) > 0 && !slices.Contains(s.OS, l.opts.GOOS) {
		lacks = append(lacks, "OS: "+strings.Join(s.OS, " or "))
	}
	return strings.Join(lacks, ", ")
}

// lacksTools says which tools a skill needs and the agent does not offer.
func (l *Library) lacksTools(s Skill) string {
	var lacks []string
	for _, name := range s.Tools {
		if l.opts.HasTool != nil && !l.opts.HasTool(name) {
			lacks = append(lacks, "TOOL: "+name)
		}
	}
	return strings.Join(lacks, ", ")
}

// summarise leaves out what the prompt holds already, and skills about tools
// that are not offered: nothing the model could do would make them useful.
// A description has at most line code points.
func (l *Library) summarise(skills []Skill, line int) string {
	var b strings.Builder
	group := func(source Source, heading string) {
		for _, s := range skills {
			if s.Source != source || s.Always && s.Available() || l.lacksTools(s) != "" {
				continue
			}

			if heading != "" {
				if b.Len() > 0 {
					b.WriteString("\n\n")
				}
				b.WriteString(heading)
				heading = ""
			}

			b.WriteString("\n- **" + s.Name + "** — " + text.Ellipsis(s.Description, line))
			if !s.Available() {
				b.WriteString(" (unavailable: " + s.Missing + ")")
			}
			b.WriteString(" `" + s.Name + "/" + fileName + "`")
		}
	}

	dir := filepath.Join(l.opts.Workspace, folder)
	group(FromWorkspace, "### Workspace `"+dir+"`")
	group(FromInstalled, "### source: installed (third-party) `"+dir+"`")
	group(FromBuiltin, "### Built-in `"+scheme+folder+"`")
	return b.String()
}
