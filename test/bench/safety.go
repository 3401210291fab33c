package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/web"
)

// exec compares a command in each sandbox with the same command alone.
func (b *bench) exec() error {
	// Not below the temporary directory, where no workspace is: each command has
	// one of its own there, in which the way to the workspace would be made.
	ws, err := os.MkdirTemp("/var/tmp", "nanobot-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(ws)
	for _, c := range []struct {
		mode    sandbox.Mode
		network sandbox.Network
	}{{sandbox.Auto, sandbox.NetHost}, {sandbox.Auto, sandbox.NetNone}, {sandbox.Bwrap, sandbox.NetHost}} {
		what := fmt.Sprintf("a command (`bash -c true`) in sandbox %s, network %s", c.mode, c.network)
		limit := fmt.Sprintf("at most %v more", b.budget.ExecOverhead.time())
		box, err := sandbox.Open(context.Background(), sandbox.Options{Mode: c.mode, Self: b.binary})
		if err != nil {
			b.rows = append(b.rows, row{what, "not measured", err.Error(), limit, ""})
			continue
		}
		var plain, confined, bare []time.Duration
		for range b.times(200, 40) { // in turns, so that all see the same machine
			alone, err := timed(nil, ws, sandbox.Profile{})
			if err != nil {
				return err
			}
			inside, err := timed(box, ws, sandbox.Profile{Workspace: ws, Network: c.network})
			if err != nil {
				return err
			}
			plain, confined = append(plain, alone), append(confined, inside)
			if c.mode == sandbox.Bwrap {
				only, err := timedBwrap(ws)
				if err != nil {
					return err
				}
				bare = append(bare, only)
			}
		}
		more := median(confined) - median(plain)
		ours, floor := fmt.Sprintf("%s, %s more", ms(median(confined)), ms(more)), ms(median(plain))+" alone"
		if len(bare) > 0 {
			floor += fmt.Sprintf(", %s in bubblewrap without us", ms(median(bare)))
		}
		b.add(what, ours, floor, limit, more <= b.budget.ExecOverhead.time())
	}
	return b.execTool()
}

// timed runs a command that does nothing, in the box if there is one.
func timed(box *sandbox.Box, ws string, p sandbox.Profile) (time.Duration, error) {
	start := time.Now()
	cmd := exec.Command("/bin/bash", "-c", "true")
	cmd.Dir, cmd.Env = ws, []string{"PATH=/usr/bin:/bin", "HOME=" + ws}
	cleanup := func() {}
	if box != nil {
		var err error
		if cleanup, err = box.Wrap(cmd, p); err != nil {
			return 0, err
		}
	}
	err := cmd.Run()
	cleanup()
	return time.Since(start), err
}

// timedBwrap runs the same command in bubblewrap alone, with the same namespaces
// and hardly any files.
func timedBwrap(ws string) (time.Duration, error) {
	start := time.Now()
	cmd := exec.Command("bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--cap-drop", "ALL", "--as-pid-1", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--bind", ws, ws, "/bin/bash", "-c", "true")
	cmd.Dir, cmd.Env = ws, []string{"PATH=/usr/bin:/bin", "HOME=" + ws}
	err := cmd.Run()
	return time.Since(start), err
}

// fetch measures web_fetch from the call to the Markdown, against a server on
// loopback that sends the page at once.
func (b *bench) fetch() error {
	pages := map[string][]byte{}
	sizes := []int{100 << 10, 1 << 20, 4 << 20}
	for _, size := range sizes {
		pages[fmt.Sprint("/", size)] = webPage(size)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(pages[r.URL.Path]) // the client reports what is missing
	}))
	defer srv.Close()
	list, err := web.New(web.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		return err
	}
	set, err := tool.NewSet(list...)
	if err != nil {
		return err
	}
	took := map[int]time.Duration{}
	for _, size := range sizes {
		var all []time.Duration
		for i := range b.times(40, 10) {
			start := time.Now()
			out, err := call(set, "web_fetch", map[string]any{"url": fmt.Sprintf("%s/%d?%d", srv.URL, size, i)})
			if err != nil {
				return err
			}
			all = append(all, time.Since(start))
			if !strings.Contains(out, "paragraph") {
				return fmt.Errorf("web_fetch: %.200s", out)
			}
		}
		took[size] = median(all)
	}
	perByte := func(size int) float64 { return float64(took[size].Nanoseconds()) / float64(size) }
	small, large := perByte(sizes[0]), perByte(sizes[2])
	b.add("web_fetch of a page of 1 MiB, from the call to Markdown", ms(took[sizes[1]]), "", fmt.Sprint("<= ", b.budget.WebFetch.time()), took[sizes[1]] <= b.budget.WebFetch.time())
	b.add("the same per byte, 4 MiB against 100 KiB", fmt.Sprintf("%.1f ns, %.2fx", large, large/small), fmt.Sprintf("%.1f ns", small), "<= 1.5x", large <= 1.5*small)
	return nil
}

// webPage is an article with what surrounds it, as on ordinary sites.
func webPage(size int) []byte {
	var p strings.Builder
	p.WriteString("<!doctype html><html><head><title>A long article</title></head><body><nav><ul>")
	for i := range 40 {
		fmt.Fprintf(&p, `<li class="item"><a href="/section/%d">Section %d</a></li>`, i, i)
	}
	p.WriteString("</ul></nav><main><article><h1>A long article</h1>")
	for i := 0; p.Len() < size-200; i++ {
		fmt.Fprintf(&p, `<h2 id="h%d">Part %d</h2><p class="text" style="margin:0">This is paragraph %d with a <a href="/x/%d?y=1">link</a>, some <b>bold</b> and <em>other</em> words, and &amp; an entity. It goes on for a while, so that there is something to read.</p><ul><li>one</li><li>two <code>x := %d</code></li></ul>`, i, i, i, i, i)
	}
	p.WriteString("</article></main><footer>end</footer></body></html>")
	return []byte(p.String())
}
