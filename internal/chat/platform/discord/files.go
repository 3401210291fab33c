package discord

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// kind returns the word of the marker of a file.
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
	origin := kit.Origin{
		Client: b.calls.rest.Client,
		Bases:  []string{b.o.APIBase},
		Ours:   atDiscord,
		Head:   http.Header{"User-Agent": {agent}},
	}
	for _, a := range m.Attachments {
		r := kit.Received{Kind: a.kind(m), Name: cmp.Or(a.Filename, a.ID), Size: a.Size, Again: true}
		if r.Kind == kit.VoiceFile && !own {
			r.Kind = kit.AudioFile // it may hold the words of any speaker
		}
		r.Open = func(ctx context.Context) (io.ReadCloser, error) { return origin.Open(ctx, b.deps, a.URL) }
		files.Add(ctx, r)
	}
}

func atDiscord(host string) bool {
	return host == "cdn.discordapp.com" || host == "media.discordapp.net"
}
