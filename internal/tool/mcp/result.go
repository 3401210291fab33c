package mcp

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/document"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Limits of one result, before anything of it is kept.
const (
	maxResultText = 1 << 20 // bytes
	maxShownCount = 8
	maxMediaFiles = 200 // kept per server
	maxMediaBytes = 200 << 20
)

// collector puts the parts of a result together.
type collector struct {
	s      *server
	text   strings.Builder
	cut    int // bytes left out
	blocks []llm.Block
}

// line adds a piece of text on a line of its own.
func (c *collector) line(s string) {
	s = text.Valid(s)
	kept := text.CutBytes(s, maxResultText-c.text.Len())
	c.cut += len(s) - len(kept)
	s = kept
	if s == "" {
		return
	}

	if c.text.Len() > 0 {
		c.text.WriteByte('\n')
	}
	c.text.WriteString(s)
}

// result returns the finished result. All of it came from outside.
func (c *collector) result() tool.Result {
	out := c.text.String()
	if c.cut > 0 {
		out += fmt.Sprintf("\n[%d more bytes were dropped]", c.cut)
	}
	if out == "" {
		out = "(no output)"
	}

	r := tool.Result{Content: llm.Text(out)}
	if len(c.blocks) > 0 {
		r.Content = llm.Content{Blocks: append(c.blocks, llm.Block{Type: "text", Text: out})}
	}
	return r
}

func (s *server) toolResult(r *sdk.CallToolResult) tool.Result {
	c := &collector{s: s}
	for _, part := range r.Content {
		c.part(part)
	}

	if c.text.Len() == 0 && c.cut == 0 && len(c.blocks) == 0 && r.StructuredContent != nil {
		if b, err := json.Marshal(r.StructuredContent); err == nil {
			c.line(string(b))
		}
	}

	if r.NeedsInput() {
		c.line("(the server asks for input from the user before it goes on, which is not supported)")
		r.IsError = true
	}

	res := c.result()
	if r.IsError {
		res.IsError, res.Code = true, tool.Internal
	}
	return res
}

func (s *server) resourceResult(r *sdk.ReadResourceResult) tool.Result {
	c := &collector{s: s}
	for _, part := range r.Contents {
		c.resource(part)
	}
	return c.result()
}

func (s *server) promptResult(r *sdk.GetPromptResult) tool.Result {
	c := &collector{s: s}
	for _, m := range r.Messages {
		if m == nil {
			continue
		}
		if len(r.Messages) > 1 {
			c.line(text.Label(string(m.Role), 20) + ":")
		}
		c.part(m.Content)
	}

	return c.result()
}

func (c *collector) part(p sdk.Content) {
	switch p := p.(type) {
	case *sdk.TextContent:
		c.line(p.Text)
	case *sdk.ImageContent:
		c.media("picture", p.Data, p.MIMEType)
	case *sdk.AudioContent:
		c.media("audio", p.Data, p.MIMEType)
	case *sdk.EmbeddedResource:
		c.resource(p.Resource)
	case *sdk.ResourceLink:
		out := "[link to resource " + text.Label(p.URI, 500)
		if p.Name != "" {
			out += ", " + text.Label(p.Name, 200)
		}
		if p.MIMEType != "" {
			out += ", " + text.Label(p.MIMEType, 100)
		}
		c.line(out + "]")
	}
}

func (c *collector) resource(r *sdk.ResourceContents) {
	switch {
	case r == nil:
	case len(r.Blob) > 0:
		c.media("data of "+text.Label(r.URI, 200), r.Blob, r.MIMEType)
	default:
		c.line(r.Text)
	}
}

// media keeps bytes in a file and tells the model about it. Pictures it can
// see are shown, whatever type the server claims they have.
func (c *collector) media(what string, data []byte, declared string) {
	kind := llm.PictureType(data)
	note := fmt.Sprintf("[%s, %d bytes", what, len(data))
	path, err := c.s.save(data, kind, declared)
	switch {
	case err != nil:
		c.s.log.Warn("mcp media cannot be saved", "err", err)
	case path != "":
		note += ", saved as " + path
	}

	shown := 0
	for _, b := range c.blocks {
		if b.Type == "image_url" {
			shown++
		}
	}

	w, h := llm.PictureSize(data, kind)
	pic, err := c.s.pictures.Fit(document.Picture{Data: data, Type: kind, W: w, H: h})
	if kind != "" && err == nil && shown < maxShownCount {
		url := "data:" + pic.Type + ";base64," + base64.StdEncoding.EncodeToString(pic.Data)
		c.blocks = append(c.blocks, llm.Block{Type: "image_url", ImageURL: url, Path: path})
	} else if kind != "" {
		note += ", too large to be shown"
	}

	c.line(note + "]")
}

// extension names files so that other programs know what to do with them, and
// never so that one would run them.
func extension(kind, declared string) string {
	if kind == "" {
		kind, _, _ = mime.ParseMediaType(declared)
	}

	switch kind {
	case "image/png", "image/gif", "image/webp", "audio/flac", "audio/ogg", "audio/aac", "application/pdf", "application/json", "application/zip", "text/csv":
		return kind[strings.IndexByte(kind, '/')+1:]
	case "image/jpeg":
		return "jpg"
	case "audio/wav", "audio/x-wav", "audio/wave":
		return "wav"
	case "audio/mpeg", "audio/mp3":
		return "mp3"
	case "audio/mp4", "audio/x-m4a":
		return "m4a"
	case "text/plain", "text/markdown":
		return "txt"
	}

	return "bin"
}

// save stores bytes under a name made of their hash, and drops the oldest
// files when a server has filled its share.
func (s *server) save(data []byte, kind, declared string) (string, error) {
	if s.pool.o.MediaDir == "" || len(data) == 0 {
		return "", nil
	}

	dir := filepath.Join(s.pool.o.MediaDir, plainName(s.Name))
	if err := diskio.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}

	sum := sha256.Sum256(data)
	path := filepath.Join(dir, hex.EncodeToString(sum[:12])+"."+extension(kind, declared))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := diskio.WriteFile(path, data, 0o600); err != nil {
		return "", err
	}
	return path, trim(dir, filepath.Base(path))
}

// trim removes the oldest files of a folder beyond its share, but never the
// one just written.
func trim(dir, newest string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}

	var files []os.FileInfo
	var total int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, info)
			total += info.Size()
		}
	}

	slices.SortStableFunc(files, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	count := len(files)
	for _, f := range files {
		if count <= maxMediaFiles && total <= maxMediaBytes {
			return nil
		}
		if f.Name() == newest {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
			return err
		}

		count--
		total -= f.Size()
	}

	return nil
}
