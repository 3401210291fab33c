package chat

import (
	"net/http"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// Client makes an HTTP client that reaches the addresses in a platform's section.
// An empty proxy means the one of the environment. The error, which is fatal,
// names the setting.
func Client(proxy string) (*http.Client, error) {
	c, err := httpsafe.Client(httpsafe.Options{Proxy: proxy})
	if err != nil {
		return nil, Fatal(err)
	}
	return c, nil
}
