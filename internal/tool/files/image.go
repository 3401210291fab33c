package files

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/nanobot-go/nanobot/internal/base/document"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// readImage answers for files that are images by their first bytes; ok says so.
func (f *family) readImage(ctx context.Context, s source, head []byte, r io.Reader) (res tool.Result, ok bool, err error) {
	mime := llm.PictureType(head)
	if mime == "" {
		return res, false, nil
	}
	if s.info.Size() > document.MaxPicture {
		return tool.Fail(tool.TooLarge, "%s is an image of %s; at most %s can be shown, make a smaller copy with exec", s.shown, byteSize(s.info.Size()), byteSize(document.MaxPicture)), true, nil
	}

	w, h := llm.PictureSize(head, mime)
	data, err := io.ReadAll(io.LimitReader(r, document.MaxPicture+1))
	if err != nil {
		res, err = f.fail(ctx, s.shown, err)
		return res, true, err
	}
	if len(data) > document.MaxPicture {
		return tool.Fail(tool.TooLarge, "%s grew while it was read", s.shown), true, nil
	}

	pic, err := f.pictures.Fit(document.Picture{Data: data, Type: mime, W: w, H: h})
	if err != nil {
		return tool.Fail(tool.TooLarge, "%s is too large an image to be shown: %v", s.shown, err), true, nil
	}

	label := "(Image: " + s.shown + ", " + mime + ", " + byteSize(int64(len(data)))
	switch {
	case pic.Smaller:
		label += fmt.Sprintf(", made smaller: you see %dx%d", pic.W, pic.H)
	case pic.W > 0 && pic.H > 0:
		label += fmt.Sprintf(", %dx%d", pic.W, pic.H)
	}

	url := "data:" + pic.Type + ";base64," + base64.StdEncoding.EncodeToString(pic.Data)
	res.Content = llm.Content{Blocks: []llm.Block{
		{Type: "image_url", ImageURL: url, Path: s.abs},
		{Type: "text", Text: label + ")"},
	}}
	res.Whole, res.Untrusted = true, true // pictures may carry words for the model
	return res, true, nil
}
