package files

import (
	"context"
	"crypto/sha256"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
)

type writeInput struct {
	Path    string `json:"path" alias:"file_path|filename|file"`
	Content string `json:"content" alias:"contents|text"`
}

func (f *family) writeFile(ctx context.Context, c tool.Call, in writeInput) (tool.Result, error) {
	if res, no := readOnlyName(in.Path); no {
		return res, nil
	}
	if len(in.Content) > maxEditBytes {
		return tool.Fail(tool.TooLarge, "the content is %s; at most %s are written at once", byteSize(int64(len(in.Content))), byteSize(maxEditBytes)), nil
	}

	w, err := f.jail.WriteAtomic(ctx, in.Path, []byte(in.Content))
	if err != nil {
		return f.fail(ctx, in.Path, err)
	}

	f.wrote(c, in.Path, w, []byte(in.Content))
	verb := "Overwrote"
	if w.Created {
		verb = "Created"
	}
	return tool.Textf("%s %s (%s)", verb, f.show(w.Path), byteSize(int64(len(in.Content)))), nil
}

// wrote records that the session knows a file's content because it made it.
func (f *family) wrote(c tool.Call, name string, w diskio.Written, data []byte) {
	if c.State == nil {
		return
	}
	if abs, err := f.jail.Path(name); err == nil {
		historyOf(c.State).store(abs, record{info: w.Info, hash: sha256.Sum256(data), hashed: true})
	}
}
