package skill

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// Description is a skill as lists for people and programs show it.
type Description struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Source      Source   `json:"source"`
	Available   bool     `json:"available"`
	Missing     string   `json:"missing,omitempty"`
	Disabled    bool     `json:"disabled,omitempty"`
	Always      bool     `json:"always,omitempty"`
	Changed     bool     `json:"changed,omitempty"` // since it was installed
	SHA256      string   `json:"sha256,omitempty"`  // as installed
	Homepage    string   `json:"homepage,omitempty"`
	Path        string   `json:"path"`
	Notes       []string `json:"notes,omitempty"`
	Text        string   `json:"text,omitempty"` // of skill show
}

// Describe describes skills of a place; disabled are those that the
// configuration leaves out.
func Describe(p Place, list []Skill, disabled []string) ([]Description, error) {
	out := []Description{}
	for _, k := range list {
		e := Description{
			Name: k.Name, Description: k.Description, Source: k.Source, Available: k.Available(), Missing: k.Missing,
			Disabled: slices.Contains(disabled, k.Name), Always: k.Always, Homepage: k.Homepage, Path: k.Path, Notes: k.Notes, Text: k.Body,
		}
		e.Available = e.Available && !e.Disabled
		if k.Source == FromInstalled {
			rec, found, err := FindInstalled(p, k.Name)
			if err != nil {
				return nil, err
			}
			if found {
				e.SHA256, e.Changed = rec.SHA256, rec.Changed()
			}
		}

		out = append(out, e)
	}

	return out, nil
}

// State says in a word or two whether a skill can be used.
func (e Description) State() string {
	switch {
	case e.Disabled:
		return "disabled in the configuration"
	case e.Changed:
		return "changed since it was installed"
	case !e.Available:
		return "needs " + e.Missing
	case e.Always:
		return "in every prompt"
	}
	return "ready"
}

// PackFile packs a skill into a file. It writes it beside its place first, so that no half of one
// ever stands there.
func PackFile(file, dir string) (packed Packed, err error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".pack-*")
	if err != nil {
		return packed, err
	}

	packed, err = pack(f, dir)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return packed, err
}
