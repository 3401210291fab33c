package diskio

import (
	"runtime"
	"strings"
)

// Limits on names. They are the usual ones of the platforms; a longer name is
// a mistake or an attack, and asking the system only gives a vaguer error.
const (
	maxPathBytes = 4096
	maxNameBytes = 255
)

// checkName refuses names that no platform can use and, on Windows, those that
// mean something other than a file in a directory.
func checkName(name string) error {
	switch {
	case name == "":
		return refuse("(empty)", ErrBadName, "a path is needed")
	case strings.ContainsRune(name, 0):
		return refuse(strings.ReplaceAll(name, "\x00", `\0`), ErrBadName, "contains a NUL byte")
	case len(name) > maxPathBytes:
		return refuse(name[:64]+"...", ErrBadName, "longer than %d bytes", maxPathBytes)
	}

	start := 0
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		if i-start > maxNameBytes {
			return refuse(name[start:start+64]+"...", ErrBadName, "a name longer than %d bytes", maxNameBytes)
		}
		start = i + 1
	}

	if runtime.GOOS == "windows" {
		return checkWindowsName(name)
	}
	return nil
}

// checkWindowsName refuses the spellings by which Windows reaches devices,
// other hosts, alternate streams or another file than the one named.
func checkWindowsName(name string) error {
	p := strings.ReplaceAll(name, "/", `\`)
	if strings.HasPrefix(p, `\\`) || strings.HasPrefix(p, `\??\`) {
		return refuse(name, ErrBadName, "network and device paths are not allowed")
	}

	if len(p) >= 2 && p[1] == ':' {
		letter := p[0] | 0x20
		if letter < 'a' || letter > 'z' {
			return refuse(name, ErrBadName, "not a drive letter")
		}
		if len(p) == 2 || p[2] != '\\' {
			return refuse(name, ErrBadName, "paths relative to a drive's current directory are not allowed")
		}
		p = p[2:]
	}

	for part := range strings.SplitSeq(p, `\`) {
		if part == "" || part == "." || part == ".." {
			continue
		}
		if strings.ContainsAny(part, `:<>"|?*`) {
			return refuse(name, ErrBadName, "contains a character Windows does not allow in names")
		}
		if strings.HasSuffix(part, ".") || strings.HasSuffix(part, " ") {
			return refuse(name, ErrBadName, "a name must not end in a dot or space")
		}
		if reservedWindowsName(part) {
			return refuse(name, ErrBadName, "names a Windows device")
		}
	}

	return nil
}

func reservedWindowsName(part string) bool {
	stem, _, _ := strings.Cut(part, ".")
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}

	for _, dev := range []string{"COM", "LPT"} {
		if rest, ok := strings.CutPrefix(stem, dev); ok {
			switch rest {
			case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
				return true
			}
		}
	}

	return false
}
