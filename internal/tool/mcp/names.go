package mcp

import (
	"crypto/sha1" //nolint:gosec // a short name, not a signature; the form is given by the format of names
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// maxName is the longest name of a tool that all providers accept, in bytes.
const maxName = 64

// kind says what a server offers.
type kind string

const (
	kindTool     kind = ""
	kindResource kind = "resource"
	kindPrompt   kind = "prompt"
)

func (k kind) label() string {
	if k == kindTool {
		return "tool"
	}
	return string(k)
}

// offeredName returns the name under which the model knows something of a server,
// before collisions are looked at. The prefix keeps it apart from the names of
// built-in tools, whatever a server calls its own.
func offeredName(server string, k kind, raw string) string {
	full := "mcp_" + server + "_"
	if k != kindTool {
		full += string(k) + "_"
	}

	full += raw
	name := plainName(full)
	if len(name) <= maxName {
		return name
	}

	sum := sha1.Sum([]byte(full)) //nolint:gosec // see above
	return name[:maxName-9] + "_" + hex.EncodeToString(sum[:4])
}

// plainName keeps letters, digits, _ and -; anything else becomes _, and
// neighbouring underscores become one.
func plainName(s string) string {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
			out = append(out, byte(r)) //nolint:gosec // ASCII, see above
		case len(out) == 0 || out[len(out)-1] != '_':
			out = append(out, '_')
		}
	}

	return string(out)
}

// identity holds what stays the same about an offer whatever it is called.
type identity struct {
	server string
	kind   kind
	raw    string
}

func (id identity) suffix() string {
	sum := sha256.Sum256([]byte(id.server + "\x00" + string(id.kind) + "\x00" + id.raw))
	return hex.EncodeToString(sum[:4])
}

// uniqueNames gives every identity a name of its own. All that would share one
// get a suffix, so that none of them can pass as another, and so does what
// would be called like a tool that is not ours. The result does not depend on
// the order. An identity that cannot be told from another has no name.
func uniqueNames(ids []identity, reserved []string) map[identity]string {
	wanted := map[string][]identity{}
	for _, id := range ids {
		name := offeredName(id.server, id.kind, id.raw)
		if !slices.Contains(wanted[name], id) {
			wanted[name] = append(wanted[name], id)
		}
	}

	taken := map[string]int{}
	for _, r := range reserved {
		taken[r] = 2 // never free
	}

	names := map[identity]string{}
	for name, group := range wanted {
		for _, id := range group {
			n := name
			if len(group) > 1 || taken[name] > 1 {
				n = name[:min(len(name), maxName-9)] + "_" + id.suffix()
			}
			names[id] = n
		}
	}

	for _, n := range names {
		taken[n]++
	}

	for id, n := range names {
		if taken[n] > 1 {
			delete(names, id)
		}
	}
	return names
}
