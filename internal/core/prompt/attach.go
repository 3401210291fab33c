package prompt

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/document"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Limits on pictures in one turn.
const (
	maxImages     = 10
	maxImageBytes = 20 << 20
)

// attachments turns media into picture blocks and, for everything else, into
// lines that name the file so the model can read it with its tools.
func (p *Builder) attachments(ctx context.Context, media []bus.Media) (images []llm.Block, notes []string) {
	total := 0
	for _, m := range media {
		name := m.Name
		if name == "" {
			name = filepath.Base(m.Path)
		}

		data, size, err := readImage(p.opts.Workspace, m.Path)
		switch {
		case err != nil:
			p.opts.Log.WarnContext(ctx, "cannot read an attachment", "path", m.Path, "err", err)
			notes = append(notes, fmt.Sprintf("[Attachment could not be read: %s]", OneLine(name)))
		case data == nil && document.Detect(m.Path, nil) != document.None:
			notes = append(notes, p.documentText(ctx, m.Path, name))
		case data == nil:
			notes = append(notes, fmt.Sprintf("[Attachment: %s (%s, %d bytes)]", m.Path, OneLine(name), size))
		case len(images) == maxImages:
			notes = append(notes, fmt.Sprintf("[Image not shown, too many in one message: %s]", m.Path))
		default:
			mime := llm.PictureType(data)
			w, h := llm.PictureSize(data, mime)
			pic, err := p.pictures.Fit(document.Picture{Data: data, Type: mime, W: w, H: h})
			if err != nil {
				notes = append(notes, fmt.Sprintf("[Image not shown, %v: %s]", err, m.Path))
				continue
			}
			if total+len(pic.Data) > maxImageBytes {
				notes = append(notes, fmt.Sprintf("[Image not shown, too large together with the others: %s]", m.Path))
				continue
			}

			total += len(pic.Data)
			url := "data:" + pic.Type + ";base64," + base64.StdEncoding.EncodeToString(pic.Data)
			images = append(images, llm.Block{Type: "image_url", ImageURL: url, Path: m.Path})
		}
	}

	return images, notes
}

// inlineDocument is how much of a document's text comes with the message; the
// rest is there for the asking.
const inlineDocument = 8000

// documentText returns the beginning of an attached document, marked as what others
// wrote.
func (p *Builder) documentText(ctx context.Context, path, name string) string {
	fail := func(err error) string {
		p.opts.Log.WarnContext(ctx, "cannot read an attached document", "path", path, "err", err)
		return fmt.Sprintf("[Attachment: %s (%s); its text cannot be read: %v]", path, OneLine(name), err)
	}
	f, err := openAttached(p.opts.Workspace, path)
	if err != nil {
		return fail(err)
	}

	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return fail(err)
	}

	doc, err := document.Attachment(ctx, path, f, info.Size())
	if err != nil {
		return fail(err)
	}

	said := doc.Content
	note := fmt.Sprintf("[Attachment: %s (%s, %d bytes)]", path, OneLine(name), info.Size())
	if strings.TrimSpace(said) == "" {
		return note + "\n[There is no text in it; it may be scanned]"
	}

	if short := text.Cut(said, inlineDocument); len(short) < len(said) {
		said, note = short, note+"\n[The text is longer; read_file shows the rest]"
	}
	return note + "\n" + runner.Fence(llm.Text(said), path, "attachment").Text
}

// openAttached opens a file that came with a message. One in the workspace is
// reached without following links; the others are in the data folder, where
// channels put them.
func openAttached(workspace, path string) (*os.File, error) {
	rel, err := filepath.Rel(workspace, path)
	if err == nil && filepath.IsLocal(rel) {
		tree, err := diskio.OpenTree(workspace)
		if err != nil {
			return nil, err
		}
		defer tree.Close() //nolint:errcheck // only a way
		return tree.Open(filepath.ToSlash(rel))
	}

	dir, err := diskio.OpenTree(filepath.Dir(path))
	if err != nil {
		return nil, err
	}

	defer dir.Close() //nolint:errcheck // only a way
	return dir.Open(filepath.Base(path))
}

// readImage returns the bytes of a picture, or nil data for any other regular
// file.
func readImage(workspace, path string) (data []byte, size int64, err error) {
	f, err := openAttached(workspace, path)
	if err != nil {
		return nil, 0, err
	}

	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}

	head := make([]byte, 16)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return nil, info.Size(), nil // an empty file is an ordinary attachment
	}
	if llm.PictureType(head[:n]) == "" || info.Size() > document.MaxPicture {
		return nil, info.Size(), nil
	}

	data, err = io.ReadAll(io.LimitReader(f, document.MaxPicture))
	return append(head[:n], data...), info.Size(), err
}
