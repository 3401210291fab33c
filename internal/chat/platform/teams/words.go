package teams

import (
	"encoding/json"
	"html"
	"strings"

	nethtml "golang.org/x/net/html"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// said is what an activity says, apart from its files.
type said struct {
	text   string // typed by the sender
	named  bool   // we are mentioned
	quotes []quote
	files  []string // their kinds
}

// quote is a piece that the sender did not type.
type quote struct {
	id        string // of the message, if it is known
	of        string // who wrote it
	text      string
	forwarded bool
}

// shown returns a quote as the agent reads it.
func (q quote) shown() bus.Quote {
	about, verb := "what this answers", "answers"
	if q.forwarded {
		about, verb = "forwarded", "forwarded, written by"
	}

	who := text.Speaker(q.of)
	if who == "" {
		who = "a message"
	}

	body := strings.TrimSpace(text.Ellipsis(text.Valid(q.text), quoteMost))
	if body != "" {
		body = ": " + body
	}
	return bus.Quote{About: about, Text: "[" + verb + " " + who + body + "]"}
}

// empty reports whether there is nothing in it for an agent.
func (s *said) empty() bool { return s.text == "" && len(s.quotes) == 0 && len(s.files) == 0 }

// overheard returns what others hear of a message that is not for us.
func (s *said) overheard() string {
	parts := []string{}
	if s.text != "" {
		parts = append(parts, s.text)
	}
	for _, f := range s.files {
		parts = append(parts, "["+f+"]")
	}
	return strings.Join(parts, " ")
}

// read finds the words of an activity. Teams says the same twice: as a text, and
// as HTML, in which alone quotes are told from what was typed.
func read(a *activity) said {
	var s said
	var page string
	for _, at := range a.Attachments {
		switch at.ContentType {
		case "text/html":
			_ = json.Unmarshal(at.Content, &page) // else there is the text
		default:
			s.files = append(s.files, at.kind())
		}
	}

	body := a.Text
	for _, e := range a.Entities {
		switch {
		case e.Type == "mention" && e.Mentioned.ID != "" && e.Mentioned.ID == a.Recipient.ID:
			s.named = true
			if e.Text != "" {
				body = strings.ReplaceAll(body, e.Text, " ")
			}
		case e.Type == "quotedReply" && e.Quoted != nil:
			s.quotes = append(s.quotes, quote{id: e.Quoted.MessageID, of: e.Quoted.Sender, text: plain(e.Quoted.Preview)})
		}
	}

	if typed, quotes := quotedIn(page, a); len(quotes) > 0 {
		body = typed
		if len(s.quotes) == 0 {
			s.quotes = quotes
		}
	}

	s.text = plain(body)
	if len(s.quotes) == 0 {
		if q, rest, ok := wrapped(s.text); ok {
			s.quotes, s.text = []quote{q}, rest
		}
	}
	return s
}

// plain returns a text without the marks that Teams puts into it.
func plain(s string) string {
	var out strings.Builder
	for rest := s; rest != ""; {
		i := strings.IndexByte(rest, '<')
		if i < 0 {
			out.WriteString(rest)
			break
		}

		out.WriteString(rest[:i])
		rest = rest[i:]
		end := strings.IndexByte(rest, '>')
		tag := ""
		if end > 0 {
			tag = strings.ToLower(rest[1:end])
		}

		switch {
		case tag == "at" || strings.HasPrefix(tag, "at "):
			out.WriteByte('@') // another person is mentioned
		case tag == "/at", strings.HasPrefix(tag, "quoted "):
		case tag == "br" || tag == "br/" || tag == "br /":
			out.WriteByte('\n')
		default: // it was typed
			out.WriteByte('<')
			rest = rest[1:]
			continue
		}

		rest = rest[end+1:]
	}

	clean := strings.NewReplacer("\u00a0", " ", "\r\n", "\n", "\r", "\n").Replace(html.UnescapeString(out.String()))
	return strings.TrimSpace(text.Valid(clean))
}

// wrapped finds a quote in a text of clients that put it before what was typed.
func wrapped(s string) (quote, string, bool) {
	first, rest, _ := strings.Cut(s, "\n")
	rest = strings.TrimSpace(rest)
	if who, ok := cutFold(strings.TrimSpace(first), "replying to "); ok && rest != "" {
		return quote{of: strings.Trim(who, " :")}, rest, true
	}

	if strings.HasPrefix(first, "Reply wrapper") && rest != "" {
		old, typed, ok := strings.Cut(rest, "\n\n")
		if !ok {
			i := strings.LastIndexByte(rest, '\n')
			if i < 0 {
				return quote{}, "", false
			}
			old, typed = rest[:i], rest[i+1:]
		}

		return quote{text: strings.Join(strings.Fields(old), " ")}, strings.TrimSpace(typed), true
	}

	return quote{}, "", false
}

func cutFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return "", false
	}
	return s[len(prefix):], true
}

// The types of HTML elements, without the name of their schema.
const (
	replyItem   = "/Reply"
	forwardItem = "/Forward"
	mentionItem = "/Mention"
)

// page takes HTML of Teams apart.
type page struct {
	typed  strings.Builder
	quotes []quote
	bot    string // the name that a mention of us shows
	depth  int    // of the quote that is open
	author int    // depth of an element with the name of a quote's author
	skip   int    // depth of an element that is left out
}

// quotedIn finds the quotes in HTML and what was typed beside them.
func quotedIn(source string, a *activity) (typed string, quotes []quote) {
	if !strings.Contains(source, "<blockquote") {
		return "", nil
	}

	p := page{bot: a.Recipient.Name}
	z := nethtml.NewTokenizer(strings.NewReader(source))
	for {
		switch z.Next() {
		case nethtml.ErrorToken:
			return p.typed.String(), p.quotes
		case nethtml.TextToken:
			p.text(string(z.Raw()))
		case nethtml.StartTagToken:
			p.open(z.Token())
		case nethtml.SelfClosingTagToken:
			p.write("\n")
		case nethtml.EndTagToken:
			name, _ := z.TagName()
			p.close(string(name))
		}
	}
}

func (p *page) open(t nethtml.Token) {
	kind, id, prop := "", "", ""
	for _, at := range t.Attr {
		switch at.Key {
		case "itemtype":
			kind = at.Val
		case "itemid":
			id = at.Val
		case "itemprop":
			prop = at.Val
		}
	}

	switch {
	case p.depth > 0:
		if t.Data == "blockquote" {
			p.depth++
		}
		if t.Data == "strong" && prop == "mri" {
			p.author = p.depth
		}
		if prop == "time" {
			p.skip = p.depth
		}

	case t.Data == "blockquote" && strings.HasSuffix(kind, replyItem):
		p.depth, p.quotes = 1, append(p.quotes, quote{id: id})
	case t.Data == "blockquote" && strings.HasSuffix(kind, forwardItem):
		p.depth, p.quotes = 1, append(p.quotes, quote{id: id, forwarded: true})
	case strings.HasSuffix(kind, mentionItem):
		p.typed.WriteString(" ")
	}

	if t.Data == "br" || t.Data == "p" || t.Data == "div" {
		p.write("\n")
	}
}

func (p *page) close(name string) {
	switch {
	case p.author > 0 && name == "strong":
		p.author = 0
	case p.skip > 0 && name == "span":
		p.skip = 0
	case p.depth > 0 && name == "blockquote":
		p.depth--
	}
}

func (p *page) text(s string) {
	switch {
	case p.skip > 0:
	case p.author > 0:
		p.quotes[len(p.quotes)-1].of += html.UnescapeString(s)
	case p.depth == 0 && p.bot != "" && strings.TrimSpace(html.UnescapeString(s)) == p.bot: // a mention of us
	default:
		p.write(s)
	}
}

// write adds to the quote that is open, else to what was typed.
func (p *page) write(s string) {
	if p.depth == 0 {
		p.typed.WriteString(s)
		return
	}
	if q := &p.quotes[len(p.quotes)-1]; p.author == 0 {
		q.text = strings.TrimLeft(q.text+html.UnescapeString(s), "\n ")
	}
}
