package guard

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// neutralSettings are settings of git that name a program, or lead to one, as
// they are without the settings of a repository. Those of a driver or a filter
// have names that only the repository knows: commands that reach them are asked
// about (marks.repository), and contained in any case.
func neutralSettings() [][2]string {
	return [][2]string{
		{"core.fsmonitor", "false"},
		{"core.pager", "cat"},
		{"core.editor", "true"},
		{"sequence.editor", "true"},
		{"core.sshCommand", "ssh"},
		{"core.gitProxy", ""},
		{"core.askPass", ""},
		{"core.alternateRefsCommand", "true"},
		{"credential.helper", ""}, // empties the list
		{"gpg.program", "gpg"},
		{"gpg.openpgp.program", "gpg"},
		{"gpg.ssh.program", "ssh-keygen"},
		{"gpg.x509.program", "gpgsm"},
		{"gpg.ssh.defaultKeyCommand", ""},
		{"log.showSignature", "false"},
		{"interactive.diffFilter", "cat"},
		{"protocol.ext.allow", "never"},
		{"safe.bareRepository", "explicit"}, // none that lies in another one
	}
}

// neutralGit starts git in a command so that these settings of a repository have
// no effect, whoever wrote them. What the owner sets in the environment stays.
func neutralGit(cmd *exec.Cmd) {
	const counter = "GIT_CONFIG_COUNT="
	n := 0
	env := slices.DeleteFunc(slices.Clone(cmd.Env), func(kv string) bool {
		value, ok := strings.CutPrefix(kv, counter)
		if own, err := strconv.Atoi(value); ok && err == nil && own > 0 {
			n = own
		}
		return ok
	})
	for _, setting := range neutralSettings() {
		env = append(env, "GIT_CONFIG_KEY_"+strconv.Itoa(n)+"="+setting[0], "GIT_CONFIG_VALUE_"+strconv.Itoa(n)+"="+setting[1])
		n++
	}
	cmd.Env = append(env, counter+strconv.Itoa(n))
}

// readsOutside reports whether a command can read files from outside, also where
// nothing confines it.
func (t *tracker) readsOutside(c tool.Call) bool {
	if c.Tainted {
		return true
	}

	rec, err := t.record(c)
	if err != nil || rec == nil {
		return true
	}

	dir := c.Project.Dir
	if dir == "" {
		dir = t.jail.Workspace()
	}
	return rec.Example(dir) != "" || hasEntries(t.share)
}

func hasEntries(dir string) bool {
	if dir == "" {
		return false
	}
	list, err := os.ReadDir(dir)
	return err == nil && len(list) > 0
}

// keepShare returns the folder that guests read, if a command must not write to
// it, and the folders above it: what runs there unseen could otherwise take the
// owner's files to where guests find them. A clean turn of a person who can be
// asked writes there; the files from outside that it runs are asked about.
func (f *confiner) keepShare(c tool.Call, folder string) (closed, above []string) {
	share := f.places.share
	if share == "" || !c.Tainted && c.Ask != nil || !diskio.Within(share, resolved(folder)) {
		return nil, nil
	}
	if err := diskio.MkdirAll(share, 0o700); err != nil {
		return nil, nil // something else has its name, and guests do not reach it either
	}

	for dir := filepath.Dir(share); dir != resolved(folder) && diskio.Within(dir, resolved(folder)); dir = filepath.Dir(dir) {
		above = append(above, dir)
	}
	return []string{share}, above
}
