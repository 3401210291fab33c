package shell

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// envKey returns the spelling under which a variable is stored: Windows does not
// distinguish case.
func envKey(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

func environment(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, kv := range environ {
		// Windows keeps drive directories in names that start with "=".
		if k, v, ok := strings.Cut(kv, "="); ok && k != "" {
			m[envKey(k)] = v
		}
	}
	return m
}

func home(vars map[string]string) string {
	if runtime.GOOS == "windows" {
		return vars["USERPROFILE"]
	}
	if h := vars["HOME"]; h != "" {
		return h
	}
	return "/tmp"
}

var variableName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// childEnv builds the environment of commands, without what Options.Programs adds. Nothing of the agent's
// environment gets in but what is named here or in AllowedEnv, because that is
// where its keys are.
func childEnv(o Options, vars map[string]string) ([]string, error) {
	var env []string
	set := func(k, v string) { env = append(env, k+"="+v) }
	or := func(k, fallback string) string {
		if v := vars[k]; v != "" {
			return v
		}
		return fallback
	}

	path, later := SystemPath(), o.Programs != nil
	if runtime.GOOS == "windows" {
		path = or("PATH", path)
		for _, k := range windowsVariables() {
			if v, ok := vars[envKey(k)]; ok {
				set(k, v)
			}
		}
	} else {
		set("LANG", or("LANG", "C.UTF-8"))
		if !o.Sandboxed { // the sandbox makes folders of its own
			set("HOME", home(vars))
			if tmp := vars["TMPDIR"]; tmp != "" {
				set("TMPDIR", tmp)
			}
		}
	}

	for _, k := range o.AllowedEnv {
		if !variableName().MatchString(k) {
			return nil, fmt.Errorf("exec allowedEnvKeys: %q is not the name of a variable", k)
		}

		v, ok := vars[envKey(k)]
		switch {
		case !ok || envKey(k) == markVariable:
		case envKey(k) == "PATH":
			path, later = v, false
		default:
			set(k, v)
		}
	}

	for _, extra := range []string{o.PathPrepend, o.PathAppend} {
		if strings.ContainsRune(extra, 0) {
			return nil, fmt.Errorf("exec path %q contains a NUL byte", extra)
		}
	}

	if !later { // else it is asked for with each command
		set("PATH", joinPath(o.PathPrepend, path, o.PathAppend))
	}

	// Programs that would page, colour, ask or buffer only disturb here.
	set("TERM", "dumb")
	set("NO_COLOR", "1")
	set("PAGER", "cat")
	set("GIT_PAGER", "cat")
	set("GIT_TERMINAL_PROMPT", "0")
	set("PYTHONUNBUFFERED", "1")
	return env, nil
}

// withVariable returns a copy of env in which a variable has a certain value.
func withVariable(env []string, name, value string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	return append(out, name+"="+value)
}

func joinPath(lists ...string) string {
	var parts []string
	for _, l := range lists {
		if l != "" {
			parts = append(parts, l)
		}
	}
	return strings.Join(parts, string(os.PathListSeparator))
}

// SystemPath returns where every machine keeps its programs.
func SystemPath() string {
	switch runtime.GOOS {
	case "windows":
		return `C:\Windows\System32;C:\Windows`
	case "darwin":
		return "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
	default:
		return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
}

func windowsVariables() []string {
	return []string{
		"SYSTEMROOT", "COMSPEC", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "TEMP", "TMP", "PATHEXT", "APPDATA",
		"LOCALAPPDATA", "ProgramData", "ProgramFiles", "ProgramFiles(x86)", "ProgramW6432",
	}
}
