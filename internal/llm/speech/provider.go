package speech

import (
	"cmp"
	"context"
	"mime"
	"net/url"
	"path"
	"strings"
)

// row describes a provider.
type row struct {
	name, env   string
	model       string
	base, path  string
	inline      bool // the recording travels inside JSON
	ask         func(ctx context.Context, s *service, a Audio, f format) (string, error)
	otherSpells string
}

func rows() []row {
	const transcriptions = "/audio/transcriptions"
	return []row{
		{name: "groq", env: "GROQ_API_KEY", model: "whisper-large-v3", base: "https://api.groq.com/openai/v1", path: transcriptions, ask: askMultipart},
		{name: "openai", env: "OPENAI_API_KEY", model: "whisper-1", base: "https://api.openai.com/v1", path: transcriptions, ask: askMultipart},
		{name: "siliconflow", otherSpells: "silicon", env: "SILICONFLOW_API_KEY", model: "FunAudioLLM/SenseVoiceSmall", base: "https://api.siliconflow.cn/v1", path: transcriptions, ask: askMultipart},
		{name: "openrouter", env: "OPENROUTER_API_KEY", model: "openai/whisper-1", base: "https://openrouter.ai/api/v1", path: transcriptions, inline: true, ask: askOpenRouter},
		{name: "xiaomi_mimo", otherSpells: "mimo xiaomi", env: "XIAOMIMIMO_API_KEY", model: "mimo-v2.5-asr", base: "https://api.xiaomimimo.com/v1", path: "/chat/completions", inline: true, ask: askChat},
		{name: "stepfun", env: "STEPFUN_API_KEY", model: "stepaudio-2.5-asr", base: "https://api.stepfun.com/v1", path: "/audio/asr/sse", inline: true, ask: askStepFun},
		{name: "assemblyai", env: "ASSEMBLYAI_API_KEY", model: "universal-3-pro,universal-2", base: "https://api.assemblyai.com/v2", path: "", ask: askAssemblyAI},
	}
}

// Providers lists the names New knows.
func Providers() []string {
	var names []string
	for _, r := range rows() {
		names = append(names, r.name)
	}
	return names
}

// Canonical returns the name of a provider's configuration block for any of its
// spellings; "" means the provider used when none is named. ok is false for
// names New does not know.
func Canonical(name string) (canonical string, ok bool) {
	r, ok := find(cmp.Or(name, "groq"))
	return r.name, ok
}

// UsualModel returns what a provider uses when no model is named.
func UsualModel(name string) string {
	r, _ := find(cmp.Or(name, "groq"))
	return r.model
}

func find(name string) (row, bool) {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "-", "_")
	for _, r := range rows() {
		if r.name == name {
			return r, true
		}
		for other := range strings.FieldsSeq(r.otherSpells) {
			if other == name {
				return r, true
			}
		}
	}

	return row{}, false
}

// endpoint makes the URL to call from what users write as a base: the base of
// the chat API, its full chat URL, or the full URL of the service itself.
func endpoint(base, suffix string) string {
	u, err := url.Parse(strings.TrimSpace(base))
	if err != nil {
		return base
	}

	p := strings.TrimRight(u.Path, "/")
	if full := suffix != "" && strings.HasSuffix(p, suffix) || strings.HasSuffix(p, "/inference"); !full {
		for _, tail := range []string{"/chat/completions", "/audio/transcriptions", "/responses", "/upload", "/transcript"} {
			p = strings.TrimSuffix(p, tail)
		}
		p += suffix
	}

	u.Path = p
	return u.String()
}

// format is how a recording is called on the wire.
type format struct {
	ext  string // as the services spell it, without a dot
	mime string
	name string // a file name with that extension
}

// formatOf tells the format by the name, else by the MIME type. Voice notes
// come as .oga and .opus, which services that look at the extension refuse
// although they read the same bytes as .ogg.
func formatOf(name, mimeType string) (format, bool) {
	ext := strings.ToLower(strings.TrimPrefix(path.Ext(name), "."))
	f, ok := byExtension(ext)
	if !ok {
		f, ok = byMIME(mimeType)
	}

	base := strings.TrimSuffix(path.Base(strings.ReplaceAll(name, `\`, "/")), path.Ext(name))
	if base == "" || base == "." || base == "/" {
		base = "audio"
	}

	f.name = base + "." + f.ext
	return f, ok
}

func byExtension(ext string) (format, bool) {
	switch ext {
	case "m4a", "mp4":
		return format{ext: ext, mime: "audio/mp4"}, true
	case "mp3", "mpga", "mpeg":
		return format{ext: ext, mime: "audio/mpeg"}, true
	case "ogg", "oga", "opus":
		return format{ext: "ogg", mime: "audio/ogg"}, true
	case "webm", "weba":
		return format{ext: "webm", mime: "audio/webm"}, true
	case "wav", "flac", "aac", "amr":
		return format{ext: ext, mime: "audio/" + ext}, true
	default:
		return format{}, false
	}
}

func byMIME(mimeType string) (format, bool) {
	kind, _, err := mime.ParseMediaType(mimeType)
	if err != nil {
		return format{}, false
	}

	switch kind {
	case "audio/mp4", "audio/x-m4a", "audio/m4a", "video/mp4":
		return byExtension("m4a")
	case "audio/mpeg", "audio/mp3":
		return byExtension("mp3")
	case "audio/ogg", "audio/opus", "application/ogg", "audio/x-opus+ogg":
		return byExtension("ogg")
	case "audio/webm", "video/webm":
		return byExtension("webm")
	case "audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave":
		return byExtension("wav")
	case "audio/flac", "audio/x-flac":
		return byExtension("flac")
	case "audio/aac", "audio/x-aac":
		return byExtension("aac")
	case "audio/amr":
		return byExtension("amr")
	default:
		return format{}, false
	}
}
