package web

import (
	"bytes"
	"net/url"
	"strings"
	"unicode/utf8"
)

// image writes what a picture shows. Its address is left out: nobody should
// load it because of us.
func (r *renderer) image(alt string) {
	alt = oneLine(alt, 200)
	if utf8.RuneCountInString(alt) < 3 || strings.HasPrefix(alt, "http") {
		return
	}
	if len(r.line) > 0 && r.line[len(r.line)-1] != '[' {
		r.space = true
	}
	if strings.ContainsAny(alt, "[]|") {
		alt = strings.NewReplacer("[", "(", "]", ")", "|", "/").Replace(alt)
	}
	r.glue("[image: " + alt + "]")
	r.space = true
}

func (r *renderer) code(i int32) {
	if r.plain || r.verb > 0 || r.t.nodes[i].chars == 0 || r.t.nodes[i].flags&hasBlock != 0 {
		r.verb++
		r.children(i)
		r.verb--
		return
	}
	r.verb++
	start := len(r.line)
	if r.space && start > 0 {
		start++
	}
	r.glue("`")
	r.children(i)
	r.space = false
	switch body := string(r.line[min(start+1, len(r.line)):]); {
	case body == "":
		r.line = r.line[:start]
	case strings.Contains(body, "`"):
		r.line = append(append(append(r.line[:start], "`` "...), body...), " ``"...)
	default:
		r.line = append(r.line, '`')
	}
	r.verb--
}

// power writes a superscript; a note that is a link stays what it is.
func (r *renderer) power(i int32) {
	if n := r.t.nodes[i]; n.linked == 0 && n.chars > 0 && n.chars <= 4 && len(r.line) > 0 && !r.space {
		r.glue("^")
	}
	r.children(i)
}

// link writes a link as [text](address).
func (r *renderer) link(i int32) {
	n := &r.t.nodes[i]
	if strings.HasPrefix(n.text, "#") && n.chars <= 4 && r.marker(i) {
		return
	}
	href := r.target(n.text)
	if r.plain || href == "" || n.chars == 0 {
		r.children(i)
		return
	}
	if n.flags&hasBlock != 0 && !r.single { // the first line of the blocks carries the link
		r.flush()
		was := r.href
		r.href = href
		r.children(i)
		r.flush()
		r.href = was
		return
	}
	r.glue("[")
	start := len(r.line)
	r.children(i)
	if len(bytes.TrimSpace(r.line[min(start, len(r.line)):])) == 0 {
		r.line = r.line[:min(max(start-1, 0), len(r.line))]
		return
	}
	spaced := r.space
	r.space = false
	r.glue("](" + href + ")")
	r.space = spaced
}

// marker says that a link to its own place is only the sign beside a heading.
func (r *renderer) marker(i int32) bool {
	n := r.t.nodes[r.t.nodes[i].first]
	switch strings.TrimSpace(n.text) {
	case "#", "¶", "§", "🔗", "link":
		return n.flags&isText != 0
	}
	return false
}

// target is the address of a link, "" for one that leads nowhere a reader can
// go: scripts, data, places on the same page.
func (r *renderer) target(href string) string {
	if href == "" || href[0] == '#' || len(href) > 2048 {
		return ""
	}
	u := r.resolve(href)
	if u == nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
		return ""
	}
	if r.at != nil && u.Fragment != "" && u.Host == r.at.Host && u.Path == r.at.Path && u.RawQuery == r.at.RawQuery {
		return ""
	}
	u.User = nil
	s := u.String()
	if len(r.links) < maxLinks && u.Scheme != "mailto" {
		r.links = append(r.links, s)
	}
	if !strings.ContainsAny(s, "() <>") {
		return s
	}
	return strings.NewReplacer("(", "%28", ")", "%29", " ", "%20", "<", "%3C", ">", "%3E").Replace(s)
}

// resolver turns the addresses of a page into whole ones.
func (t *tree) resolver(page *url.URL) func(string) *url.URL {
	base := page
	if u, err := url.Parse(t.base); t.base != "" && err == nil && page != nil {
		base = page.ResolveReference(u)
	}
	return func(href string) *url.URL {
		if strings.ContainsAny(href, "\n\t\r") {
			href = strings.NewReplacer("\n", "", "\t", "", "\r", "").Replace(href)
		}
		u, err := url.Parse(href)
		if err != nil {
			return nil
		}
		if base != nil {
			u = base.ResolveReference(u)
		}
		return u
	}
}
