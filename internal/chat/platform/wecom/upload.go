package wecom

import (
	"context"
	"crypto/md5" //nolint:gosec // WeCom's checksum
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	chunkSize  = 512 << 10
	chunkTries = 3
	chunkPause = 500 * time.Millisecond
	fileLeast  = 6 // bytes
	imageMost  = 10 << 20
	voiceMost  = 2 << 20
	videoMost  = 10 << 20
)

// sendFile uploads files and sends each as a message.
func (b *bot) sendFile(ctx context.Context, out bus.Outbound) error {
	for _, m := range out.Media {
		kind, id, err := b.upload(ctx, m)
		if err == nil {
			err = b.pushAs(ctx, out, kind, map[string]string{"media_id": id})
		}
		if err != nil {
			return classify(err)
		}
	}
	return nil
}

// upload sends a file to WeCom, which keeps it for three days. What it does not
// take as a picture or a video it takes as a file.
func (b *bot) upload(ctx context.Context, m bus.Media) (kind, id string, err error) {
	f, err := kit.OpenAttachment(ctx, b.deps, m, fileMost)
	if err != nil {
		return "", "", err
	}

	defer f.Close() //nolint:errcheck // read only
	if f.Size() < fileLeast {
		return "", "", chat.Permanent(fmt.Errorf("%s: WeCom takes no file of less than %d bytes", f.Name, fileLeast))
	}

	kind = kindOf(f)
	id, err = b.uploadAs(ctx, f, kind)
	if kind != "file" && chat.IsPermanent(classify(err)) {
		kind = "file"
		id, err = b.uploadAs(ctx, f, kind)
	}
	return kind, id, err
}

// kindOf returns how WeCom shows a file.
func kindOf(f *kit.Attachment) string {
	switch n := f.Size(); {
	case (f.MIME == "image/png" || f.MIME == "image/jpeg") && n <= imageMost:
		return "image"
	case f.MIME == "audio/amr" && n <= voiceMost:
		return "voice"
	case f.MIME == "video/mp4" && n <= videoMost:
		return "video"
	}
	return "file"
}

func (b *bot) uploadAs(ctx context.Context, f *kit.Attachment, kind string) (string, error) {
	sum := md5.New() //nolint:gosec // WeCom's checksum
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, f.Size())); err != nil {
		return "", fmt.Errorf("read the file to send: %w", err)
	}

	chunks := int((f.Size() + chunkSize - 1) / chunkSize)
	answer, err := b.call(ctx, cmdInit, newID(cmdInit), map[string]any{
		"type": kind, "filename": f.Name, "total_size": f.Size(), "total_chunks": chunks, "md5": hex.EncodeToString(sum.Sum(nil)),
	}, uploadTime)
	var got struct {
		UploadID string `json:"upload_id"`
		MediaID  string `json:"media_id"`
	}
	if err = decodeAnswer(answer, err, &got); err != nil {
		return "", err
	}

	piece := make([]byte, chunkSize)
	for i := range chunks {
		n, err := f.ReadAt(piece, int64(i)*chunkSize)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read the file to send: %w", err)
		}
		body := map[string]any{"upload_id": got.UploadID, "chunk_index": i, "base64_data": base64.StdEncoding.EncodeToString(piece[:n])}
		if err := b.uploadChunk(ctx, body); err != nil {
			return "", err
		}
	}

	answer, err = b.call(ctx, cmdFinish, newID(cmdFinish), map[string]string{"upload_id": got.UploadID}, uploadTime)
	if err = decodeAnswer(answer, err, &got); err == nil && got.MediaID == "" {
		err = errors.New("WeCom gives no id for the file")
	}
	return got.MediaID, err
}

// uploadChunk sends a piece of a file, which WeCom often refuses at first.
func (b *bot) uploadChunk(ctx context.Context, body map[string]any) (err error) {
	for try := range chunkTries {
		if try > 0 && wait.For(ctx, time.Duration(try)*chunkPause) != nil {
			return ctx.Err()
		}
		if _, err = b.call(ctx, cmdChunk, newID(cmdChunk), body, uploadTime); err == nil || errors.Is(err, chat.ErrNotReady) {
			return err
		}
	}
	return err
}

func decodeAnswer(answer json.RawMessage, err error, into any) error {
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("the answer of WeCom is not as expected: %w", err)
	}
	return nil
}
