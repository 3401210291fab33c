package datadir

import (
	"path"
	"slices"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	t.Parallel()
	for _, table := range [][]Entry{Data(), inWorkspace()} {
		seen := map[Name]bool{}
		for _, e := range table {
			if seen[e.Name] {
				t.Errorf("%s is listed twice", e.Name)
			}
			seen[e.Name] = true
			if string(e.Name) != path.Clean(string(e.Name)) || strings.HasPrefix(string(e.Name), "/") || e.Holds == "" {
				t.Errorf("%q is not a clean relative path with a description", e.Name)
			}
			if e.Mode.Perm()&0o077 != 0 {
				t.Errorf("%s can be read by other users", e.Name)
			}
			if e.Secret && e.Backup == Always && e.Name != Config {
				t.Errorf("%s holds credentials and is in every backup", e.Name)
			}
			if e.Secret && e.Access != None {
				t.Errorf("%s holds credentials, and tools may touch it", e.Name)
			}
			if e.Derived && e.Backup != Never {
				t.Errorf("%s can be made again and is in backups", e.Name)
			}
		}
	}
	for _, e := range Data() {
		if top, ok := Lookup(string(e.Name.top())); !ok || top.Name != e.Name.top() {
			t.Errorf("%s: the folder around it is not listed", e.Name)
		}
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]Name{
		"config.json": Config, "config.json.lock": Config, ".config.json.tmp-1": Config, "config.bak": Config, "config.json~": Config, "config.json.edit-1.json": Config,
		"config.last-good.json": LastGood, "pairing.json.lock": Pairing, "pairing.html": "", "sessions/x/y.jsonl": Sessions, "sessions2": "",
		"run/mcp-tools.json": MCPTools, "run/anything": Run, "usage/totals.json": Usage, "prices.json": Prices, "prices.txt": "", "notes.txt": "", "workspace/notes.txt": Workspace,
	} {
		if e, ok := Lookup(path); e.Name != want || ok != (want != "") {
			t.Errorf("Lookup(%q) is %q, %t; want %q", path, e.Name, ok, want)
		}
	}
}

// What decides about money and trust is closed to tools in every mode.
func TestClosed(t *testing.T) {
	t.Parallel()
	for _, n := range []Name{Config, LastGood, Prices, Usage, Index, Pairing, Sessions, Cron, Origin, Auth, Secrets, Run, Workspaces, Guests} {
		if !slices.Contains(Closed(), n) || !Own(strings.ToUpper(string(n))) && n != Cron {
			t.Errorf("%s is not closed", n)
		}
	}
	for _, n := range []Name{Workspace, Media} {
		if slices.Contains(Closed(), n) {
			t.Errorf("%s is closed, but tools work with it", n)
		}
	}
}
