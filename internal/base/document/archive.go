package document

import (
	"archive/zip"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"strings"
)

// Limits of Office files, which are zip archives of XML.
const (
	maxMembers     = 10_000
	maxMemberBytes = 128 << 20
	maxTotalBytes  = 256 << 20
	maxDirBytes    = 4 << 20 // of the table of contents
	maxDepth       = 256     // of XML elements
	maxTokenBytes  = 1 << 20 // of one tag or one run of text
)

// archive is an open Office file.
type archive struct {
	in      *input
	members map[string]*zip.File // by lower-case name
	total   int64                // bytes decompressed so far

	memberLimit, totalLimit int64
}

// openArchive reads the table of contents. The number of members it claims is
// not believed: the bytes read for it are bounded.
func openArchive(in *input) (*archive, error) {
	dir := &dirReader{in: in, left: maxDirBytes}
	r, err := zip.NewReader(dir, in.size)
	if dir.left <= 0 || err == nil && len(r.File) > maxMembers {
		return nil, problem(ErrTooLarge, "more than %d parts", maxMembers)
	}
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // names are only looked up, never written
		return nil, problem(errMalformed, "not a readable zip archive; the file is damaged or something else")
	}

	dir.open = true
	z := &archive{in: in, members: make(map[string]*zip.File, len(r.File)), memberLimit: maxMemberBytes, totalLimit: maxTotalBytes}
	for _, f := range r.File {
		if f.Flags&1 != 0 {
			return nil, problem(errEncrypted, "its parts are encrypted; save it again without a password")
		}
		name := strings.ToLower(strings.TrimPrefix(strings.ReplaceAll(f.Name, `\`, "/"), "/"))
		if z.members[name] == nil {
			z.members[name] = f
		}
	}

	return z, nil
}

// dirReader bounds what is read until open is set.
type dirReader struct {
	in   *input
	left int64
	open bool
}

func (d *dirReader) ReadAt(p []byte, off int64) (int, error) {
	if !d.open {
		if d.left -= int64(len(p)); d.left <= 0 {
			return 0, io.ErrUnexpectedEOF
		}
	}
	return d.in.ReadAt(p, off)
}

func (z *archive) has(name string) bool { return z.members[strings.ToLower(name)] != nil }

// member is a part of the archive while it is decompressed.
type member struct {
	z     *archive
	r     io.ReadCloser
	bytes int64
	token int64 // bytes since the last XML token ended
}

func (m *member) Read(p []byte) (int, error) {
	if err := m.z.in.ctx.Err(); err != nil {
		return 0, err
	}

	n, err := m.r.Read(p)
	m.bytes += int64(n)
	m.token += int64(n)
	m.z.total += int64(n)

	switch {
	case m.bytes > m.z.memberLimit:
		return 0, problem(ErrTooLarge, "a part decompresses to more than %d MiB", m.z.memberLimit>>20)
	case m.z.total > m.z.totalLimit:
		return 0, problem(ErrTooLarge, "it decompresses to more than %d MiB", m.z.totalLimit>>20)
	case m.token > maxTokenBytes:
		return 0, problem(ErrTooLarge, "a single tag or text is over %d MiB", maxTokenBytes>>20)
	}

	return n, err
}

// part is a stream of XML tokens with the limits applied.
type part struct {
	m     *member
	dec   *xml.Decoder
	depth int
}

// open starts reading a part. A missing one is an error.
func (z *archive) open(name string) (*part, error) {
	f := z.members[strings.ToLower(name)]
	if f == nil {
		return nil, problem(errMalformed, "the part %s is missing", name)
	}

	r, err := f.Open()
	if errors.Is(err, zip.ErrAlgorithm) {
		return nil, problem(errUnsupported, "the part %s is compressed in an unusual way", name)
	}
	if err != nil {
		return nil, z.wrap(err)
	}

	m := &member{z: z, r: r}
	// Strict, so that entities other than the five of XML are errors.
	return &part{m: m, dec: xml.NewDecoder(m)}, nil
}

func (p *part) close() { _ = p.m.r.Close() }

// next returns the next start tag, end tag or text; io.EOF at the end. Tags are
// named without their namespace prefix, which producers choose freely but never
// so that two meanings meet in the parts we read.
func (p *part) next() (xml.Token, error) {
	for {
		t, err := p.dec.RawToken()
		p.m.token = 0
		if err != nil {
			if errors.Is(err, io.EOF) && p.depth > 0 {
				return nil, problem(errMalformed, "a part ends too early")
			}
			return nil, p.m.z.wrap(err)
		}

		switch t.(type) {
		case xml.StartElement:
			if p.depth++; p.depth > maxDepth {
				return nil, problem(ErrTooLarge, "elements nested deeper than %d", maxDepth)
			}
			return t, nil

		case xml.EndElement:
			if p.depth--; p.depth < 0 {
				return nil, problem(errMalformed, "end tags without start")
			}
			return t, nil

		case xml.CharData:
			return t, nil
		case xml.Directive:
			return nil, problem(errMalformed, "a DOCTYPE, which such files never need")
		}
	}
}

// skip reads past the element whose start tag was just read.
func (p *part) skip() error {
	for want := p.depth - 1; p.depth > want; {
		if _, err := p.next(); err != nil {
			return err
		}
	}
	return nil
}

// each calls fn for every start tag. fn may read on, but not past the end of its element.
func (z *archive) each(name string, fn func(p *part, e xml.StartElement) error) error {
	p, err := z.open(name)
	if err != nil {
		return err
	}

	defer p.close()
	for {
		t, err := p.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}

		if e, ok := t.(xml.StartElement); ok {
			if err := fn(p, e); err != nil {
				return err
			}
		}
	}
}

// wrap words errors of the decoders; ours and the deadline's pass.
func (z *archive) wrap(err error) error {
	if _, ok := errors.AsType[*failure](err); ok || errors.Is(err, io.EOF) || z.in.ctx.Err() != nil {
		return err
	}
	if se, ok := errors.AsType[*xml.SyntaxError](err); ok {
		return problem(errMalformed, "bad XML: %s", se.Msg)
	}
	return problem(errMalformed, "a part cannot be decompressed: %v", err)
}

// attr returns the value of an attribute, by name without prefix.
func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// prefixed returns the value of an attribute whose name has a prefix, such as r:id
// beside a plain id.
func prefixed(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name && a.Name.Space != "" {
			return a.Value
		}
	}
	return ""
}

// relations maps the ids a part uses for other parts to their names.
func (z *archive) relations(name string) (byID map[string]string, byType map[string]string, err error) {
	byID, byType = map[string]string{}, map[string]string{}
	rels := path.Join(path.Dir(name), "_rels", path.Base(name)+".rels")
	if !z.has(rels) {
		return byID, byType, nil
	}

	err = z.each(rels, func(_ *part, e xml.StartElement) error {
		if e.Name.Local != "Relationship" || attr(e, "TargetMode") == "External" {
			return nil
		}
		if len(byID) >= maxMembers {
			return problem(ErrTooLarge, "more than %d relations", maxMembers)
		}

		target := strings.ReplaceAll(attr(e, "Target"), `\`, "/")
		if strings.HasPrefix(target, "/") {
			target = path.Clean(target)[1:]
		} else {
			target = path.Join(path.Dir(name), target)
		}

		byID[attr(e, "Id")] = target
		kind := path.Base(attr(e, "Type"))
		if byType[kind] == "" {
			byType[kind] = target
		}
		return nil
	})
	return byID, byType, err
}

// main finds the part the document starts with.
func (z *archive) main(usual string) (string, error) {
	_, byType, err := z.relations("")
	if err != nil {
		return "", err
	}
	if name := byType["officeDocument"]; name != "" && z.has(name) {
		return name, nil
	}
	if !z.has(usual) {
		return "", problem(errMalformed, "the part %s is missing; this is another kind of file", usual)
	}
	return usual, nil
}
