package files

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Limits of what vision models accept.
const (
	maxImageBytes = 20 << 20
	maxImageSide  = 8000
)

// readImage answers for files that are images by their first bytes; ok says so.
func (f *family) readImage(ctx context.Context, s source, head []byte, r io.Reader) (res tool.Result, ok bool, err error) {
	mime := llm.PictureType(head)
	if mime == "" {
		return res, false, nil
	}
	if s.info.Size() > maxImageBytes {
		return tool.Fail(tool.TooLarge, "%s is an image of %s; at most %s can be shown, make a smaller copy with exec", s.shown, byteSize(s.info.Size()), byteSize(maxImageBytes)), true, nil
	}
	w, h := llm.PictureSize(head, mime)
	if w > maxImageSide || h > maxImageSide {
		return tool.Fail(tool.TooLarge, "%s is an image of %dx%d pixels; at most %d per side can be shown, make a smaller copy with exec", s.shown, w, h, maxImageSide), true, nil
	}
	data, err := io.ReadAll(io.LimitReader(r, maxImageBytes+1))
	if err != nil {
		res, err = f.fail(ctx, s.shown, err)
		return res, true, err
	}
	if len(data) > maxImageBytes {
		return tool.Fail(tool.TooLarge, "%s grew while it was read", s.shown), true, nil
	}
	label := "(Image: " + s.shown + ", " + mime + ", " + byteSize(int64(len(data)))
	if w > 0 && h > 0 {
		label += fmt.Sprintf(", %dx%d", w, h)
	}
	url := "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data)
	res.Content = llm.Content{Blocks: []llm.Block{
		{Type: "image_url", ImageURL: url, Path: s.abs},
		{Type: "text", Text: label + ")"},
	}}
	res.Whole, res.Untrusted = true, true // pictures may carry words for the model
	return res, true, nil
}
