package turn

import (
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// titleChars is the length of a title.
const titleChars = 60

// keepTitle names a conversation that has no title, by the first words of its
// user. It costs no model call and does not change afterwards, so that lists show
// what a conversation began with when its beginning is long in the archive. The
// user may give it another title.
func (t *Turn) keepTitle() error {
	var has string
	if t.msg.In.Event != "" || t.sess.Meta(session.TitleKey, &has) && has != "" {
		return nil
	}

	title := ""
	for _, r := range t.sess.Messages() {
		if r.Role == llm.User && !r.Command && !r.Internal && !r.Hidden && !r.Mark() {
			if title = titleOf(r.Display()); title != "" {
				break
			}
		}
	}

	if title == "" {
		title = titleOf(t.msg.In.Text)
	}

	if title == "" {
		return nil
	}
	return t.sess.SetMeta(session.TitleKey, t.engine.secrets.Redact(title))
}

// titleOf is the beginning of a text: its first sentence, or the first words of it.
func titleOf(s string) string {
	for line := range strings.Lines(s) {
		line = strings.Trim(text.Label(line, 0), "#*>`-_ ")
		if line == "" {
			continue
		}

		for i, r := range line {
			rest := line[i+len(string(r)):]
			if strings.ContainsRune(".!?", r) && strings.HasPrefix(rest, " ") && i >= titleChars/4 || strings.ContainsRune("。！？", r) {
				line = strings.TrimSuffix(line[:i+len(string(r))], ".")
				break
			}
		}

		return text.Ellipsis(line, titleChars)
	}
	return ""
}
