package bedrock

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// maxFile bounds a file of settings and what a credential process may print.
const maxFile = 1 << 20

// readProfile merges what both shared files say of a profile; the credentials
// file wins. Files that do not exist say nothing, and neither does a profile
// that is not in them.
func (k *keyring) readProfile(name string) (p *profile, exists bool, err error) {
	all, err := k.readShared()
	if err == nil {
		p, err = all.profile(name, map[string]bool{})
	}

	if errors.Is(err, errNoProfile) {
		return &profile{}, false, nil
	}
	if err != nil {
		return &profile{}, false, fmt.Errorf("read AWS settings: %w", err)
	}
	return p, true, nil
}

// sharedFile returns where one of the shared files lies; "" means nowhere.
func (k *keyring) sharedFile(env, base string) string {
	path := k.getenv(env)
	rest, below := strings.CutPrefix(path, "~/")
	switch {
	case path != "" && !below:
		return path
	case k.home == "":
		return ""
	case below:
		return filepath.Join(k.home, rest)
	}

	return k.awsFile(base)
}

// awsFile returns a file of the vendor's tools below the home folder.
func (k *keyring) awsFile(name ...string) string {
	return filepath.Join(append([]string{k.home, ".aws"}, name...)...)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxFile))
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
// quote or a blank, so that backslashes in paths of Windows need not be
// doubled.
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
				args = append(args, string(cur))
				cur = nil
				begun = false
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
