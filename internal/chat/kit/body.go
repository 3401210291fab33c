package kit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
)

// Body is what a call sends. It can be opened again, for a second try or a redirect.
// The zero Body sends nothing.
type Body struct {
	kind string // Content-Type
	size int64
	open func() io.Reader
	err  error // of what makes it; a call with it fails
}

func bodyOf(kind string, data []byte, err error) Body {
	return Body{kind: kind, size: int64(len(data)), open: func() io.Reader { return bytes.NewReader(data) }, err: err}
}

const jsonKind = "application/json"

// JSON is a value as JSON. Of nil nothing is sent.
func JSON(v any) Body {
	if v == nil {
		return Body{}
	}
	data, err := json.Marshal(v)
	return bodyOf(jsonKind, data, err)
}

// Form is a form with files, which are read while they are sent and not before.
type Form struct {
	head  bytes.Buffer // what was written since the last file
	w     *multipart.Writer
	parts []func() io.Reader
	size  int64
	err   error
}

// NewForm makes a form without fields.
func NewForm() *Form {
	f := &Form{}
	f.w = multipart.NewWriter(&f.head)
	return f
}

// Field adds a value.
func (f *Form) Field(name, value string) {
	f.err = errors.Join(f.err, f.w.WriteField(name, value))
}

// File adds a file. It must not change until the call ended.
func (f *Form) File(field, name string, file io.ReaderAt, size int64) {
	_, err := f.w.CreateFormFile(field, name)
	f.err = errors.Join(f.err, err)
	f.flush()
	f.parts = append(f.parts, func() io.Reader { return io.NewSectionReader(file, 0, size) })
	f.size += size
}

// flush makes a part of what was written since the last file.
func (f *Form) flush() {
	data := bytes.Clone(f.head.Bytes())
	f.head.Reset()
	f.parts = append(f.parts, func() io.Reader { return bytes.NewReader(data) })
	f.size += int64(len(data))
}

// Body ends the form.
func (f *Form) Body() Body {
	f.err = errors.Join(f.err, f.w.Close())
	f.flush()
	open := func() io.Reader {
		readers := make([]io.Reader, len(f.parts))
		for i, part := range f.parts {
			readers[i] = part()
		}
		return io.MultiReader(readers...)
	}
	return Body{kind: f.w.FormDataContentType(), size: f.size, open: open, err: f.err}
}
