package api

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// MCPToken reads the token of a listener from a file, or for "" from the data
// folder, where it makes one that stays the same from start to start.
func MCPToken(file, data string) (httpsafe.Secret, string, error) {
	own := file == ""
	if own {
		file = filepath.Join(data, "auth", "mcp-serve.token")
	}
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && own:
		b = []byte(rand.Text() + rand.Text())
		if err := diskio.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return httpsafe.Secret{}, "", err
		}
		if err := diskio.WriteFile(file, append(b, '\n'), 0o600); err != nil {
			return httpsafe.Secret{}, "", fmt.Errorf("keep the token: %w", err)
		}
	case err != nil:
		return httpsafe.Secret{}, "", fmt.Errorf("read the token: %w", err)
	}
	return httpsafe.NewSecret(strings.TrimSpace(string(b))), file, nil
}
