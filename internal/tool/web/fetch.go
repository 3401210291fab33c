package web

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	docs "github.com/nanobot-go/nanobot/internal/base/document"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Limits of the text that is returned, in characters.
const (
	defaultChars = 50_000
	minChars     = 100
	maxChars     = 200_000
	excerptChars = 500 // of the body of an error
)

type fetchInput struct {
	URL      string `json:"url" min:"1" alias:"uri|link"`
	Mode     string `json:"extractMode,omitempty" enum:"markdown|text" hidden:"1" alias:"extract_mode|mode"`
	MaxChars int    `json:"maxChars,omitempty" desc:"Default 50000." alias:"max_chars"`
}

// document holds what was read from an address.
type document struct {
	final string // where it really came from
	text  string
	notes []string
	links []string
	image []byte // a picture in place of text
	mime  string // of the picture
}

func (f *family) fetch(ctx context.Context, c tool.Call, in fetchInput) (tool.Result, error) {
	raw, err := trimURL(in.URL)
	if err != nil {
		return tool.Fail(tool.InvalidArgs, "%v", err), nil
	}

	u, err := url.Parse(raw)
	if err != nil {
		return tool.Fail(tool.InvalidArgs, "this is not a URL: %v", httpsafe.WithoutURL(err)), nil
	}
	if name, found := f.leaks(u, raw); found {
		return refuseLeak("URL", name), nil
	}
	if err := f.guard.Check(u); err != nil {
		return denied(err), nil
	}

	mem, key := memoryOf(c.State), in.Mode+" "+u.String()
	doc, ok := mem.get(key)
	if !ok && (c.Tainted || c.Scope != "") && f.o.Spend != nil {
		if err := f.o.Spend(ctx, c, normalName(u), carries(c.State, u)); err != nil {
			return tool.Fail(tool.DeniedApproval, "%v", err), ctx.Err()
		}
	}

	bounded, cancel := context.WithTimeout(ctx, f.o.FetchTimeout)
	defer cancel()
	if !ok {
		if doc, err = f.read(bounded, u, in.Mode == "text"); err != nil {
			if ctx.Err() != nil {
				return tool.Result{}, ctx.Err()
			}
			if bounded.Err() != nil {
				err = bounded.Err() // whatever broke then, it broke because of the time
			}
			f.o.Log.InfoContext(ctx, "web fetch failed", "host", u.Hostname(), "err", httpsafe.WithoutURL(err))
			return f.failure(u, err), nil
		}
		if doc.image == nil {
			mem.store(key, doc)
		}
	}

	mem.link(shown(u))
	mem.link(doc.links...)
	return present(u, doc, min(max(cmp.Or(in.MaxChars, defaultChars), minChars), maxChars)), nil
}

// read gets a document, through the reader service when that is wanted.
func (f *family) read(ctx context.Context, u *url.URL, plain bool) (document, error) {
	if f.o.UseJinaReader && !credentials(u) && !filelike(u.Path) {
		if doc, err := f.reader(ctx, u); err == nil {
			return doc, nil
		} else if ctx.Err() != nil {
			return document{}, err
		}
	}
	return f.get(ctx, u, plain)
}

// get makes the one request.
func (f *family) get(ctx context.Context, u *url.URL, plain bool) (document, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return document{}, err
	}

	req.Header.Set("User-Agent", f.o.UserAgent)
	req.Header.Set("Accept", "text/markdown,text/html;q=0.9,application/xhtml+xml;q=0.9,application/json;q=0.8,*/*;q=0.5")
	req.Header.Set("Accept-Encoding", "gzip") // set, so that both sizes can be bounded here
	resp, err := f.client.Do(req)
	if err != nil {
		return document{}, err
	}

	defer resp.Body.Close() //nolint:errcheck // read only
	body, err := readBody(resp)
	if err != nil {
		return document{}, err
	}

	final := u
	if resp.Request != nil && resp.Request.URL != nil {
		final = resp.Request.URL
	}

	select { // parsing takes memory
	case f.work <- struct{}{}:
		defer func() { <-f.work }()
	case <-ctx.Done():
		return document{}, ctx.Err()
	}

	if resp.StatusCode >= http.StatusBadRequest {
		e := &statusError{status: resp.StatusCode}
		if body.kind == kindHTML || body.kind == kindText || body.kind == kindJSON {
			e.detail = oneLine(f.words(body, final, true).text, excerptChars)
		}
		return document{}, e
	}

	switch body.kind {
	case kindHTML, kindJSON, kindText:
		doc := f.words(body, final, plain)
		doc.final = shown(final)
		return doc, nil
	case kindImage:
		w, h := llm.PictureSize(body.data, body.mime)
		pic, err := f.pictures.Fit(docs.Picture{Data: body.data, Type: body.mime, W: w, H: h})
		if err != nil {
			return document{}, fmt.Errorf("the picture cannot be shown: %w", err)
		}
		return document{final: shown(final), image: pic.Data, mime: pic.Type}, nil

	case kindDocument:
		return f.document(ctx, final, body)
	default:
		return document{}, &unsupportedError{body.mime}
	}
}

// unsupportedError is content no text can be made of.
type unsupportedError struct{ mime string }

func (e *unsupportedError) Error() string { return "no text can be made of " + e.mime }

// words turns a body into text.
func (f *family) words(b body, at *url.URL, plain bool) document {
	var doc document
	if b.cut {
		doc.notes = append(doc.notes, "the file is larger than what is read; this is its beginning")
	}
	if b.short {
		doc.notes = append(doc.notes, "the connection ended early; this is what came")
	}

	data := toUTF8(b.data, b.contentType)
	switch b.kind {
	case kindJSON:
		doc.text = text.Clean(prettyJSON(data, 4*maxChars))
	case kindHTML:
		p := extract(data, at, plain)
		doc.text, doc.links = p.text, p.links
		if p.cut && !b.cut {
			doc.notes = append(doc.notes, "the page is too large to be read whole")
		}

		if p.thin && p.forward != "" {
			doc.notes = append(doc.notes, "the page forwards to "+p.forward)
			doc.links = append(doc.links, p.forward)
		} else if p.thin {
			doc.notes = append(doc.notes, "the page has next to no text of its own; it is probably filled in by scripts")
		}

	default:
		words := text.Cut(string(data[:min(len(data), 2*maxChars*utf8.UTFMax)]), 2*maxChars)
		doc.text = disarm(strings.TrimSpace(text.Clean(strings.ReplaceAll(words, "\r\n", "\n"))))
	}

	return doc
}

// document hands a file to the extractor of another package.
func (f *family) document(ctx context.Context, at *url.URL, b body) (document, error) {
	if f.o.Document == nil {
		return document{}, &unsupportedError{b.mime}
	}

	name := at.Path[strings.LastIndexByte(at.Path, '/')+1:]
	if name == "" {
		name = "document"
	}
	if !strings.HasSuffix(strings.ToLower(name), b.ext) {
		name += b.ext
	}

	words, err := f.o.Document(ctx, name, b.data)
	if err != nil {
		return document{}, fmt.Errorf("read the %s: %w", strings.TrimPrefix(b.ext, "."), err)
	}
	return document{final: shown(at), text: disarm(strings.TrimSpace(text.Clean(words)))}, nil
}

// present words a document for the model.
func present(asked *url.URL, d document, limit int) tool.Result {
	var head strings.Builder
	head.WriteString("Source: " + d.final)
	if from := shown(asked); from != d.final {
		head.WriteString(" (redirected from " + from + ")")
	}

	if d.image != nil {
		data := "data:" + d.mime + ";base64," + base64.StdEncoding.EncodeToString(d.image)
		return tool.Result{Untrusted: true, Whole: true, Content: llm.Content{Blocks: []llm.Block{
			{Type: "image_url", ImageURL: data},
			{Type: "text", Text: fmt.Sprintf("(Image, %s, %d KB. %s)", d.mime, (len(d.image)+1023)/1024, head.String())},
		}}}
	}

	notes := d.notes
	if n := utf8.RuneCountInString(d.text); n > limit {
		notes = append(notes[:len(notes):len(notes)], fmt.Sprintf("the first %d of %d characters; maxChars up to %d shows more", limit, n, maxChars))
		d.text = text.Cut(d.text, limit)
	}

	for _, n := range notes {
		head.WriteString("\n[" + n + "]")
	}

	res := tool.Text(head.String() + "\n\n" + cmp.Or(d.text, "(empty)"))
	res.Untrusted = true
	return res
}

func denied(err error) tool.Result {
	return tool.Fail(tool.DeniedSSRF, "%v. Only public web addresses can be read; the user can allow a private network in tools.ssrfWhitelist.", err)
}

// failure words an error for the model.
func (f *family) failure(u *url.URL, err error) tool.Result {
	err = httpsafe.WithoutURL(err)
	if blocked, ok := errors.AsType[*httpsafe.BlockedError](err); ok {
		return denied(blocked)
	}

	host := u.Hostname()
	if e, ok := errors.AsType[*statusError](err); ok {
		code := tool.Internal
		if e.status == http.StatusNotFound || e.status == http.StatusGone {
			code = tool.NotFound
		}

		msg := fmt.Sprintf("HTTP %d %s from %s", e.status, http.StatusText(e.status), host)
		if e.detail != "" {
			msg += ". The page says: " + e.detail
		}

		res := tool.Fail(code, "%s", msg)
		res.Untrusted = true
		return res
	}

	if e, ok := errors.AsType[*tooLargeError](err); ok {
		return tool.Fail(tool.TooLarge, "%v; it was not read", e)
	}
	if e, ok := errors.AsType[*unsupportedError](err); ok {
		return tool.Fail(tool.Unsupported, "%s is %s, which cannot be shown as text", shown(u), cmp.Or(e.mime, "of an unknown kind"))
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return tool.Fail(tool.NotFound, "there is no host %s", host)
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return tool.Fail(tool.TimedOut, "%s did not answer completely within %s", host, f.o.FetchTimeout)
	}
	return tool.Fail(tool.Internal, "%s could not be read: %s", host, oneLine(err.Error(), 300))
}
