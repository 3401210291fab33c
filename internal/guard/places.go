package guard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// oldResults is where earlier versions kept long results of tools, in the
// workspace. Some may still be there.
const oldResults = ".nanobot/tool-results"

// places knows where everything lies that tools work on, and what they must
// not touch.
type places struct {
	data      string // the data folder
	config    string // the configuration file
	workspace string
	id        string   // of the workspace; "" while only servers are confined
	installed []string // folders of skills that the user installed
	media     string   // what people sent
	share     string   // folder of the workspace that guests can write to; "" if there is none

	deny      []string // no tool may touch these
	denyWrite []string // no tool may change these
}

func placesOf(o Options) *places {
	p := &places{
		data:      o.Policy.DataDir,
		config:    o.Policy.ConfigFile,
		workspace: o.Workspace,
		id:        o.WorkspaceID,
		installed: o.Installed,
		media:     datadir.Media.In(o.Policy.DataDir),
		share:     shareOf(o.Policy.GuestShare, o.Workspace),
	}

	p.deny, p.denyWrite = p.protectedPaths()
	return p
}

// results returns where long results of tools are kept, by conversation. It is
// in the data folder, so that what is read there is what a tool returned.
func (p *places) results() string {
	return datadir.ToolResults.In(p.data, p.id)
}

// resultsOf returns where those of one conversation are.
func (p *places) resultsOf(session string) string {
	return filepath.Join(p.results(), text.SafeName(session))
}

// RemoveResults removes the long results of tools that one conversation has kept,
// whoever's it is.
func (g *Guard) RemoveResults(session string) error {
	name := text.SafeName(session)
	folders := []string{g.places.results()}
	guests, err := os.ReadDir(datadir.Guests.In(g.places.data))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	for _, room := range guests {
		folders = append(folders, guestFolders(g.places.data, room.Name()).results)
	}

	var errs []error
	for _, folder := range folders {
		errs = append(errs, os.RemoveAll(filepath.Join(folder, name)))
	}
	return errors.Join(errs...)
}

// undoDir returns where the changes of the workspace are kept: beside its
// sessions, under the same id.
func (p *places) undoDir() string { return datadir.Undo.In(p.data, p.id) }

// straight are the folders of the workspace in which no link is followed.
func (p *places) straight() []string {
	if p.share == "" {
		return nil
	}
	return []string{p.share}
}

// protectedNames are the beginnings of the names of copies that nanobot,
// editors and people make of files with credentials. They matter where the
// configuration lies beside other things; in a data folder of its own
// everything is protected already.
func (p *places) protectedNames() []string {
	data, own := p.data, p.config
	names := []string{datadir.Config.In(data), filepath.Join(data, "."+string(datadir.Config))}
	for _, e := range datadir.Data() {
		if !e.Folder && (e.Secret || e.Name == datadir.Pairing) && e.Name != datadir.Config {
			names = append(names, e.Name.In(data))
		}
	}

	if own != names[0] {
		names = append(names, own, filepath.Join(filepath.Dir(own), "."+filepath.Base(own)))
	}
	return names
}

// protectedPaths returns what no tool may touch, whatever the settings say:
// the whole data folder, and credentials of the user. What tools work on
// inside the data folder (the workspace, received media) is opened to them by
// name.
func (p *places) protectedPaths() (deny, denyWrite []string) {
	home, err := os.UserHomeDir()
	if err == nil {
		deny, denyWrite = diskio.HomeProtected(home)
	}

	data := p.data
	if p.ownFolder(home) {
		deny = append(deny, data)
	}

	deny = append(deny, p.config)
	for _, name := range datadir.Closed() {
		deny = append(deny, name.In(data))
	}

	// What others wrote and the user installed is not the model's to change.
	denyWrite = append(denyWrite, p.installed...)
	if exe, err := os.Executable(); err == nil {
		denyWrite = append(denyWrite, exe)
	}

	for _, name := range datadir.Kept() {
		denyWrite = append(denyWrite, name.In(p.workspace))
	}

	denyWrite = append(denyWrite, filepath.Join(p.workspace, ".git", "hooks"))

	around := func(path string) bool { return path != data && diskio.Within(p.workspace, path) }
	return slices.DeleteFunc(deny, around), denyWrite
}

// fixed are the paths of the workspace among those that must not be changed.
func (p *places) fixed() []string {
	var out []string
	for _, path := range p.denyWrite {
		if diskio.Within(path, p.workspace) {
			out = append(out, path)
		}
	}
	return out
}

// ownFolder reports whether the data folder holds nothing but nanobot's data,
// so that all of it can be closed. A configuration may also lie in a home
// folder or in the workspace itself; then only known names are protected there.
func (p *places) ownFolder(home string) bool {
	data, ws := resolved(p.data), resolved(p.workspace)
	if diskio.Within(data, ws) || filepath.Dir(data) == data {
		return false
	}
	return home == "" || !diskio.Within(resolved(home), data)
}

// unlinked are the protected folders whose files no other name may show: those
// with credentials, money, trust and conversations. The caches of commands are
// not among them, since package managers create links from there on purpose.
func (p *places) unlinked() []string {
	data := p.data
	out := slices.DeleteFunc(slices.Clone(p.deny), func(path string) bool { return diskio.Within(path, data) || diskio.Within(data, path) })
	linked := []datadir.Name{datadir.Cache, datadir.Guests, datadir.Index, datadir.Logs, datadir.ToolResults, datadir.Undo}
	for _, name := range datadir.Closed() {
		if !slices.Contains(linked, name) {
			out = append(out, name.In(data))
		}
	}
	return out
}

// resolved is a path without links, if it exists.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}
