package bedrock

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// maxFile bounds a file of settings and what a credential process may print.
const maxFile = 1 << 20

// readProfile merges what both shared files say of a profile; the credentials
// file wins. Files that do not exist say nothing.
func (k *keyring) readProfile(name string) (map[string]string, error) {
	out := map[string]string{}
	for _, f := range []struct {
		env, base string
		sections  []string
	}{
		{"AWS_CONFIG_FILE", "config", []string{"profile " + name}},
		{"AWS_SHARED_CREDENTIALS_FILE", "credentials", []string{name}},
	} {
		if name == "default" {
			f.sections = []string{"default", "profile default"}
		}
		path := k.getenv(f.env)
		if path == "" {
			if k.home == "" {
				continue
			}
			path = filepath.Join(k.home, ".aws", f.base)
		} else if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(k.home, rest)
		}
		data, err := readFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read AWS settings: %w", err)
		}
		all := parseINI(data)
		for _, s := range f.sections {
			maps.Copy(out, all[s])
		}
	}
	return out, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// parseINI reads the vendor's dialect: keys in sections, # and ; comments, and
// values of nested settings on deeper lines, which are skipped.
func parseINI(data []byte) map[string]map[string]string {
	data = bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))
	all := map[string]map[string]string{}
	var section map[string]string
	depth := -1 // of the last key; deeper lines belong to it
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSpace(line)
		if text == "" || text[0] == '#' || text[0] == ';' {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		if text[0] == '[' {
			head, _, _ := strings.Cut(text[1:], "]")
			name := sectionName(head)
			if all[name] == nil {
				all[name] = map[string]string{}
			}
			section, depth = all[name], -1
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		if section == nil || !ok || depth >= 0 && indent > depth {
			continue
		}
		depth = indent
		section[strings.ToLower(strings.TrimSpace(key))] = uncomment(strings.TrimSpace(value))
	}
	return all
}

// sectionName makes one form of [profile x], [profile "x"] and [ profile  x ].
func sectionName(s string) string {
	kind, name, ok := strings.Cut(strings.TrimSpace(s), " ")
	if !ok {
		return strings.Trim(kind, `"'`)
	}
	return kind + " " + strings.Trim(strings.TrimSpace(name), `"'`)
}

// uncomment cuts a comment that a blank separates from the value.
func uncomment(v string) string {
	for i := 1; i < len(v); i++ {
		if (v[i] == '#' || v[i] == ';') && (v[i-1] == ' ' || v[i-1] == '\t') {
			return strings.TrimSpace(v[:i])
		}
	}
	return v
}

// keyJSON is how processes and metadata endpoints write credentials.
type keyJSON struct {
	Version         int
	Code            string
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string // processes
	Token           string // endpoints
	Expiration      string
}

func parseKey(data []byte, source string) (credentials, error) {
	var w keyJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return credentials{}, fmt.Errorf("%s: the answer is not JSON", source) // err could quote a secret
	}
	c := credentials{
		id: w.AccessKeyID, secret: httpsafe.NewSecret(w.SecretAccessKey),
		token: httpsafe.NewSecret(cmp.Or(w.SessionToken, w.Token)), source: source,
	}
	if !c.complete() || w.Code != "" && w.Code != "Success" {
		return credentials{}, fmt.Errorf("%s: the answer holds no credentials %s", source, w.Code)
	}
	if w.Expiration != "" {
		at, err := time.Parse(time.RFC3339, w.Expiration)
		if err != nil {
			return credentials{}, fmt.Errorf("%s: unreadable expiration %q", source, w.Expiration)
		}
		c.expires = at
	}
	return c, nil
}

// runProcess runs a profile's credential_process, without a shell.
func runProcess(ctx context.Context, line, profile string) (credentials, error) {
	source := "credential_process of profile " + profile
	args, err := splitCommand(line)
	if err != nil {
		return credentials{}, fmt.Errorf("%s: %w", source, err)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // the user's own profile names it
	cmd.WaitDelay = time.Second
	stdout, stderr := &capped{left: maxFile}, &capped{left: 512}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		return credentials{}, fmt.Errorf("%s: %w: %s", source, err, strings.TrimSpace(stderr.String()))
	}
	return parseKey(stdout.Bytes(), source)
}

// capped keeps the first bytes written to it and drops the rest.
type capped struct {
	bytes.Buffer

	left int
}

func (c *capped) Write(p []byte) (int, error) {
	keep := p[:min(len(p), c.left)]
	c.left -= len(keep)
	_, _ = c.Buffer.Write(keep)
	return len(p), nil
}

// splitCommand splits at blanks outside quotes. A backslash only protects a
// quote or a blank, so that paths of Windows need no doubling.
func splitCommand(line string) ([]string, error) {
	var args []string
	var cur []byte
	quote, begun := byte(0), false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(line) && strings.IndexByte(`"' `, line[i+1]) >= 0:
			i++
			cur, begun = append(cur, line[i]), true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, begun = c, true
		case quote == 0 && (c == ' ' || c == '\t'):
			if begun {
				args, cur, begun = append(args, string(cur)), nil, false
			}
		default:
			cur, begun = append(cur, c), true
		}
	}
	if begun {
		args = append(args, string(cur))
	}
	if quote != 0 || len(args) == 0 {
		return nil, errors.New("the command cannot be read")
	}
	return args, nil
}
