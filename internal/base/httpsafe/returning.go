package httpsafe

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// ServeReturn answers a browser that comes back from a login to this machine,
// until the returned function is called. It closes the listeners.
func ServeReturn(ctx context.Context, h http.Handler, ls ...net.Listener) (stop func()) {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10}
	var wg sync.WaitGroup
	for _, l := range ls {
		wg.Go(func() { _ = srv.Serve(l) }) // ends with ErrServerClosed
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
		wg.Wait()
	}
}

// WriteReturn writes the page such a browser ends at. Nothing of it is kept, and
// its address, which holds a code, goes nowhere. The text is not escaped.
func WriteReturn(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<!doctype html><title>nanobot</title><p>"+text+"</p>\n") // the browser may be gone
}
