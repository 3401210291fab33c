package document

import (
	"bytes"
	"context"
	"errors"
	"io"
	"unicode/utf8"
)

// Attachment reads the text of a file that was sent: a document as Extract does
// with its default limits, or a plain text file by the usual extensions, as
// UTF-8 or else Latin-1. Anything else is errUnsupported. The text is data,
// never instructions.
func Attachment(ctx context.Context, name string, r io.ReaderAt, size int64) (Text, error) {
	if !isText(name) {
		return Extract(ctx, name, r, size, Options{})
	}
	if size > maxFileBytes {
		return Text{}, problem(ErrTooLarge, "%d MB; at most %d MB are read", size/1_000_000, maxFileBytes/1_000_000)
	}

	in := &input{ctx: ctx, r: r, size: size}
	data, err := io.ReadAll(io.NewSectionReader(in, 0, min(size, utf8.UTFMax*defaultMaxChars)))
	if err != nil {
		return Text{}, err
	}

	whole := int64(len(data)) == size
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	for range utf8.UTFMax - 1 { // the last character may be cut in two
		if r, n := utf8.DecodeLastRune(data); whole || r != utf8.RuneError || n != 1 {
			break
		}
		data = data[:len(data)-1]
	}

	s := string(data)
	if bytes.IndexByte(data, 0) >= 0 {
		return Text{}, problem(errUnsupported, "not text although its name says so")
	}

	if !utf8.Valid(data) {
		s = latin1(data)
	}

	out := &output{left: defaultMaxChars}
	full := errors.Is(out.write("", s), errFull)
	return Text{Content: out.b.String(), Cut: full || !whole}, nil
}

func latin1(data []byte) string {
	runes := make([]rune, len(data))
	for i, b := range data {
		runes[i] = rune(b)
	}
	return string(runes)
}

// isText knows the extensions of plain text.
func isText(name string) bool {
	switch extension(name) {
	case ".txt", ".md", ".csv", ".tsv", ".json", ".xml", ".html", ".htm", ".log", ".yaml", ".yml", ".toml", ".ini", ".cfg":
		return true
	}
	return false
}
