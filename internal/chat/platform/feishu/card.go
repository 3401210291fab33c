package feishu

import (
	"encoding/json"
	"strings"
)

const cardDepth = 20 // a card that is nested deeper is not read further

// cardText returns the text of a card that was sent, and the key of its first
// picture.
func cardText(o object) (lines []string, image string) {
	r := &cardReader{}
	r.card(o, 0)
	return r.lines, r.image
}

type cardReader struct {
	lines []string
	image string
}

func (r *cardReader) add(parts ...string) {
	for _, s := range parts {
		if s = strings.TrimSpace(s); s != "" {
			r.lines = append(r.lines, s)
		}
	}
}

func (r *cardReader) card(o object, depth int) {
	if o == nil || depth > cardDepth {
		return
	}

	if dsl := o.text("user_dsl"); dsl != "" {
		var inner object
		if json.Unmarshal([]byte(dsl), &inner) == nil {
			before := len(r.lines)
			if r.card(inner, depth+1); len(r.lines) > before {
				return
			}
		}
	}

	if title := words(o["title"]); title != "" {
		r.add("title: " + title)
	}

	r.elements(o.list("elements"), depth+1)
	r.elements(o.object("body").list("elements"), depth+1)
	r.card(o.object("card"), depth+1)
	if title := words(o.object("header")["title"]); title != "" {
		r.add("title: " + title)
	}
}

// words returns a text, or that of an object with one.
func words(v any) string {
	switch v := v.(type) {
	case string:
		return object{"s": v}.text("s")
	case map[string]any:
		return object(v).text("content", "text")
	}
	return ""
}

// elements reads a list of elements, or of lists of them.
func (r *cardReader) elements(list []any, depth int) {
	if depth > cardDepth {
		return
	}
	for _, v := range list {
		switch v := v.(type) {
		case []any:
			r.elements(v, depth+1)
		case map[string]any:
			r.element(v, depth)
		}
	}
}

func (r *cardReader) element(e object, depth int) {
	switch e.text("tag") {
	case "markdown", "lark_md", "plain_text":
		r.add(e.text("content"))
	case "text":
		r.add(e.text("text"))
	case "div":
		r.add(words(e["text"]))
		for _, f := range e.list("fields") {
			m, _ := f.(map[string]any)
			r.add(words(object(m)["text"]))
		}

	case "a":
		if href := e.text("href"); href != "" {
			r.add("link: " + href)
		}
		r.add(e.text("text"))

	case "button":
		r.add(words(e["text"]))
		address := e.text("url")
		if address == "" {
			address = e.object("multi_url").text("url")
		}
		if address != "" {
			r.add("link: " + address)
		}

	case "img":
		if r.image == "" {
			r.image = e.text("img_key", "image_key")
		}
		if alt := words(e["alt"]); alt != "" {
			r.add(alt)
		} else {
			r.add("[image]")
		}

	case "column_set":
		for _, c := range e.list("columns") {
			m, _ := c.(map[string]any)
			r.elements(object(m).list("elements"), depth+1)
		}

	case "table":
		r.table(e)
	default:
		r.elements(e.list("elements"), depth+1)
	}
}

func (r *cardReader) table(e object) {
	var names, head []string
	for _, c := range e.list("columns") {
		m, _ := c.(map[string]any)
		names = append(names, object(m).text("name"))
		head = append(head, object(m).text("display_name", "name"))
	}

	r.add(strings.Join(head, " | "))
	for _, row := range e.list("rows") {
		m, _ := row.(map[string]any)
		var cells []string
		for _, n := range names {
			s, ok := m[n].(string)
			if !ok {
				data, _ := json.Marshal(m[n]) // it was JSON before
				s = string(data)
			}
			cells = append(cells, s)
		}

		r.add(strings.Join(cells, " | "))
	}
}
