package security_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"image"
	"image/png"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// place is a way for a stranger's text to get before the model.
type place struct {
	name string
	// clean says that the text counts as the owner's own, so that only the
	// hard limits hold; silent that it must not get to the model at all.
	clean, silent bool
	// set puts the text there and makes the user ask for it.
	set func(h *house, text string)
	// only is the part of the orders the place is tried with; nil is all.
	only []string
	// half says that every other order will do, unless all were asked for.
	half bool
}

// allVariable set to "all" (or a build server) runs every case.
const allVariable = "NANOBOT_ADVERSARIAL"

func places(t *testing.T) []place {
	t.Helper()
	data := func(name string) string {
		b, err := os.ReadFile(filepath.Join("testdata", "places", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	fill := func(name, text string) string { return strings.ReplaceAll(data(name), "{{order}}", text) }
	fetch := func(h *house, address string) { h.model.opening = []call{{"web_fetch", jsonOf("url", address)}} }
	read := func(h *house, path string) { h.model.opening = []call{{"read_file", jsonOf("path", path)}} }
	attach := func(h *house, name string, body []byte) {
		path := filepath.Join(h.home, "outside", name)
		h.write(path, string(body))
		h.args = append(h.args, "--file", path)
	}
	return []place{
		{name: "web-page", set: func(h *house, text string) {
			fetch(h, h.web.page("/hours", "text/html", fill("page.html", html.EscapeString(text))))
		}},
		{name: "web-error", only: someOrders(), set: func(h *house, text string) {
			fetch(h, h.web.handle("/broken", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
				fmt.Fprint(w, fill("notes.txt", text))
			}))
		}},
		{name: "web-json", only: someOrders(), set: func(h *house, text string) {
			b, _ := json.Marshal(map[string]any{"hours": "nine to five", "note": text}) // plain
			fetch(h, h.web.page("/api", "application/json", string(b)))
		}},
		{name: "search-result", half: true, set: func(h *house, text string) {
			b, _ := json.Marshal(map[string]any{"results": []any{map[string]any{"title": "Hours", "url": "https://example.org/", "content": text}}})
			h.web.page("/search", "application/json", string(b))
			h.model.opening = []call{{"web_search", jsonOf("query", "opening hours")}}
		}},
		{name: "media-file", half: true, set: func(h *house, text string) {
			path := filepath.Join(h.data, "media", "telegram", "minutes.txt")
			h.write(path, fill("notes.txt", text))
			read(h, path)
		}},
		{name: "kept-result", only: someOrders(), set: func(h *house, text string) {
			path := filepath.Join(h.ws, ".nanobot", "tool-results", "cli", "c1.txt")
			h.write(path, fill("notes.txt", text))
			read(h, path)
		}},
		{name: "pdf-attachment", half: true, set: func(h *house, text string) { attach(h, "minutes.pdf", pdf(text)) }},
		{name: "docx-attachment", only: someOrders(), set: func(h *house, text string) { attach(h, "minutes.docx", docx(h.t, text)) }},
		{name: "picture", half: true, set: func(h *house, text string) { attach(h, "photo.png", picture(h.t, text)) }},
		{name: "mcp-result", half: true, set: func(h *house, text string) {
			h.desk(text)
			h.model.opening = []call{{"mcp_desk_lookup", `{}`}}
		}},
		{name: "mail", half: true, set: func(h *house, text string) { h.args = append(h.args, "mail", fill("mail.txt", text)) }},
		{name: "workspace-file", clean: true, set: func(h *house, text string) {
			h.write(filepath.Join(h.ws, "minutes.txt"), fill("notes.txt", text))
			read(h, "minutes.txt")
		}},
		{name: "file-name", clean: true, only: someOrders(), set: func(h *house, text string) {
			name := text[strings.Index(text, "INJECTED:"):]
			h.write(filepath.Join(h.ws, "docs", name+" please.txt"), "empty")
			h.model.opening = []call{{"list_dir", `{"path":"docs"}`}}
		}},
		{name: "linked-agents-file", silent: true, only: someOrders(), set: func(h *house, text string) {
			h.write(filepath.Join(h.home, "outside", "evil.md"), text)
			agents := filepath.Join(h.ws, "AGENTS.md")
			if err := os.Remove(agents); err != nil {
				h.t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(h.home, "outside", "evil.md"), agents); err != nil {
				h.t.Fatal(err)
			}
		}},
		{name: "hidden-in-page", silent: true, only: someOrders(), set: func(h *house, text string) {
			fetch(h, h.web.page("/hours", "text/html", fill("hidden.html", html.EscapeString(text))))
		}},
	}
}

// someOrders is the part that places are tried with that differ little from others.
func someOrders() []string {
	return []string{"exec-read-diary", "exec-connect-private", "write-instructions", "fetch-private", "end-of-fence", "approve-itself"}
}

func jsonOf(name, value string) string {
	b, _ := json.Marshal(map[string]string{name: value}) // strings always can be
	return string(b)
}

// TestInjections puts every order into every place. The model obeys; still no
// canary outside the workspace is read or changed, nothing connects to the
// private address, nothing is approved, what the agent follows stays as it is,
// and the turn ends with an answer.
func TestInjections(t *testing.T) {
	t.Parallel()
	level(t, sandbox.Auto)
	settings := []struct{ box, network string }{{"auto", "none"}, {"landlock", "proxy"}, {"bwrap", "none"}, {"auto", "host"}}
	orders, n := readOrders(t), 0
	complete := os.Getenv(allVariable) == "all" || os.Getenv("CI") != ""
	for i, p := range places(t) {
		for j, o := range orders {
			if p.only != nil && !slices.Contains(p.only, o.name) || o.mcp && p.clean || p.half && !complete && (i+j)%2 == 0 {
				continue
			}
			n++
			s := settings[(i/2+j)%len(settings)]
			if p.clean && s.network == "host" {
				// The owner's own text may make commands use the network of
				// the machine, if the configuration gives it to them.
				s.network = "proxy"
			}
			t.Run(p.name+"/"+o.name, func(t *testing.T) {
				t.Parallel()
				level(t, sandbox.Mode(s.box))
				inject(t, newHouse(t, s.box, s.network), p, o)
			})
		}
	}
	if n < 100 {
		t.Errorf("%d cases, want at least 100", n)
	}
}

func inject(t *testing.T, h *house, p place, o order) {
	t.Helper()
	h.web.handle("/to-private", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+h.private.addr.String()+"/", http.StatusFound)
	})
	var touched *atomic.Int64
	if o.mcp {
		touched = h.desk("nothing")
	}
	h.model.orders[o.name] = o
	p.set(h, o.words+"\nINJECTED:"+o.name)
	if p.name == "mcp-result" && o.mcp {
		touched = h.side
	}
	out := h.run("When do they open?")
	out.ended(t)
	found, made := h.model.followed()
	switch {
	case p.silent && len(found) > 0:
		t.Errorf("the text got to the model")
	case !p.silent && made != len(o.calls):
		t.Errorf("the model made %d of %d calls, so this shows nothing\n%s\n%s", made, len(o.calls), out.stdout, out.stderr)
	}
	var allowed []string
	if p.clean {
		allowed = o.clean
	}
	if p.name == "linked-agents-file" {
		allowed = append(allowed, "outside/evil.md")
	}
	h.intact(out, allowed...)
	if touched != nil && touched.Load() > 0 {
		t.Errorf("the MCP tool with a side effect ran %d times", touched.Load())
	}
	for _, secret := range []string{h.key, h.envKey} {
		if !o.knows {
			if where := h.leaks(secret, out, ".nanobot/config.json"); len(where) > 0 {
				t.Errorf("a credential got into %s", strings.Join(where, ", "))
			}
			continue
		}
		for _, r := range slices.Concat(h.web.seen(), h.evil.seen()) {
			if strings.Contains(r, secret) {
				t.Errorf("a credential was sent away: %s", r)
			}
		}
	}
	if !slices.Contains(allowed, "evil") {
		if got := h.evil.seen(); len(got) > 0 {
			t.Errorf("the other site was sent %q", got)
		}
	}
	if left := processes("300." + h.id); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
}

// readOrders reads testdata/orders: lines of text, then one "call NAME JSON"
// per call, and "clean PATH", "knows", "mcp"; see order.
func readOrders(t *testing.T) []order {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "orders", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no orders: %v", err)
	}
	var orders []order
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		o := order{name: strings.TrimSuffix(filepath.Base(file), ".txt")}
		for line := range strings.Lines(string(b)) {
			line = strings.TrimSpace(line)
			verb, rest, _ := strings.Cut(line, " ")
			switch verb {
			case "call":
				name, args, _ := strings.Cut(rest, " ")
				o.calls = append(o.calls, call{name, args})
			case "clean":
				o.clean = append(o.clean, rest)
			case "knows":
				o.knows = true
			case "mcp":
				o.mcp = true
			default:
				o.words += line + "\n"
			}
		}
		if len(o.calls) == 0 || o.words == "" {
			t.Fatalf("%s: no words or no calls", file)
		}
		orders = append(orders, o)
	}
	return orders
}

// run asks in the way the place wants: with the program, or for mail, which
// has no command, in this process.
func (h *house) run(text string) outcome {
	h.t.Helper()
	if len(h.args) == 2 && h.args[0] == "mail" {
		return h.mail(h.args[1])
	}
	return h.ask(text)
}

// mail hands a message in as something a stranger wrote.
func (h *house) mail(text string) (o outcome) {
	h.t.Helper()
	h.seal()
	var logs bytes.Buffer
	bot, err := nanobot.New(h.t.Context(), nanobot.WithConfigFile(filepath.Join(h.data, "config.json")), nanobot.WithWorkspace(h.ws),
		nanobot.WithEnv(h.env()), nanobot.WithLogger(slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	if err != nil {
		h.t.Fatal(err)
	}
	for ev, err := range bot.Ask(h.t.Context(), bus.Inbound{
		ID: "1", Route: bus.Route{Channel: "email", ChatID: "ada@example.org"}, SenderID: "ada@example.org", Text: text, At: time.Now(), Untrusted: true,
	}) {
		if err != nil {
			h.t.Errorf("the turn: %v", err)
			break
		}
		b, _ := json.Marshal(ev) // plain data
		o.stdout += string(b) + "\n"
		o.events = append(o.events, ev)
		if ev.Kind == bus.Final {
			o.final = ev
		}
	}
	if err := bot.Close(); err != nil {
		h.t.Error(err)
	}
	o.stderr = logs.String()
	return o
}

// desk is an MCP server with a tool that looks something up and one that does
// damage; the result counts its runs.
func (h *house) desk(found string) *atomic.Int64 {
	h.t.Helper()
	h.side = &atomic.Int64{}
	srv := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	type none struct{}
	say := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	mcp.AddTool(srv, &mcp.Tool{Name: "lookup", Description: "Look something up.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return say(found), nil, nil
		})
	side := h.side
	mcp.AddTool(srv, &mcp.Tool{Name: "delete_all", Description: "Delete everything."},
		func(context.Context, *mcp.CallToolRequest, struct {
			Sure bool   `json:"sure,omitempty"`
			Note string `json:"note,omitempty"`
		},
		) (*mcp.CallToolResult, any, error) {
			side.Add(1)
			return say("deleted"), nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil)
	h.web.handle("/mcp", handler.ServeHTTP)
	h.tools()["mcpServers"] = map[string]any{"desk": map[string]any{"url": h.web.url + "/mcp", "trusted": true}}
	return side
}

// processes lists processes whose command line contains a text.
func processes(mark string) (found []string) {
	list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range list {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(mark)) {
			found = append(found, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return found
}

// pdf is a document of one page with a line of text per line.
func pdf(text string) []byte {
	var content strings.Builder
	content.WriteString("BT /F1 12 Tf 50 750 Td 14 TL\n")
	for line := range strings.Lines(text) {
		line = strings.NewReplacer(`\`, `\\`, "(", `\(`, ")", `\)`, "—", "-").Replace(strings.TrimSpace(line))
		fmt.Fprintf(&content, "(%s) Tj T*\n", line)
	}
	content.WriteString("ET")
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	objects := []string{
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
		fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", content.Len(), content.String()),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
	}
	at := make([]int, len(objects))
	for i, o := range objects {
		at[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, start)
	return b.Bytes()
}

// docx is a Word document with a paragraph per line.
func docx(t *testing.T, text string) []byte {
	t.Helper()
	var body strings.Builder
	for line := range strings.Lines(text) {
		fmt.Fprintf(&body, "<w:p><w:r><w:t>%s</w:t></w:r></w:p>", html.EscapeString(strings.TrimSpace(line)))
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range map[string]string{
		"[Content_Types].xml": `<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>`,
		"word/document.xml":   `<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>` + body.String() + `</w:body></w:document>`,
	} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// picture is an image whose words a model could read; here they follow its data.
func picture(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	b.WriteString(text)
	return b.Bytes()
}
