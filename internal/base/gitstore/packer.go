package gitstore

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git names packs by SHA-1
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
)

// packer collects objects, to write them as one pack: many at once cost two
// files and two syncs instead of one of each per object.
type packer struct {
	body  bytes.Buffer // behind the header
	index idxfile.Writer
	held  map[hash]bool
	most  int // bytes of body
}

const packHeader = 12 // bytes

var errTooMuch = fmt.Errorf("its versions are more than %d MiB", importSize>>20)

// add takes an object.
func (p *packer) add(kind string, data []byte) (hash, error) {
	h := hashOf(kind, data)
	if p.held[h] {
		return h, nil
	}

	t, err := plumbing.ParseObjectType(kind)
	if err != nil {
		return h, err
	}

	at := p.body.Len()

	n := len(data)
	b := byte(t)<<4 | byte(n&15) //nolint:gosec // one of four kinds
	for n >>= 4; n > 0; n >>= 7 {
		p.body.WriteByte(b | 0x80)
		b = byte(n & 0x7f)
	}

	p.body.WriteByte(b)
	z := zlib.NewWriter(&p.body)
	_, _ = z.Write(data) // a buffer takes everything
	if err := z.Close(); err != nil {
		return h, err
	}
	if p.body.Len() > p.most {
		return h, errTooMuch
	}

	if p.held == nil {
		p.held = map[hash]bool{}
	}

	p.held[h] = true
	p.index.Add(plumbing.Hash(h), uint64(packHeader+at), crc32.ChecksumIEEE(p.body.Bytes()[at:])) //nolint:gosec // far smaller
	return h, nil
}

// write stores the pack in a repository.
func (p *packer) write(r *repo) error {
	pack := append([]byte("PACK"), 0, 0, 0, 2)
	pack = binary.BigEndian.AppendUint32(pack, uint32(len(p.held))) //nolint:gosec // far fewer
	pack = append(pack, p.body.Bytes()...)
	sum := sha1.Sum(pack) //nolint:gosec // as git does
	if err := p.index.OnFooter(sum); err != nil {
		return err
	}

	idx, err := p.index.Index()
	if err != nil {
		return err
	}

	var b bytes.Buffer
	if _, err := idxfile.NewEncoder(&b).Encode(idx); err != nil {
		return err
	}

	name := fmt.Sprintf("objects/pack/pack-%x", sum)
	if err := r.replace(name+".pack", append(pack, sum[:]...)); err != nil {
		return err
	}

	r.packs = nil
	r.looked = false
	r.indexed = 0
	return r.replace(name+".idx", b.Bytes()) // last: it makes the pack seen
}
