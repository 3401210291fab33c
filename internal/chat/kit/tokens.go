package kit

import (
	"context"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/oauth"
)

// Tokens are those that an app gets for its secret. One request is enough for all who need
// one at the same time.
type Tokens struct{ source *oauth.Source[appToken] }

type appToken struct {
	value string
	until time.Time
}

// NewTokens begins without a token. Fetch gets one and says how long it is good; it is replaced
// that early before its end.
func NewTokens(now func() time.Time, early time.Duration, fetch func(ctx context.Context) (token string, life time.Duration, err error)) *Tokens {
	return &Tokens{oauth.NewSource(oauth.SourceOptions[appToken]{
		Key:   func(t appToken) string { return t.value },
		Fresh: func(t appToken) bool { return t.value != "" && now().Before(t.until) },
		Renew: func(ctx context.Context, _ string) (appToken, error) {
			value, life, err := fetch(ctx)
			if err != nil {
				return appToken{}, err
			}
			return appToken{value, now().Add(max(life-early, time.Second))}, nil
		},
	})}
}

// Get returns a token that is good and not the refused one. It serves as REST.Token.
func (t *Tokens) Get(ctx context.Context, refused string) (string, error) {
	got, err := t.source.Get(ctx, refused)
	return got.value, err
}

// Forget makes the next Get fetch another token.
func (t *Tokens) Forget() { t.source.Put(appToken{}) }
