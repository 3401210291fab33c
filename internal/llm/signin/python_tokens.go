package signin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// foreign is a place where another program may have left a token.
type foreign struct {
	path string
	// borrowed tokens stay with their program: they are used while they last
	// and neither copied nor renewed, because renewing would sign the other
	// program out.
	borrowed bool
	read     func(data []byte, modified time.Time) token
	token    token
}

// pythonFolder returns where the Python program kept its data for an
// application.
func pythonFolder(o Options, application string) string {
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(o.Home, "Library", "Application Support", application, "auth")
	case "windows":
		if dir := o.Getenv("LOCALAPPDATA"); dir != "" {
			return filepath.Join(dir, application, "auth")
		}
		return filepath.Join(o.Home, "AppData", "Local", application, "auth")
	}

	if dir := o.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, application, "auth")
	}
	return filepath.Join(o.Home, ".local", "share", application, "auth")
}

// pythonPlaces lists the Python program's token file. One variable moves the
// files of all its providers to one path, so what is found there must look
// like a token of this provider.
func pythonPlaces(o Options, application, file string, renews bool) []foreign {
	if o.Home == "" {
		return nil
	}

	read := func(data []byte, _ time.Time) token {
		var t token
		if json.Unmarshal(data, &t) != nil || t.Keyring || (t.Refresh != "") != renews {
			return token{}
		}
		return t
	}
	if path := o.Getenv("OAUTH_CLI_KIT_TOKEN_PATH"); path != "" {
		return []foreign{{path: path, read: read}}
	}
	return []foreign{{path: filepath.Join(pythonFolder(o, application), file), read: read}}
}

func codexForeign(o Options) []foreign {
	places := pythonPlaces(o, "oauth-cli-kit", "codex.json", true)
	if o.Home == "" {
		return places
	}
	dir := o.Getenv("CODEX_HOME")
	if dir == "" {
		dir = filepath.Join(o.Home, ".codex")
	}
	return append(places, foreign{path: filepath.Join(dir, "auth.json"), borrowed: true, read: codexCLI})
}

// codexCLI reads the token file of the Codex CLI, without its refresh token.
func codexCLI(data []byte, modified time.Time) token {
	var f struct {
		Tokens struct {
			Access    string `json:"access_token"`
			ID        string `json:"id_token"`
			AccountID string `json:"account_id"`
		} `json:"tokens"`
	}
	if json.Unmarshal(data, &f) != nil || f.Tokens.Access == "" {
		return token{}
	}

	t := token{Access: f.Tokens.Access, AccountID: f.Tokens.AccountID, Expires: modified.Add(time.Hour).UnixMilli()}
	if exp, ok := claims(t.Access)["exp"].(float64); ok {
		t.Expires = int64(exp) * 1000
	}
	if t.AccountID == "" {
		t.AccountID = codexAccount(f.Tokens.ID, f.Tokens.Access)
	}
	return t
}

func copilotForeign(o Options) []foreign {
	return pythonPlaces(o, "nanobot", "github-copilot.json", false)
}

// elsewhere finds a token that another program left and that may still be used.
func (s *tokenStore) elsewhere() (foreign, bool) {
	if i, err := s.doc.Store.Stat(context.Background(), s.mark); err == nil && i.Exists() {
		return foreign{}, false
	}

	for _, f := range s.foreign {
		data, err := os.ReadFile(f.path)
		if err != nil {
			continue
		}

		fi, err := os.Stat(f.path)
		if err != nil {
			continue
		}
		if f.token = f.read(data, fi.ModTime()); f.token.Access != "" {
			return f, true
		}
	}

	return foreign{}, false
}

// loadOrImport reads the token; when there is none it takes over what the
// Python program left, once. The caller holds the lock.
func (s *tokenStore) loadOrImport(ctx context.Context) (token, error) {
	t, err := s.load(ctx)
	if !errors.Is(err, errNotSignedIn) {
		return t, err
	}

	f, ok := s.elsewhere()
	switch {
	case !ok:
		return token{}, err
	case f.borrowed:
		return f.token, nil
	}

	if err := s.save(ctx, f.token); err != nil {
		return token{}, err
	}
	if err := s.ignore(ctx); err != nil {
		return token{}, err
	}
	return f.token, nil
}
