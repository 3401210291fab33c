package signin

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// token holds what a sign-in yields. Its JSON is the format of the token file.
type token struct {
	Access    string `json:"access,omitempty"`
	Refresh   string `json:"refresh"`
	Expires   int64  `json:"expires"` // milliseconds since 1970
	AccountID string `json:"account_id,omitempty"`
	Name      string `json:"name,omitempty"` // of the person, for status
	// Keyring says that the file only describes a token which the system
	// keyring holds.
	Keyring bool `json:"keyring,omitempty"`
}

// margin is how long before its end a token counts as expired, so that no
// request is sent with one that ends on the way.
const margin = time.Minute

func (t token) fresh() bool {
	return t.Access != "" && time.Until(time.UnixMilli(t.Expires)) > margin
}

// claims reads what a JSON web token says about itself. Its signature is not
// checked: it came from its issuer over TLS, and nothing is granted by it here.
func claims(jwt string) map[string]any {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return nil
	}

	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return nil
	}

	var m map[string]any
	if json.Unmarshal(b, &m) != nil {
		return nil
	}
	return m
}

// expiry returns when a new token ends: as the provider said, else when it
// says so itself, else after an hour.
func expiry(t *oauth2.Token) int64 {
	if !t.Expiry.IsZero() {
		return t.Expiry.UnixMilli()
	}
	if exp, ok := claims(t.AccessToken)["exp"].(float64); ok {
		return int64(exp) * 1000
	}
	return time.Now().Add(time.Hour).UnixMilli()
}
