package web

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// scanned lists the tokens of a page as the scanner sees them.
func scanned(page string) (list []string) {
	z := scanner{page: page}
	for {
		start := z.at
		kind := z.next()
		switch kind {
		case tokenEnd:
			return list
		case tokenText:
			list = append(list, "text "+z.text)
		case tokenStart, tokenClosed:
			list = append(list, fmt.Sprintf("start %v %+v", z.tag, z.attr))
		case tokenStop:
			list = append(list, "end "+z.tag.String())
		}
		list = append(list, fmt.Sprint(len(page[start:z.at])))
	}
}

// tokenized lists the tokens as the tokenizer of x/net sees them, which follows
// the rules of browsers to the letter.
func tokenized(page string) (list []string) {
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return list
		case html.TextToken:
			list = append(list, "text "+string(z.Raw()))
		case html.StartTagToken, html.SelfClosingTagToken:
			size := len(z.Raw())
			name, more := z.TagName()
			tag := tagOf(string(name))
			var a attributes
			for more {
				var key, value []byte
				key, value, more = z.TagAttr()
				a.set(string(key), html.EscapeString(string(value)))
			}
			if tag == atom.Noscript {
				z.NextIsNotRawText()
			}
			list = append(list, fmt.Sprintf("start %v %+v", tag, a), fmt.Sprint(size))
			continue
		case html.EndTagToken:
			size := len(z.Raw())
			name, _ := z.TagName()
			list = append(list, "end "+tagOf(string(name)).String(), fmt.Sprint(size))
			continue
		}
		list = append(list, fmt.Sprint(len(z.Raw())))
	}
}

func sameTokens(t *testing.T, page string) {
	t.Helper()
	if strings.ContainsAny(page, "\x00\r") { // what the tokenizer changes in values
		page = strings.NewReplacer("\x00", " ", "\r", "\n").Replace(page)
	}
	if want, got := tokenized(page), scanned(page); !slices.Equal(want, got) {
		t.Errorf("%.300q (-want +got):\n%.3000s", page, cmp.Diff(want, got))
	}
}

// The scanner and the tokenizer of x/net cut every page alike: ordinary ones,
// hostile ones, and heaps of the pieces that tags, comments and scripts are
// made of.
func TestScannerFollowsBrowsers(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/pages/*.html")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		sameTokens(t, string(toUTF8(loadPage(t, file), "text/html")))
	}
	for _, page := range hostilePages(4 << 10) {
		sameTokens(t, string(page))
	}
	pieces := []string{
		"<", ">", "/", "!", "-", "--", "=", `"`, "'", " ", "\n", "?", "x", "<p", "<br/>", "<a href=", "</a", "<!--", "-->", "--!>", "<!", "<!doctype html>",
		"<script>", "</script>", "<SCRIPT", "</scriPT ", "<title>", "</title>", "<style", "</style/>", "<textarea>", "</textarea>", "<xmp>", "<noscript>", "<plaintext>",
		"class=", "id='a'", `style="b>c"`, "hidden", "words", "&amp;", "é", "<x-y>", "</>", "</ ",
	}
	rng := rand.New(rand.NewPCG(1, 2)) // repeatable
	for range 5_000 {
		var b strings.Builder
		for range rng.IntN(24) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		if sameTokens(t, b.String()); t.Failed() {
			return
		}
	}
}

func TestSelfClosing(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]tokenKind{
		"<br/>": tokenClosed, "<br />": tokenClosed, "<br>": tokenStart, `<p a="b"/>`: tokenClosed, "<p a=b/>": tokenStart, "<p a=/>": tokenStart,
		"<p a=b />": tokenClosed, "<p a/>": tokenClosed, "<p / >": tokenStart, "</p/>": tokenStop, "<p": tokenEnd, `<p a="b>`: tokenEnd,
	} {
		z := scanner{page: tag}
		if got := z.next(); got != want {
			t.Errorf("%s is %d, want %d", tag, got, want)
		}
	}
}

func FuzzScanner(f *testing.F) {
	files, _ := filepath.Glob("testdata/pages/*.html")
	for _, file := range files {
		f.Add(loadPage(f, file))
	}
	f.Fuzz(func(t *testing.T, page []byte) { sameTokens(t, string(bytes.ToValidUTF8(page, nil))) })
}
