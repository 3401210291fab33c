package discord

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// kind is the word of the marker of a file.
func (a attachment) kind(m *message) kit.FileKind {
	if m.Flags&flagVoice != 0 {
		return kit.VoiceFile
	}
	word, _, _ := strings.Cut(a.ContentType, "/")
	switch k := kit.FileKind(word); k {
	case kit.ImageFile, kit.AudioFile, kit.VideoFile:
		return k
	}
	return kit.OtherFile
}

// add fetches the files of a message; own says that its sender sent them, not
// the person who is quoted.
func (b *bot) add(ctx context.Context, files *kit.Files, m *message, own bool) {
	for _, a := range m.Attachments {
		r := kit.Received{Kind: a.kind(m), Name: cmp.Or(a.Filename, a.ID), Size: a.Size, Again: true}
		if r.Kind == kit.VoiceFile && !own {
			r.Kind = kit.AudioFile // anybody's words
		}
		r.Open = func(ctx context.Context) (io.ReadCloser, error) {
			h, err := kit.ClientFor(b.deps, a.URL, b.o.APIBase, b.calls.rest.Client, atDiscord)
			if err != nil {
				return nil, err
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
			if err != nil {
				return nil, chat.Permanent(httpsafe.WithoutURL(err))
			}
			req.Header.Set("User-Agent", agent)
			res, err := kit.Download(h, req)
			if err != nil {
				return nil, err
			}
			return res.Body, nil
		}
		files.Add(ctx, r)
	}
}

func atDiscord(host string) bool {
	return host == "cdn.discordapp.com" || host == "media.discordapp.net"
}
