package web

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// reader lets r.jina.ai read a page. The caller has made sure that the user
// wants it and that the address holds no credentials.
func (f *family) reader(ctx context.Context, u *url.URL) (document, error) {
	ctx, cancel := context.WithTimeout(ctx, min(20*time.Second, f.o.FetchTimeout*2/3))
	defer cancel()
	target := *u
	target.Fragment, target.RawFragment = "", ""
	a := &asking{family: f, key: httpsafe.NewSecret(f.o.Getenv("JINA_API_KEY"))}
	var header []string
	if !a.key.IsZero() {
		header = a.bearer()
	}

	var out struct {
		Data struct {
			Title   string `json:"title"`
			Content string `json:"content"`
			URL     string `json:"url"`
		} `json:"data"`
	}
	if err := a.call(ctx, f.client, "https://r.jina.ai/"+target.String(), nil, &out, header...); err != nil {
		return document{}, err
	}

	words := strings.TrimSpace(text.Cut(out.Data.Content, 2*maxChars))
	if words == "" {
		return document{}, errors.New("the reader found no text")
	}

	if title := oneLine(out.Data.Title, 300); title != "" && !strings.HasPrefix(words, "#") {
		words = "# " + title + "\n\n" + words
	}

	doc := document{final: shown(u), text: disarm(text.Clean(words)), notes: []string{"read by r.jina.ai"}}
	if l := webLink(out.Data.URL); l != "" {
		doc.final = l
	}
	return doc, nil
}
