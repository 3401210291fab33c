package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/skill"
)

// protectedNames are how the copies begin that we, editors and people make of
// files with credentials. They matter where the configuration lies beside other
// things; inside of a data folder of its own everything is protected anyway.
func (a *App) protectedNames() []string {
	data, own := a.Config.DataDir, a.Config.File
	names := []string{filepath.Join(data, "config.json"), filepath.Join(data, ".config.json"), filepath.Join(data, GoodConfig), filepath.Join(data, "secrets.json"), filepath.Join(data, pairingFile)}
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
	for _, name := range stateNames() {
		deny = append(deny, filepath.Join(data, name))
	}
	// What others wrote and the user installed is not the model's to change.
	if dirs, err := skill.InstalledDirs(SkillLedger(a.Config)); err == nil {
		denyWrite = append(denyWrite, dirs...)
	}
	if exe, err := os.Executable(); err == nil {
		denyWrite = append(denyWrite, exe)
	}
	denyWrite = append(denyWrite,
		filepath.Join(a.Workspace, "memory", "history.jsonl"), filepath.Join(a.Workspace, "memory", ".cursor"),
		filepath.Join(a.Workspace, "memory", ".dream_cursor"), filepath.Join(a.Workspace, "cron"), filepath.Join(a.Workspace, "triggers"),
		filepath.Join(a.Workspace, ".git", "hooks"))
	around := func(p string) bool { return p != data && within(a.Workspace, p) }
	return slices.DeleteFunc(deny, around), denyWrite
}

// ownFolder reports whether the data folder holds nothing but our data, so that
// all of it can be closed. A configuration may also lie in a home folder or in
// the workspace itself; then only our names are protected there.
func (a *App) ownFolder(home string) bool {
	data, ws := resolved(a.Config.DataDir), resolved(a.Workspace)
	if within(data, ws) || filepath.Dir(data) == data {
		return false
	}
	return home == "" || !within(resolved(home), data)
}

// stateNames are what we keep in the data folder.
func stateNames() []string {
	return strings.Fields(`config.json ` + GoodConfig + ` secrets.json ` + pairingFile + ` skills.json prices.json
		auth bus cache channels cron guests history index logs memory origin run secrets sessions subagents tool-results undo usage webui
		whatsapp-auth weixin workspaces.json`)
}
