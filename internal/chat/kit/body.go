package kit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"net/url"
)

// Body is what a call sends. It can be opened again, for a second try or a redirect,
// unless it is a Stream. The zero Body sends nothing.
type Body struct {
	kind string // Content-Type
	size int64
	open func() io.Reader
	once bool
	err  error // of what makes it; a call with it fails
}

func bodyOf(kind string, data []byte, err error) Body {
	return Body{kind: kind, size: int64(len(data)), open: func() io.Reader { return bytes.NewReader(data) }, err: err}
}

const jsonKind = "application/json"

// JSON returns a value as JSON. Of nil nothing is sent.
func JSON(v any) Body {
	if v == nil {
		return Body{}
	}
	data, err := json.Marshal(v)
	return bodyOf(jsonKind, data, err)
}

// PlainJSON is JSON without the escapes for HTML, which platforms with a limit count as text.
func PlainJSON(v any) Body {
	if v == nil {
		return Body{}
	}
	data, err := MarshalPlain(v)
	return bodyOf(jsonKind, data, err)
}

// MarshalPlain is json.Marshal without the escapes for HTML.
func MarshalPlain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// URLEncoded returns a form without files.
func URLEncoded(v url.Values) Body {
	return bodyOf("application/x-www-form-urlencoded", []byte(v.Encode()), nil)
}

// Stream returns what is made while it is sent, such as an encrypted file. A call with it is
// not made a second time.
func Stream(kind string, r io.Reader, size int64) Body {
	return Body{kind: kind, size: size, once: true, open: func() io.Reader { return r }}
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

// JSON adds a value as JSON.
func (f *Form) JSON(name string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		f.err = errors.Join(f.err, err)
		return
	}

	h := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf("form-data; name=%q", name)}, "Content-Type": {jsonKind}}
	part, err := f.w.CreatePart(h)
	if err == nil {
		_, err = part.Write(data)
	}
	f.err = errors.Join(f.err, err)
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
