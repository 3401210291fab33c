package config

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/keyring"
)

// Options say where settings come from.
type Options struct {
	Path      string     // explicit file; "" is NANOBOT_CONFIG, else NANOBOT_HOME/config.json, else ~/.nanobot/config.json
	Env       []string   // in the form of os.Environ; nil: no environment
	Home      string     // home folder; "" asks the system
	Overrides []Override // settings from the command line, stronger than everything else
	Optional  bool       // a named file that does not exist counts as empty
	Strict    bool       // unknown and doubled keys are errors
	Text      []byte     // judged instead of what the file holds; nil reads the file
	Sections  Sections   // what the sections of chat platforms hold; nil: nothing is known
	Lenient   bool       // sections that can be done without are left out when they cannot be used; see Loaded.Disabled
}

// Override is one setting from the command line. Value is taken as text for
// text settings and as JSON for lists and objects.
type Override struct{ Path, Value string }

// Loaded is a configuration that can be used.
type Loaded struct {
	Config   Config
	File     string    // absolute path, whether or not the file exists
	Exists   bool      // the file was there
	DataDir  string    // folder of the file: state that is not part of a workspace
	Warnings []Problem // findings that do not stop the start
	Python   bool      // the file was written by Python nanobot: absent keys mean what they mean there
	Disabled []Problem // why sections were left out, when that was asked for
	state    *state
}

// state holds what is needed to trace values. It stays behind a pointer so
// that printing a Loaded cannot reach credentials.
type state struct {
	doc  *document
	tree *node
	home string
	base string // what replaces ~/.nanobot

	sections Sections
}

// Load merges all sources, strongest first: overrides, NANOBOT_ environment
// variables, the file, defaults. Without a file it is the environment over the
// defaults. Any error is an *Error.
func Load(o Options) (*Loaded, error) {
	file, base, explicit, err := locate(o)
	if err != nil {
		return nil, err
	}

	home := o.home()
	if home == "" {
		home = filepath.Dir(file)
	}

	l := &Loaded{File: file, DataDir: filepath.Dir(file), state: &state{home: home, base: base}}
	data := o.Text
	if data == nil {
		data, err = readFile(file)
	}

	switch {
	case err == nil:
		l.Exists = true
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case explicit && !o.Optional:
		return nil, &Error{
			Kind: IOError, File: file, cause: fs.ErrNotExist,
			Issues: []Problem{{Message: "there is no such file"}},
			Advice: "Create it with: nanobot onboard -c " + file,
		}
	}

	if l.Exists && IsYAML(file) && o.Text == nil {
		return nil, &Error{
			Kind: InvalidJSON, File: file,
			Issues: []Problem{{Message: "this is YAML, and nanobot reads JSON"}},
			Advice: "Turn it into config.json with: nanobot migrate -c " + file,
		}
	}

	err = l.build(o, data)
	for range maxDisabled {
		if !o.Lenient || err == nil || !l.disable(err) {
			break
		}
		err = l.build(o, data)
	}

	if err != nil {
		return nil, err
	}

	if !l.Exists {
		if other := YAMLBeside(file); other != "" {
			l.Warnings = append(l.Warnings, Problem{Message: other + " is not used, because nanobot reads JSON", Hint: "turn it into config.json with: nanobot migrate"})
		}
	}
	return l, nil
}

// build fills l from the text of the file.
func (l *Loaded) build(o Options, data []byte) error {
	doc, err := parse(l.File, data)
	if err != nil {
		return err
	}

	l.state.doc, l.state.sections = doc, o.Sections
	r := &reader{doc: doc, env: o.Env, home: l.state.home, root: rootPlace(o.Sections)}
	for _, m := range migrations() {
		m.apply(doc.root(), r.warnAt)
	}

	tree := doc.tree(&doc.value, make([]string, 0, 8), r.double)
	r.clean(tree, r.root)
	r.python = isPython(tree)
	l.Python = r.python
	r.overlay(tree, o)
	for _, p := range l.Disabled {
		tree.remove(optional(p.at))
	}

	r.resolve(tree)
	l.state.tree = tree
	l.Config = defaultsFor(r.python)
	r.decode(&l.Config, tree)
	r.check(&l.Config, tree)
	l.Warnings = r.warnings
	sortByPosition(l.Warnings)

	if o.Strict {
		for _, w := range l.Warnings {
			if w.Unknown {
				r.issues = append(r.issues, w)
			}
		}
	}

	return r.failure(l.File)
}

// reader collects findings on the way from text to Config.
type reader struct {
	doc      *document
	root     place
	env      []string
	home     string
	ring     *keyring.Ring // from the first reference on
	python   bool          // the file was written by Python nanobot
	keep     bool          // leave references unresolved and unjudged: checking an edit
	issues   []Problem
	missing  []Problem // references without a value
	warnings []Problem
}

// where fills in the position of n.
func (r *reader) where(n *node, p Problem) Problem {
	switch {
	case n == nil:
	case n.from.layer == LayerFile:
		p.Line, p.Column = r.doc.position(n.from.off)
	case n.from.layer == LayerEnv:
		p.Env = n.from.name
	case n.from.layer == LayerFlag:
		p.Env = "the command line"
	}
	return p
}

func (r *reader) issue(n *node, at place, msg, hint string) {
	r.issues = append(r.issues, r.where(n, Problem{Path: showPath(at.path), Message: msg, Hint: hint, at: joinPath(at.path)}))
}

func (r *reader) warning(n *node, path []string, msg, hint string) {
	r.warnings = append(r.warnings, r.where(n, Problem{Path: showPath(path), Message: msg, Hint: hint}))
}

func (r *reader) warn(p Problem) { r.warnings = append(r.warnings, p) }

func (r *reader) warnAt(off int, p Problem) {
	p.Line, p.Column = r.doc.position(off)
	r.warn(p)
}

func (r *reader) double(p Problem) {
	p.Unknown = true
	r.warn(p)
}

func sortByPosition(all []Problem) {
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

func (r *reader) failure(file string) error {
	all := append(slices.Clip(r.issues), r.missing...)
	if len(all) == 0 {
		return nil
	}

	sortByPosition(all)
	kind := InvalidSchema
	if len(r.issues) == 0 {
		kind = MissingEnv
	}

	e := &Error{Kind: kind, File: file, Issues: all}
	for _, w := range r.warnings {
		if w.Unknown && !slices.Contains(all, w) && len(e.Unknown) < maxIssues {
			e.Unknown = append(e.Unknown, w)
		}
	}

	if i := slices.IndexFunc(all, func(p Problem) bool { return p.Line > 0 }); i >= 0 && r.doc != nil {
		off := r.doc.offset(all[i].Line, 1)
		for range all[i].Column - 1 { // columns count characters
			_, n := utf8.DecodeRune(r.doc.text[off:])
			off += n
		}
		e.Excerpt = r.doc.excerpt(off)
	}

	return e
}

// lookup finds an environment variable. Windows ignores the case of names.
func (r *reader) lookup(name string) (string, bool) { return lookupEnv(r.env, name) }

func lookupEnv(env []string, name string) (string, bool) {
	value, found := "", false
	for _, kv := range env {
		k, v, ok := strings.Cut(kv, "=")
		if ok && (k == name || runtime.GOOS == "windows" && strings.EqualFold(k, name)) {
			value, found = v, true
		}
	}
	return value, found
}

// Locate returns the file Load would read, whether or not it exists or can be used.
func Locate(o Options) (string, error) {
	file, _, _, err := locate(o)
	return file, err
}

// locate finds the file, and the folder that stands for ~/.nanobot.
func locate(o Options) (file, base string, explicit bool, err error) {
	file = o.Path
	if file == "" {
		file, _ = lookupEnv(o.Env, "NANOBOT_CONFIG")
	}

	explicit = file != ""
	dir, _ := lookupEnv(o.Env, "NANOBOT_HOME")
	home := o.home()
	switch {
	case home != "":
		base = filepath.Join(home, ".nanobot")
	case strings.HasPrefix(file+dir, "~"), file == "" && dir == "":
		return "", "", false, homeUnknown()
	default: // "~" in settings is the folder of the file
		base = filepath.Dir(file)
	}

	if dir != "" {
		base = expandHome(dir, home)
	}
	if !explicit {
		file = filepath.Join(base, "config.json")
	}

	abs, err := filepath.Abs(expandHome(file, home))
	if err != nil {
		return "", "", false, &Error{Kind: IOError, File: file, cause: err, Issues: []Problem{{Message: "the path cannot be made absolute"}}}
	}
	if base, err = filepath.Abs(base); err != nil {
		return "", "", false, &Error{Kind: IOError, File: file, cause: err, Issues: []Problem{{Message: "the path cannot be made absolute"}}}
	}
	return abs, base, explicit, nil
}

// home returns the home folder; "" if it is not known. A relative one is none: it would be
// another folder in each place.
func (o Options) home() string {
	home := o.Home
	if home == "" {
		home, _ = os.UserHomeDir()
	}
	if !filepath.IsAbs(home) {
		return ""
	}
	return home
}

func homeUnknown() error {
	return &Error{
		Kind: IOError, File: "config.json",
		Issues: []Problem{{Message: "the home folder is not known: HOME is not set to an absolute path, and the system has no entry for this user"}},
		Advice: "Set HOME, or NANOBOT_HOME to the folder for nanobot's data",
	}
}

// expandHome replaces a leading ~.
func expandHome(path, home string) string {
	if home == "" {
		home, _ = os.UserHomeDir()
	}

	if path == "~" {
		return home
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(home, rest)
	}
	if rest, ok := strings.CutPrefix(path, `~\`); ok && runtime.GOOS == "windows" {
		return filepath.Join(home, rest)
	}
	return path
}

// Workspace returns the absolute path of the workspace. A relative one counts from
// the current folder. The default follows NANOBOT_HOME.
func (l *Loaded) Workspace() string {
	w := l.Config.Agents.Defaults.Workspace
	if !l.IsSet("agents.defaults.workspace") {
		w = filepath.Join(l.state.base, "workspace")
	}
	w = expandHome(w, l.state.home)
	if abs, err := filepath.Abs(w); err == nil {
		return abs
	}
	return w
}

// readFile reads at most a little more than maxFileBytes of a regular file. A
// missing file is fs.ErrNotExist as it is; everything else is an *Error.
func readFile(file string) ([]byte, error) {
	fail := func(msg string, cause error) error {
		return &Error{Kind: IOError, File: file, cause: cause, Issues: []Problem{{Message: msg}}}
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case errors.Is(err, fs.ErrPermission):
		return nil, fail("permission denied", err)
	case err != nil:
		return nil, fail(reason(err), err)
	case info.IsDir():
		return nil, fail("this is a folder", nil)
	case info.Mode()&(fs.ModeSocket|fs.ModeDevice|fs.ModeNamedPipe) != 0:
		return nil, fail("this is not a regular file", nil)
	}

	f, err := os.Open(file)
	if err != nil {
		return nil, fail(reason(err), err)
	}

	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fail(reason(err), err)
	}
	return data, nil
}

// reason returns the system's word for err without operation and path.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
