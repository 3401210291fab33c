package subject

import (
	"strings"

	"github.com/nanobot-go/nanobot/internal/core/session"
)

// attachedLine begins the line that names a document for the model.
const attachedLine = "[Attachment: "

// ownPrefix is how many characters the media store puts before the name of a file.
const ownPrefix = 12

// documents returns the files of a message that the model was told of in words. The text
// of one of them may pretend to be such a line, so only files of the media store
// are shown.
func documents(r *session.Record) (paths []string) {
	if r.Runtime == nil {
		return nil
	}

	for line := range strings.Lines(r.Runtime.Suffix) {
		rest, ok := strings.CutPrefix(line, attachedLine)
		if path, _, found := strings.Cut(rest, " ("); ok && found {
			paths = append(paths, path)
		}
	}
	return paths
}

// attach describes the files of a message.
func (t Thread) attach(m *said) {
	for i, file := range append(m.files, m.documents...) {
		a := t.Attachment(file)
		if i >= len(m.files) && a.URL == "" {
			continue
		}
		if prefix, name, ok := strings.Cut(a.Name, "_"); ok && len(prefix) == ownPrefix && strings.ToUpper(prefix) == prefix {
			a.Name = name
		}
		m.Media, m.Attachments = append(m.Media, a.Name), append(m.Attachments, a)
	}
}
