package auth

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

const serveDoc = "auth/mcp-serve.token"

// ListenerToken reads the token of a listener from a file, or for "" from the
// state, where it makes one that stays the same from start to start.
func ListenerToken(ctx context.Context, file string, state store.Store) (token httpsafe.Secret, where string, err error) {
	var b []byte
	if file != "" {
		b, err = os.ReadFile(file)
	} else {
		file = state.Where(serveDoc)
		err = store.Update(ctx, state, serveDoc, func(old []byte) ([]byte, error) {
			if b = old; len(old) > 0 {
				return nil, nil
			}
			b = []byte(rand.Text() + rand.Text() + "\n")
			return b, nil
		})
	}

	if err != nil {
		return httpsafe.Secret{}, "", fmt.Errorf("read the token: %w", err)
	}
	return httpsafe.NewSecret(strings.TrimSpace(string(b))), file, nil
}
