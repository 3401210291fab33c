package app

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/skill"
)

// protectedNames are how the copies begin that we, editors and people make of
// files with credentials. They matter where the configuration lies beside other
// things; inside of a data folder of its own everything is protected anyway.
func (a *App) protectedNames() []string {
	data, own := a.Config.DataDir, a.Config.File
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

// protectedPaths are what no tool may touch, whatever the settings say: all of
// our data folder, and credentials of the user. What tools work on inside of
// the data folder (the workspace, received media) is given to them by name.
func (a *App) protectedPaths() (deny, denyWrite []string) {
	home, err := os.UserHomeDir()
	if err == nil {
		deny, denyWrite = diskio.HomeProtected(home)
	}
	data := a.Config.DataDir
	if a.ownFolder(home) {
		deny = append(deny, data)
	}
	deny = append(deny, a.Config.File)
	for _, name := range datadir.Closed() {
		deny = append(deny, name.In(data))
	}
	// What others wrote and the user installed is not the model's to change.
	if dirs, err := skill.InstalledDirs(State(a.Config, a.log)); err == nil {
		denyWrite = append(denyWrite, dirs...)
	}
	if exe, err := os.Executable(); err == nil {
		denyWrite = append(denyWrite, exe)
	}
	for _, name := range datadir.Kept() {
		denyWrite = append(denyWrite, name.In(a.Workspace))
	}
	denyWrite = append(denyWrite, filepath.Join(a.Workspace, ".git", "hooks"))
	around := func(p string) bool { return p != data && diskio.Within(a.Workspace, p) }
	return slices.DeleteFunc(deny, around), denyWrite
}

// unlinked are the protected folders whose files no other name may show: those
// with credentials, money, trust and conversations. The caches of commands are
// not among them, since package managers link from there on purpose.
func unlinked(data string, deny []string) []string {
	out := slices.DeleteFunc(slices.Clone(deny), func(p string) bool { return diskio.Within(p, data) || diskio.Within(data, p) })
	linked := []datadir.Name{datadir.Cache, datadir.Guests, datadir.Index, datadir.Logs, datadir.ToolResults, datadir.Undo}
	for _, name := range datadir.Closed() {
		if !slices.Contains(linked, name) {
			out = append(out, name.In(data))
		}
	}
	return out
}

// ownFolder reports whether the data folder holds nothing but our data, so that
// all of it can be closed. A configuration may also lie in a home folder or in
// the workspace itself; then only our names are protected there.
func (a *App) ownFolder(home string) bool {
	data, ws := resolved(a.Config.DataDir), resolved(a.Workspace)
	if diskio.Within(data, ws) || filepath.Dir(data) == data {
		return false
	}
	return home == "" || !diskio.Within(resolved(home), data)
}
