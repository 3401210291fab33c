package catalog

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
)

//go:embed facts.json
var embeddedFacts []byte

// maxFacts bounds the user's file.
const maxFacts = 1 << 20

// Fact holds what is known about a model.
type Fact struct {
	Window   int // tokens; 0 is not known
	Vision   Ability
	Tools    Ability
	Thinking Ability
	// Always says that it thinks whether it is asked to or not, and takes no
	// temperature.
	Always bool
}

// factRow is a row of a file of facts. What it leaves out, the next best row says.
type factRow struct {
	// Model is a pattern of path.Match, compared in lower case with the name of a
	// model and with what follows its last slash.
	Model    string `json:"model"`
	Window   int    `json:"window"`
	Vision   *bool  `json:"vision"`
	Tools    *bool  `json:"tools"`
	Thinking string `json:"thinking"` // yes, no or always
}

// Facts is the table of what models can do: the embedded one, with the user's
// file in front of it.
type Facts struct {
	own     func() ([]factRow, error)
	builtin func() []factRow
}

// NewFacts makes a table. The file may be missing or ""; it is read on first use.
func NewFacts(file string) *Facts {
	return &Facts{sync.OnceValues(func() ([]factRow, error) { return readFacts(file) }), sync.OnceValue(builtinFacts)}
}

// Err says what is wrong with the user's file, which is ignored then.
func (f *Facts) Err() error {
	_, err := f.own()
	return err
}

// Of returns what is known about a model. Rows of the user come before ours,
// and a pattern with more letters before one with fewer.
func (f *Facts) Of(model string) Fact {
	own, _ := f.own() // Err tells
	var out Fact
	names := factNames(model)
	for _, rows := range [][]factRow{own, f.builtin()} {
		var best [4]int // score of what was found, by fact
		var found Fact
		better := func(i, score int) bool {
			if score <= best[i] {
				return false
			}
			best[i] = score
			return true
		}
		for _, r := range rows {
			score := r.score(names)
			if r.Window > 0 && better(0, score) {
				found.Window = r.Window
			}
			if r.Vision != nil && better(1, score) {
				found.Vision = flag(*r.Vision)
			}
			if r.Tools != nil && better(2, score) {
				found.Tools = flag(*r.Tools)
			}
			if r.Thinking != "" && better(3, score) {
				found.Thinking, found.Always = flag(r.Thinking != "no"), r.Thinking == "always"
			}
		}

		out = out.or(found)
	}

	return out
}

// or fills in what is not known.
func (f Fact) or(o Fact) Fact {
	if f.Window == 0 {
		f.Window = o.Window
	}
	if f.Vision == "" {
		f.Vision = o.Vision
	}
	if f.Tools == "" {
		f.Tools = o.Tools
	}
	if f.Thinking == "" {
		f.Thinking, f.Always = o.Thinking, o.Always
	}
	return f
}

// factNames returns the names that a model may have in the table.
func factNames(model string) []string {
	name := strings.ToLower(model)
	out := []string{name}
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
		out = append(out, name)
	}
	if _, own, ok := strings.Cut(name, "anthropic."); ok { // Bedrock: region.anthropic.model
		out = append(out, own)
	}
	return out
}

// score says how well a row fits; 0 is not at all.
func (r *factRow) score(names []string) int {
	pattern := strings.ToLower(r.Model)
	for _, name := range names {
		if ok, err := path.Match(pattern, name); err == nil && ok {
			return 1 + letters(pattern)
		}
	}
	return 0
}

// letters counts what a pattern says; a class of characters is one.
func letters(pattern string) (n int) {
	class := false
	for _, c := range pattern {
		switch {
		case c == '[':
			class = true
		case c == ']':
			class = false
			n++
		case !class && c != '*' && c != '?':
			n++
		}
	}

	return n
}

// builtinFacts is our own table.
func builtinFacts() []factRow {
	rows, err := parseFacts(embeddedFacts)
	if err != nil {
		panic("catalog: facts.json: " + err.Error()) // a test reads it
	}
	return rows
}

// readFacts reads the user's file.
func readFacts(file string) ([]factRow, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) || file == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	defer f.Close() //nolint:errcheck // only read from
	b, err := io.ReadAll(io.LimitReader(f, maxFacts+1))
	if err == nil && len(b) > maxFacts {
		err = errors.New("it is larger than 1 MiB")
	}

	var rows []factRow
	if err == nil {
		rows, err = parseFacts(b)
	}

	if err != nil {
		return nil, fmt.Errorf("%s is ignored, what nanobot knows about models stays: %w", file, err)
	}
	return rows, nil
}

// parseFacts reads a file of facts and checks every row.
func parseFacts(b []byte) ([]factRow, error) {
	var f struct {
		Models []factRow `json:"models"`
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, err
	}

	for i := range f.Models {
		r := &f.Models[i]
		if _, err := path.Match(r.Model, ""); err != nil || r.Model == "" {
			return nil, fmt.Errorf("row %d: model must be a name or a pattern", i+1)
		}
		if r.Window < 0 {
			return nil, fmt.Errorf("row %d (%s): window is below zero", i+1, r.Model)
		}

		switch r.Thinking {
		case "", "yes", "no", "always":
		default:
			return nil, fmt.Errorf("row %d (%s): thinking %q: want yes, no or always", i+1, r.Model, r.Thinking)
		}
	}

	return f.Models, nil
}
