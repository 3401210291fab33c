package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// elsewhere are the packages that open no path of a workspace, or are the way
// into one. Every other package is held to the rule, also those to come.
var elsewhere = []string{
	"internal/bus/*", "internal/run/config", "internal/run/daemon", "internal/base/diskio", "internal/base/document", "internal/base/httpsafe", "internal/llm",
	"internal/llm/[^r]*", "internal/guard/change/origin", "internal/base/sandbox", "internal/base/sandbox/*", "internal/base/store/*",
}

// byPath are the functions that follow links. Temporary files of os.CreateTemp
// and os.MkdirTemp are not among them: their names are new and they are not in
// a workspace.
var byPath = map[string][]string{
	"os": {
		"Chdir", "Chmod", "Chown", "Chtimes", "CopyFS", "Create", "DirFS", "Lchown", "Link", "Lstat", "Mkdir", "MkdirAll", "Open",
		"OpenFile", "OpenInRoot", "OpenRoot", "ReadDir", "ReadFile", "Readlink", "Remove", "RemoveAll", "Rename", "Stat", "Symlink",
		"Truncate", "WriteFile",
	},
	"path/filepath":                  {"EvalSymlinks", "Glob", "Walk", "WalkDir"},
	"io/ioutil":                      {"ReadDir", "ReadFile", "WriteFile"},
	module + "/internal/base/diskio": {"CopyFile", "MkdirAll", "Replace", "ResolveExisting", "SyncDir", "TryLock", "WriteFile"},
	"golang.org/x/sys/unix":          {"Open", "Openat", "Openat2", "Rename", "Unlink"},
	"syscall":                        {"Open", "Rename", "Unlink"},
}

// byPathAllowed are the files that use such a function all the same, each with
// the reason why no path of a workspace reaches it. It changes in the commit
// that changes the file.
var byPathAllowed = map[string]string{
	"internal/run/backup/database.go":    "copies databases of the data folder",
	"internal/run/backup/origin.go":      "copies records of outside files of the data folder",
	"internal/run/doctor/scrub.go":       "reads sessions, which lie in the data folder",
	"internal/run/doctor/web.go":         "removes its own temporary folder, in the data folder",
	"internal/run/gateway/operations.go": "makes and removes its own temporary folder, in the data folder",
	"internal/web/subject/log.go":        "reads the log of the gateway",
	"internal/run/settings/update.go":    "reads the configuration file",
	"internal/run/settings/versions.go":  "reads versions of the configuration file, in the data folder",
	"internal/web/subject/operations.go": "reads and removes a file in a temporary folder, in the data folder",
	"internal/core/session/scrub.go":     "rewrites sessions, which lie in the data folder",

	"cmd/nanobot-whatsapp/account.go":  "keeps the linked device in the data folder",
	"cmd/nanobot-whatsapp/outgoing.go": "sends copies in the data folder and writes received files there",
	"cmd/nanobot/pages_linux.go":       "reads files of /proc about this process",

	"internal/guard/change/folders.go": "keeps its logs in the data folder",
	"internal/guard/change/record.go":  "resolves paths for comparison only",
	"internal/cli/conversation.go":     "looks whether the folder of a conversation is still there, and opens nothing in it",
	"internal/cli/folders.go":          "looks at the folder that the user is in, which no file is opened through",
	"internal/cli/trust.go":            "looks whether a name that the user typed exists",
	"internal/cli/migrate_yaml.go":     "reads the configuration file that the user names and writes the new one beside it",
	"internal/run/app/sessions.go":     "compares the workspace itself with the one that is configured",
	"internal/run/app/app.go":          "looks whether the folder of a workspace that the user typed exists",
	"internal/guard/redirect.go":       "looks at links to refuse a write, and opens nothing; the jail opens the file",
	"internal/guard/neutral.go":        "the folder that guests share: whether it is empty, and that it is there before it is made read-only",
	"internal/guard/scopes.go":         "compares the folder that the user is in with the workspace",

	"internal/chat/deliver/account.go":             "makes the folder of an account in the data folder",
	"internal/chat/platform/matrix/crypt_goolm.go": "keeps keys in the folder of an account",
	"internal/chat/platform/matrix/login.go":       "keeps the login in the folder of an account",

	"internal/web/api/media.go":   "keeps received files in the data folder",
	"internal/web/api/request.go": "removes received files in the data folder",

	"internal/base/keyring/keyring.go":      "keeps keys in the data folder",
	"internal/base/keyring/system_linux.go": "looks for the socket of the session bus",
	"internal/base/child/members_linux.go":  "reads /proc",

	"internal/run/backup/backup.go":         "reads the data folder by path; the workspace goes through a tree",
	"internal/run/backup/own.go":            "finds out whether the workspace and the data folder are one",
	"internal/run/backup/restore.go":        "unpacks into a new folder beside the old one and swaps them",
	"internal/run/doctor/doctor.go":         "looks at the data folder and at the workspace itself",
	"internal/run/doctor/state.go":          "reads the data folder",
	"internal/guard/confine.go":             "resolves folders that the configuration opens for commands, and makes the cache in the data folder",
	"internal/run/control/control.go":       "makes the socket in the data folder",
	"internal/guard/guest_media.go":         "links received files in the data folder, where guests cannot write",
	"internal/guard/guests.go":              "makes the folders of a chat in the data folder; what runs there cannot replace them",
	"internal/run/gateway/gateway.go":       "removes its own temporary folder",
	"internal/core/schedule/trigger_key.go": "keeps a token in the data folder",
	"internal/guard/servers.go":             "makes the workspace itself",
	"internal/guard/netproxy.go":            "removes its own temporary folder",
	"internal/run/gateway/reload.go":        "copies the configuration in the data folder",
	"internal/guard/places.go":              "resolves the path of the workspace itself",
	"internal/guard/programs.go":            "looks at folders of programs; those in a workspace are left out",
	"internal/run/doctor/security.go":       "looks at the configuration and the data folder",
	"internal/run/gateway/serve.go":         "watches the configuration",
	"internal/run/provider/speech.go":       "reads received recordings in the data folder",
	"internal/run/app/workspace.go":         "makes the workspace",
	"internal/run/takeover/takeover.go":     "looks whether the workspace itself exists",
	"internal/guard/track.go":               "looks whether names exist to judge a command",
	"internal/guard/outside.go":             "looks whether names exist to judge a command",
	"internal/guard/hide.go":                "looks whether names exist to hide them",

	"internal/base/markdown/markdowntest/markdowntest.go":          "reads and writes golden files of the package that is tested",
	"internal/chat/chattest/suite.go":                              "is for tests of channels",
	"internal/chat/plan.go":                                        "looks at files to send, which are copies in the data folder",
	"internal/chat/kit/attach.go":                                  "sends copies in the data folder",
	"internal/chat/platform/signal/inbound.go":                     "reads what signal-cli stored in its own folder",
	"internal/chat/platform/signal/signaltest/signaltest.go":       "is for tests of channels",
	"internal/chat/platform/mochat/marks.go":                       "keeps how far sessions were read in the data folder",
	"internal/chat/platform/weixin/account.go":                     "keeps the login in the data folder",
	"internal/chat/platform/weixin/login.go":                       "removes the login in the data folder",
	"internal/chat/platform/whatsapp/inbound.go":                   "reads files that the bridge wrote for us",
	"internal/chat/platform/whatsapp/link.go":                      "keeps a token in the data folder",
	"internal/chat/platform/whatsapp/login.go":                     "removes the linked device in the data folder",
	"internal/chat/platform/whatsapp/send.go":                      "removes a file that it fetched itself",
	"internal/chat/platform/whatsapp/whatsapptest/whatsapptest.go": "is for tests of channels",
	"internal/web/socket/media.go":                                 "sends copies in the data folder",
	"internal/web/socket/receive.go":                               "removes received files in the data folder",
	"internal/web/socket/upload.go":                                "keeps received files in the data folder",
	"internal/web/socket/websocket.go":                             "makes the socket in the data folder",
	"internal/chat/chattest/contract.go":                           "is for tests of channels",

	"attach.go":                           "copies files that the program names; those of the workspace stay and go through a tree",
	"replay.go":                           "works in a temporary folder",
	"internal/web/auth/listener.go":       "keeps a token in the data folder, or reads a file that the user names",
	"internal/run/backup/create.go":       "writes the archive that the user names",
	"internal/run/doctor/bundle.go":       "writes the archive that the user names, from logs in the data folder",
	"internal/run/doctor/probe.go":        "makes the workspace itself and repairs modes in the data folder",
	"internal/run/doctor/security_fix.go": "repairs modes in the data folder",
	"internal/run/doctor/status.go":       "looks whether the workspace itself exists",
	"internal/core/record/replay.go":      "works in a temporary folder",
	"internal/core/skill/describe.go":     "writes the archive that the user names",
	"internal/cli/agent.go":               "looks at files that the user names",
	"internal/cli/backup.go":              "writes the archive that the user names",
	"internal/cli/config_edit.go":         "edits the configuration",
	"internal/cli/doctor_checkup.go":      "makes the workspace itself and repairs modes in the data folder",
	"internal/cli/gateway.go":             "removes a file of the data folder",
	"internal/cli/gateway_control.go":     "reads logs in the data folder",
	"internal/cli/home.go":                "looks whether the workspace itself exists",
	"internal/cli/mcp_login.go":           "reads a file that the user names",
	"internal/cli/mcp_serve.go":           "keeps a token in the data folder",
	"internal/cli/memory_version.go":      "edits a copy in a temporary folder",
	"internal/cli/older.go":               "looks for other versions of the program",
	"internal/cli/onboard.go":             "writes the configuration",
	"internal/cli/service.go":             "writes the unit of the service",
	"internal/cli/sessions.go":            "writes the file that the user names",
	"internal/cli/skill.go":               "looks at files that the user names",
	"internal/cli/transcribe.go":          "reads a recording that the user names",

	"internal/base/gitstore/repo.go": "makes the repository in the data folder",

	"internal/core/record/load.go":   "reads a recording that the user names",
	"internal/core/record/record.go": "writes a recording that the user names",

	"internal/core/runner/offload.go": "keeps results of tools in the data folder",

	"internal/core/schedule/python_import.go": "keeps jobs in the data folder and removes those of an older data folder; the workspace goes through a tree",

	"internal/core/session/archive.go":         "keeps conversations in the data folder",
	"internal/core/session/python_copyback.go": "makes the workspace itself; the copies go through a tree",
	"internal/core/session/python_import.go":   "keeps conversations in the data folder; the workspace goes through a tree",
	"internal/core/session/search/database.go": "keeps the index in the data folder",
	"internal/core/session/search/search.go":   "keeps the index in the data folder",
	"internal/core/session/store.go":           "keeps conversations in the data folder",
	"internal/core/session/workspace.go":       "keeps the identity of workspaces in the data folder and looks at the workspace itself",
	"internal/core/session/workspace_table.go": "keeps the identity of workspaces in the data folder",
	"internal/core/session/python_migrate.go":  "removes its own temporary file in the data folder",
	"internal/core/session/root_darwin.go":     "tells the workspace itself from other folders",

	"internal/core/skill/archive.go":  "reads an archive that the user names",
	"internal/core/skill/bundle.go":   "looks at what the user names; the content goes through a tree",
	"internal/core/skill/install.go":  "keeps the ledger in the data folder and makes the workspace itself",
	"internal/core/skill/scaffold.go": "makes the workspace itself",

	"internal/guard/approve/file.go":      "finds the name behind links to judge it; it opens nothing",
	"internal/tool/files/patch.go":        "finds the name behind links to compare it; it opens nothing",
	"internal/tool/files/read.go":         "finds the name behind links to judge it; the jail opens",
	"internal/tool/image/store.go":        "keeps pictures in the data folder",
	"internal/tool/mcp/process_unix.go":   "reads /proc",
	"internal/tool/mcp/result.go":         "keeps results in the data folder",
	"internal/tool/shell/login.go":        "reads the list of users, and looks for the login shell, which the user chose",
	"internal/tool/shell/paths.go":        "finds the names behind links in a command to judge them; it opens nothing",
	"internal/tool/shell/run_linux.go":    "reads /proc",
	"internal/tool/shell/run_unix.go":     "looks for shells in system folders",
	"internal/tool/shell/shell.go":        "finds the folder that a command starts in; the sandbox holds the command",
	"internal/guard/change/undo/log.go":   "keeps the log in the data folder",
	"internal/guard/change/undo/place.go": "goes from one verified folder to the next itself, because it also records links",
	"internal/guard/change/undo/prune.go": "keeps the log in the data folder",
	"internal/guard/change/undo/undo.go":  "keeps locks in the data folder",

	"internal/cli/tui/history.go": "keeps typed lines in the data folder",
}

// openers are the functions of byPath that a file names.
func openers(f *ast.File) (found []string) {
	names := map[string][]string{}
	for _, imp := range f.Imports {
		at := strings.Trim(imp.Path.Value, `"`)
		name := path.Base(at)
		if imp.Name != nil {
			name = imp.Name.Name
		}
		if list := byPath[at]; list != nil {
			names[name] = list
			if name == "." {
				found = append(found, "import . "+at)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if ok && slices.Contains(names[x.Name], sel.Sel.Name) {
			found = append(found, x.Name+"."+sel.Sel.Name)
		}
		return true
	})
	return found
}

// Files of a workspace are opened without following links. Who needs a function
// that follows them says in byPathAllowed why no such file reaches it.
func TestWorkspaceAccess(t *testing.T) {
	fset := token.NewFileSet()
	needed := map[string]bool{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (d.Name()[0] == '.' || d.Name() == "testdata" || file == "web" || file == "tools" || file == "test"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		file = filepath.ToSlash(file)
		if slices.ContainsFunc(elsewhere, func(pat string) bool { return glob(pat, path.Dir(file)) }) {
			return nil
		}
		f, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			return err
		}
		found := openers(f)
		if len(found) == 0 {
			return nil
		}
		needed[file] = true
		if byPathAllowed[file] == "" {
			slices.Sort(found)
			t.Errorf("%s uses %s; open what may lie in a workspace through diskio.Tree, or say in byPathAllowed why it never does",
				file, strings.Join(slices.Compact(found), ", "))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for file := range byPathAllowed {
		if !needed[file] {
			t.Errorf("%s needs no entry in byPathAllowed any more; remove it", file)
		}
	}
}

// The rule itself must be able to fail.
func TestWorkspaceAccessRule(t *testing.T) {
	for src, want := range map[string]int{
		`package x; import "os"; func f() { os.ReadFile("x") }`:                                               1,
		`package x; import "os"; var f = os.Remove`:                                                           1,
		`package x; import disk "os"; func f() { disk.Open("x"); disk.Stat("x") }`:                            2,
		`package x; import "path/filepath"; func f() { filepath.WalkDir("x", nil) }`:                          1,
		`package x; import . "os"; func f() { Open("x") }`:                                                    1,
		`package x; import "os"; func f() { os.Getenv("x"); os.MkdirTemp("", "x") }`:                          0,
		`package x; import "` + module + `/internal/base/diskio"; func f() { diskio.WriteFile("x", nil, 0) }`: 1,
		`package x; import "` + module + `/internal/base/diskio"; func f() { diskio.OpenTree("x") }`:          0,
		`package x; type o struct{}; func (o) Open(string) {}; func f() { var os o; os.Open("x") }`:           0,
		`package x; import "io/fs"; func f(t fs.FS) { t.Open("x") }`:                                          0,
		`package x; import "golang.org/x/sys/unix"; func f() { unix.Openat(0, "x", 0, 0) }`:                   1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := openers(f); len(got) != want {
			t.Errorf("%s\nnames %q, want %d", src, got, want)
		}
	}
}

// Names below the data folder are in one table, package datadir.
func TestDataFolderNames(t *testing.T) {
	t.Parallel()
	joined := regexp.MustCompile(`filepath\.Join\((\w+\.)*([dD]ataDir|Config\.DataDir)(\(\))?,\s*"`)
	err := filepath.WalkDir("internal", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		if m := joined.Find(text); m != nil {
			t.Errorf("%s: %s...: name it in internal/base/datadir and use datadir.Name.In", file, m)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
