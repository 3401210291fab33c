package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
)

// sessions looks for keys that people typed into conversations before keys were
// taken out of what is typed.
func (i *inspection) sessions(ctx context.Context) {
	const id = "sessions.keys"
	logs, err := session.Logs(ctx, i.l.DataDir)
	keys, places := map[string]string{}, 0
	for _, path := range logs {
		found, err2 := typedIn(path)
		err = errors.Join(err, err2)
		for _, key := range found {
			keys[key] = blank(key)
		}
		if len(found) > 0 {
			places++
		}
	}

	if err != nil {
		i.found(Check{
			ID: id, Severity: Low, Detail: "some stored conversations cannot be searched for keys: " + text.FirstLine(err.Error(), 0),
			Fix: "repair or remove the files in the message",
		})
	}

	if len(keys) == 0 {
		i.ok(id, "no stored conversation contains a key that was typed")
		return
	}

	i.found(Check{
		ID:       id,
		Severity: Medium,
		Detail:   fmt.Sprintf("stored conversations contain keys that were typed into chats (%d keys, %d files)", len(keys), places),
		Fix:      "remove them from the conversations; no copy is kept. Then replace the keys at their providers",
		Do: func(ctx context.Context) error {
			var errs []error
			for _, path := range logs {
				if _, err := session.Scrub(ctx, path, keys); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", path, err))
				}
			}
			return errors.Join(errs...)
		},
	})
}

// blank returns a text that stands for a key and is as long.
func blank(key string) string {
	if len(key) < len(httpsafe.TypedKey) {
		return strings.Repeat("*", len(key))
	}
	return httpsafe.TypedKey + strings.Repeat("*", len(key)-len(httpsafe.TypedKey))
}

// typedIn finds keys in what people said in a log. What models and tools said is
// full of texts that only look like keys.
func typedIn(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	defer f.Close() //nolint:errcheck // read only
	var keys []string
	for line, err := range diskio.Lines(f, 0) {
		if err != nil {
			return keys, err
		}
		if !bytes.Contains(line.Bytes, []byte(`"user"`)) {
			continue
		}

		var said struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
		}
		if json.Unmarshal(line.Bytes, &said) != nil || said.Role != "user" {
			continue
		}

		eachText(said.Content, func(s string) {
			if strings.HasPrefix(s, "data:") {
				return
			}
			_, found := httpsafe.TypedKeys(s)
			keys = append(keys, found...)
		})
	}

	return keys, nil
}

// eachText visits the texts in a value of JSON.
func eachText(v any, visit func(string)) {
	switch v := v.(type) {
	case string:
		visit(v)
	case []any:
		for _, it := range v {
			eachText(it, visit)
		}
	case map[string]any:
		for _, it := range v {
			eachText(it, visit)
		}
	}
}
