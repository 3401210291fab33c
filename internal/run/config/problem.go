package config

import (
	"errors"
	"fmt"
	"strings"
)

// Kind says what made a configuration unusable.
type Kind string

// The kinds of an Error.
const (
	InvalidJSON   Kind = "invalid_json"
	InvalidRoot   Kind = "invalid_root"
	InvalidSchema Kind = "invalid_schema"
	MissingEnv    Kind = "missing_env"
	IOError       Kind = "io_error"
)

// ErrChanged is returned by File.Save when the file was changed by another
// program after it was read.
var ErrChanged = errors.New("the file was changed by another program since it was read; nothing was written")

// maxIssues is how many issues an error text lists before "N more".
const maxIssues = 10

// Problem is one finding. It never quotes an input value, because any value
// may be a credential put in the wrong place.
type Problem struct {
	Path    string `json:"path,omitempty"` // dotted location; parts that do not look like names are hidden
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`   // what to do about it, such as a similar name; may be empty
	Line    int    `json:"line,omitempty"`   // 1-based, 0 when the value is not from the file
	Column  int    `json:"column,omitempty"` // 1-based, in characters
	Env     string `json:"env,omitempty"`    // environment variable the value came from, if any
	Unknown bool   `json:"-"`                // an unknown key: harmless at start, an error when strict
	at      string // the real path; see joinPath
}

// String returns the finding in one line.
func (p Problem) String() string {
	var b strings.Builder
	if p.Path != "" {
		b.WriteString(p.Path)
		b.WriteString(": ")
	}

	b.WriteString(p.Message)
	switch {
	case p.Env != "":
		fmt.Fprintf(&b, " (from %s)", p.Env)
	case p.Line > 0:
		fmt.Fprintf(&b, " (line %d, column %d)", p.Line, p.Column)
	}

	if p.Hint != "" {
		b.WriteString("; ")
		b.WriteString(p.Hint)
	}
	return b.String()
}

// Error is a configuration that cannot be used. Error() is the whole text for
// a person, several lines long.
type Error struct {
	Kind    Kind
	File    string
	Issues  []Problem // all of them; the text shows the first 10
	Unknown []Problem // unknown keys of the same file, often the reason; with a similar name
	Excerpt string    // the line of the first issue with a caret, values hidden
	Advice  string    // what to do next; may be empty
	cause   error
}

// Unwrap returns the cause of an io_error.
func (e *Error) Unwrap() error { return e.cause }

// Error implements error with the full text.
func (e *Error) Error() string {
	var b strings.Builder
	switch e.Kind {
	case InvalidJSON:
		b.WriteString("config file is not valid JSON")
	case InvalidRoot:
		b.WriteString("config file does not hold a JSON object")
	case MissingEnv:
		b.WriteString("config refers to values that are not there")
	case IOError:
		b.WriteString("config file cannot be read")
	default:
		b.WriteString("config has settings that cannot be used")
	}

	if e.File != "" {
		fmt.Fprintf(&b, ": %s", e.File)
	}

	for i, p := range e.Issues {
		if i == maxIssues {
			fmt.Fprintf(&b, "\n  ... %d more", len(e.Issues)-maxIssues)
			break
		}
		fmt.Fprintf(&b, "\n  %s", p)
	}

	for _, p := range e.Unknown {
		fmt.Fprintf(&b, "\n  %s", p)
	}

	if e.Excerpt != "" {
		b.WriteString("\n\n" + e.Excerpt)
	}
	if e.Advice != "" {
		b.WriteString("\n" + e.Advice)
	}
	return b.String()
}

// plainPart reports whether a path part is a list index or looks like a name:
// a letter or underscore, then at most 63 letters, digits, underscores, dashes.
// A short one may have dots, as slack.work has.
func plainPart(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	if strings.Trim(s, "0123456789") == "" {
		return len(s) <= 6
	}

	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		dot := c == '.' && len(s) <= 32
		if !letter && (i == 0 || !dot && c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}

	return true
}

// showPath joins path parts for people. A part that does not look like a name
// is hidden: it may be a value that slipped into a key.
func showPath(parts []string) string {
	out := make([]string, len(parts))
	for i, p := range parts {
		if plainPart(p) {
			out[i] = p
		} else {
			out[i] = "<hidden>"
		}
	}
	return strings.Join(out, ".")
}
