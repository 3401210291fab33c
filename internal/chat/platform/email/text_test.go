package email

import (
	"strings"
	"testing"
)

func TestOwnWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, want string }{
		{"plain", "hello\nthere", "hello\nthere"},
		{"gmail", "yes\n\nOn Sat, Nov 14, 2026 at 10:00 AM Bot <bot@example.org> wrote:\n\n> really?\n> yes", "yes"},
		{"broken over two lines", "yes\n\nOn Sat, Nov 14, 2026 at 10:00 AM Bot\n<bot@example.org> wrote:\n> really?", "yes"},
		{"german", "ja\n\nAm 14.11.26 um 10:00 schrieb Bot:\n> wirklich?", "ja"},
		{"chinese", "好\n\n在 2026年11月14日，Bot 写道：\n> 真的吗", "好"},
		{"outlook", "yes\n\n-----Original Message-----\nFrom: Bot\nwords", "yes"},
		{"outlook block", "yes\n\nFrom: Bot <bot@example.org>\nSent: Saturday\nTo: Ann\nSubject: x\n\nwords", "yes"},
		{"signature", "yes\n-- \nAnn\nExample Ltd", "yes"},
		{"quotes only at the end", "yes\n\n> a\n> b", "yes"},
		{"between quotes", "> a?\nyes\n> b?\nno", "> a?\nyes\n> b?\nno"},
		{"only history", "On Monday Bot wrote:\n> a", "On Monday Bot wrote:\n> a"},
		{"words that look like one", "On Monday she wrote:\nthis is mine", "On Monday she wrote:\nthis is mine"},
	} {
		if got := ownWords(c.body); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestHTMLText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, source, want string }{
		{"paragraphs", "<html><head><title>t</title><style>p{}</style></head><body><p>One <b>two</b>\n three</p><p>four<br>five</p></body>", "One two three\n\nfour\nfive"},
		{"list", "<ul><li>a</li><li>b</li></ul>", "- a\n- b"},
		{"link", `see <a href="https://example.org/x">this</a> and <a href="https://example.org">https://example.org</a>`, "see this (https://example.org/x) and https://example.org"},
		{"quote", "yes<blockquote><p>a</p><p>b</p></blockquote>", "yes\n>\n> a\n>\n> b"},
		{"entities", "a &lt; b &amp; c", "a < b & c"},
		{"script", "a<script>alert('x < y')</script>b", "ab"},
		{"hidden", `a<div style="display: none">obey<div>me</div></div><span style="font-size:0px">x</span>b`, "ab"},
		{"pre", "<pre>x  y\n  z</pre>", "x  y\n  z"},
		{"table", "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"},
		{"unclosed", "<p>a<div>b", "a\nb"},
	} {
		if got := htmlText(c.source); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestContent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, mail, want string }{
		{"latin1", "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\ngr=FC=DFe", "grüße"},
		{"gb2312", "Content-Type: text/plain; charset=gb2312\nContent-Transfer-Encoding: base64\n\nxOO6ww==", "你好"},
		{"iso-2022-jp", "Content-Type: text/plain; charset=ISO-2022-JP\n\n\x1b$B$3$s\x1b(B", "こん"},
		{"utf-8 that says it is latin1", "Content-Type: text/plain; charset=iso-8859-1\n\ngrüße", "grüße"},
		{"unknown charset", "Content-Type: text/plain; charset=x-none\n\nhi", "hi"},
		{"no type", "Subject: x\n\nhi", "hi"},
		{"html only", "Content-Type: text/html\n\n<p>hi</p>", "hi"},
		{"alternative", "Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/plain\n\nplain\n--b\nContent-Type: text/html\n\n<p>html</p>\n--b--", "plain"},
		{"empty plain", "Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/plain\n\n\n--b\nContent-Type: text/html\n\n<p>html</p>\n--b--", "html"},
		{"cut off", "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nhalf", "half"},
		{"without a boundary", "Content-Type: multipart/mixed\n\nwords", ""},
	} {
		if got := readContent([]byte(strings.ReplaceAll(c.mail, "\n", "\r\n"))).text(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A mail of many or deep parts costs no more than others.
func TestContentIsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for range 1000 {
		b.WriteString("Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n")
	}
	readContent([]byte(b.String()))
	many := "Content-Type: multipart/mixed; boundary=b\r\n\r\n" + strings.Repeat("--b\r\n\r\nx\r\n", 10000) + "--b--"
	if c := readContent([]byte(many)); len(c.plain) > maxParts {
		t.Errorf("%d parts were read, want at most %d", len(c.plain), maxParts)
	}
}

// Nobody can make us work for hours, or out of memory, with a small mail.
func TestTextIsBounded(t *testing.T) {
	t.Parallel()
	quotes := strings.Repeat(">\n", 500_000) + "mine"
	if got := ownWords(quotes); got != quotes {
		t.Errorf("words below quotes: %d bytes, want all %d", len(got), len(quotes))
	}
	deep := strings.Repeat("<blockquote>", 5000) + strings.Repeat("<p>a", 5000)
	if got := htmlText(deep); len(got) > 200_000 {
		t.Errorf("a page of %d bytes became %d", len(deep), len(got))
	}
	if got, want := htmlText("<blockquote><blockquote>a</blockquote></blockquote>"), "> > a"; got != want {
		t.Errorf("quotes in quotes: %q, want %q", got, want)
	}
	wide := "Content-Type: multipart/mixed; boundary=b\r\n\r\n" + strings.Repeat("--b\r\n\r\n"+strings.Repeat("x", 1<<20)+"\r\n", 12) + "--b--"
	if got := len(readContent([]byte(wide)).text()); got > 5<<20 {
		t.Errorf("%d bytes of text were taken in", got)
	}
}
