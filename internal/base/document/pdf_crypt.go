package document

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5" //nolint:gosec // what the format prescribes
	"crypto/rc4" //nolint:gosec // what the format prescribes
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/binary"
	"io"
)

// Many PDF files are encrypted with an empty password, so that everyone can read
// them and programs ask before they print or change them. This is the standard
// security handler of ISO 32000-2, 7.6, as far as opening such files needs it.

// method is how streams or strings are encrypted.
type method byte

const (
	identity method = iota // not at all
	byRC4
	byAES128
	byAES256
)

// crypt undoes the encryption of a file.
type crypt struct {
	key              []byte
	streams, strings method
}

// padding stands for a password that is empty.
const padding = "\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A"

// unlock finds the key of an encrypted file whose password is empty.
func (d *pdf) unlock() error {
	locked := problem(errEncrypted, "protected with a password; make a copy without encryption, for example with: qpdf --decrypt in.pdf out.pdf")
	enc, ok := d.resolve(d.trailer["Encrypt"]).(dict)
	if !ok || d.resolve(enc["Filter"]) != name("Standard") {
		return locked
	}

	version, _ := d.resolve(enc["V"]).(int)
	c := &crypt{streams: byRC4, strings: byRC4}
	switch version {
	case 1, 2:
	case 4, 5:
		c.streams, c.strings = d.method(enc, "StmF"), d.method(enc, "StrF")
	default:
		return locked
	}

	if revision, _ := d.resolve(enc["R"]).(int); revision >= 5 {
		c.key = d.newKey(enc, revision)
	} else {
		c.key = d.oldKey(enc, version, revision)
	}

	if c.key == nil {
		return locked
	}

	d.crypt = c
	clear(d.packs)
	d.packBytes = 0
	return nil
}

// method returns the one that a crypt filter names.
func (d *pdf) method(enc dict, which name) method {
	filter, _ := d.resolve(enc[which]).(name)
	all, _ := d.resolve(enc["CF"]).(dict)
	cf, _ := d.resolve(all[filter]).(dict)
	switch how, _ := d.resolve(cf["CFM"]).(name); how {
	case "V2":
		return byRC4
	case "AESV2":
		return byAES128
	case "AESV3":
		return byAES256
	}

	return identity
}

// oldKey returns the key of files up to version 1.7, nil if a password is needed.
func (d *pdf) oldKey(enc dict, version, revision int) []byte {
	owner, _ := d.resolve(enc["O"]).(text)
	user, _ := d.resolve(enc["U"]).(text)
	rights, _ := d.resolve(enc["P"]).(int)
	if len(owner) < 32 || len(user) < 32 {
		return nil
	}

	size := 5
	if bits, ok := d.resolve(enc["Length"]).(int); ok && version >= 2 && bits >= 40 && bits <= 128 {
		size = bits / 8
	}
	if version == 4 {
		size = 16
	}

	var id text
	if ids := d.list(d.trailer["ID"]); len(ids) > 0 {
		id, _ = d.resolve(ids[0]).(text)
	}

	seed := []byte(padding + string(owner[:32]))
	seed = binary.LittleEndian.AppendUint32(seed, uint32(int64(rights))) //nolint:gosec // 32 bits, with or without a sign
	seed = append(seed, id...)
	if plain, ok := d.resolve(enc["EncryptMetadata"]).(bool); ok && !plain && revision >= 4 {
		seed = append(seed, 0xFF, 0xFF, 0xFF, 0xFF)
	}

	first := md5.Sum(seed) //nolint:gosec // as above
	key := first[:]
	if revision >= 3 {
		for range 50 {
			sum := md5.Sum(key[:size]) //nolint:gosec // as above
			key = sum[:]
		}
	}

	key = key[:size]

	proof, known := []byte(padding), []byte(user[:32])
	if revision >= 3 {
		sum := md5.Sum([]byte(padding + string(id))) //nolint:gosec // as above
		proof, known = sum[:], known[:16]
	}

	for i := range byte(20) {
		mixed := bytes.Clone(key)
		for j := range mixed {
			mixed[j] ^= i
		}

		stream, err := rc4.NewCipher(mixed) //nolint:gosec // as above
		if err != nil {
			return nil
		}

		stream.XORKeyStream(proof, proof)
		if revision < 3 {
			break
		}
	}

	if subtle.ConstantTimeCompare(proof, known) != 1 {
		return nil
	}
	return key
}

// newKey returns the key of files of version 2.0 and shortly before, nil if a password
// is needed.
func (d *pdf) newKey(enc dict, revision int) []byte {
	user, _ := d.resolve(enc["U"]).(text)
	packed, _ := d.resolve(enc["UE"]).(text)
	if len(user) < 48 || len(packed) < 32 {
		return nil
	}

	hash := func(salt text) []byte {
		sum := sha256.Sum256([]byte(salt))
		if revision == 5 {
			return sum[:]
		}
		return strengthen(sum[:])
	}
	if subtle.ConstantTimeCompare(hash(user[32:40]), []byte(user[:32])) != 1 {
		return nil
	}

	block, err := aes.NewCipher(hash(user[40:48]))
	if err != nil {
		return nil
	}

	key := []byte(packed[:32])
	cipher.NewCBCDecrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(key, key)
	return key
}

// strengthen is the slow hash of revision 6, of the empty password.
func strengthen(k []byte) []byte {
	const rounds, most = 64, 1024 // the end depends on chance; it never takes this many
	for i := range most {
		block, err := aes.NewCipher(k[:16])
		if err != nil {
			return nil
		}

		e := bytes.Repeat(k, 64)
		cipher.NewCBCEncrypter(block, k[16:32]).CryptBlocks(e, e)
		rest := 0
		for _, b := range e[:16] {
			rest += int(b)
		}

		switch rest % 3 {
		case 0:
			sum := sha256.Sum256(e)
			k = sum[:]
		case 1:
			sum := sha512.Sum384(e)
			k = sum[:]
		default:
			sum := sha512.Sum512(e)
			k = sum[:]
		}

		if i+1 >= rounds && int(e[len(e)-1]) <= i+1-32 {
			break
		}
	}

	return k[:32]
}

// id is the number and the generation of an object, which its key depends on.
type id struct{ num, generation int }

// keyOf returns the key of an object.
func (c *crypt) keyOf(o id, how method) []byte {
	if how == byAES256 {
		return c.key
	}

	n, g := o.num, o.generation
	k := append(bytes.Clone(c.key), byte(n), byte(n>>8), byte(n>>16), byte(g), byte(g>>8)) //nolint:gosec // the low bytes
	if how == byAES128 {
		k = append(k, "sAlT"...)
	}

	sum := md5.Sum(k) //nolint:gosec // as above
	return sum[:min(len(c.key)+5, 16)]
}

// open decrypts the data of an object. What is damaged ends early.
func (c *crypt) open(r io.Reader, o id, how method) io.Reader {
	nothing := bytes.NewReader(nil)
	key := c.keyOf(o, how)
	switch how {
	case byRC4:
		stream, err := rc4.NewCipher(key) //nolint:gosec // as above
		if err != nil {
			return nothing
		}
		return cipher.StreamReader{S: stream, R: r}
	case byAES128, byAES256:
		block, err := aes.NewCipher(key)
		iv := make([]byte, aes.BlockSize)
		if err != nil {
			return nothing
		}
		if _, err := io.ReadFull(r, iv); err != nil {
			return nothing
		}
		return &blocks{r: r, mode: cipher.NewCBCDecrypter(block, iv)}
	}

	return r
}

// inside decrypts the strings in an object.
func (c *crypt) inside(o object, of id, depth int) object {
	if depth > maxNesting {
		return o
	}

	switch v := o.(type) {
	case text:
		b, err := io.ReadAll(c.open(bytes.NewReader([]byte(v)), of, c.strings))
		if err != nil {
			return text("")
		}
		return text(b)

	case array:
		for i := range v {
			v[i] = c.inside(v[i], of, depth+1)
		}
	case dict:
		for k := range v {
			v[k] = c.inside(v[k], of, depth+1)
		}
	}

	return o
}

// blocks decrypts data block by block and leaves out the filling at its end.
type blocks struct {
	r    io.Reader
	mode cipher.BlockMode
	buf  [4096]byte
	out  []byte // decrypted, not yet read
	last []byte // decrypted, perhaps with the filling
	over bool
}

func (b *blocks) Read(p []byte) (int, error) {
	for len(b.out) == 0 {
		if b.over {
			return 0, io.EOF
		}
		b.next()
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

// next decrypts some more, and holds back the last block until it is known whether
// another one follows.
func (b *blocks) next() {
	n, err := io.ReadFull(b.r, b.buf[:])
	n -= n % aes.BlockSize
	b.mode.CryptBlocks(b.buf[:n], b.buf[:n])
	got := append(b.last, b.buf[:n]...)
	if err == nil {
		b.out, b.last = got[:len(got)-aes.BlockSize], bytes.Clone(got[len(got)-aes.BlockSize:])
		return
	}

	b.over = true
	if len(got) > 0 {
		if fill := int(got[len(got)-1]); fill >= 1 && fill <= aes.BlockSize && fill <= len(got) {
			got = got[:len(got)-fill]
		}
	}

	b.out = got
}
