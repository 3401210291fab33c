package httpsafe

import (
	"net/http"
	"strings"
)

// Forwarded reports whether a request bears a mark of somebody who passed it
// on. Such a request may come from anywhere, although the connection it came
// over begins on this machine. Proxies that leave no mark are not recognised.
func Forwarded(h http.Header) bool {
	for name := range h {
		switch name {
		case "Forwarded", "Via", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "X-Client-Ip":
			return true
		}
		if strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}
