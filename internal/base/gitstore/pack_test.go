package gitstore

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// packOf writes a pack with its index; each object is given as it stands in
// the pack, under an id that need not be true.
func packOf(t *testing.T, dir string, objects map[hash][]byte) {
	t.Helper()
	pack := []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	binary.BigEndian.PutUint32(pack[8:], uint32(len(objects)))
	var ids []hash
	for h := range objects {
		ids = append(ids, h)
	}
	sortHashes(ids)

	idx := []byte("\xfftOc\x00\x00\x00\x02")
	for b := range 256 {
		n := 0
		for _, h := range ids {
			if int(h[0]) <= b {
				n++
			}
		}
		idx = binary.BigEndian.AppendUint32(idx, uint32(n))
	}
	var offsets []byte
	for _, h := range ids {
		idx = append(idx, h[:]...)
		offsets = binary.BigEndian.AppendUint32(offsets, uint32(len(pack)))
		pack = append(pack, objects[h]...)
	}
	idx = append(idx, make([]byte, 4*len(ids))...)
	idx = append(idx, offsets...)
	sum := sha1.Sum(pack)
	idx = append(idx, sum[:]...)
	own := sha1.Sum(idx)

	folder := filepath.Join(dir, "objects", "pack")
	must(t, os.MkdirAll(folder, 0o700))
	must(t, os.WriteFile(filepath.Join(folder, "pack-x.pack"), append(pack, sum[:]...), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "pack-x.idx"), append(idx, own[:]...), 0o600))
}

func sortHashes(ids []hash) {
	for i := range ids {
		for j := i; j > 0 && bytes.Compare(ids[j][:], ids[j-1][:]) < 0; j-- {
			ids[j], ids[j-1] = ids[j-1], ids[j]
		}
	}
}

// packedAs is an object as it stands in a pack: its kind and size, what it is
// based on, and its data.
func packedAs(kind byte, size int, base, data []byte) []byte {
	first := kind<<4 | byte(size&15)
	out := []byte{first}
	for size >>= 4; size > 0; size >>= 7 {
		out[len(out)-1] |= 0x80
		out = append(out, byte(size&0x7f))
	}
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write(data)
	_ = w.Close()
	return append(append(out, base...), z.Bytes()...)
}

// A pack that was made to do harm is refused, and costs little.
func TestHostilePacks(t *testing.T) {
	t.Parallel()
	at := hash{1}
	self := packedAs(7, 4, at[:], []byte("\x03\x03\x90\x03"))
	chain := map[hash][]byte{}
	for i := range 250 {
		chain[hash{byte(i), 1}] = packedAs(7, 4, (&hash{byte(i + 1), 1})[:], []byte("\x03\x03\x90\x03"))
	}
	chain[at] = packedAs(7, 4, (&hash{0, 1})[:], []byte("\x03\x03\x90\x03"))
	bomb := binary.AppendUvarint(binary.AppendUvarint(nil, 5), 1<<33)
	bomb = append(bomb, bytes.Repeat([]byte{0x90, 5}, 1<<16)...)
	for name, objects := range map[string]map[hash][]byte{
		"based on itself":      {at: self},
		"very long chain":      chain,
		"offset to itself":     {at: packedAs(6, 4, []byte{0}, []byte("\x03\x03\x90\x03"))},
		"offset out of it":     {at: packedAs(6, 4, []byte{0x7f}, []byte("\x03\x03\x90\x03"))},
		"too large":            {at: packedAs(3, maxObject+1, nil, nil)},
		"larger than it says":  {at: packedAs(3, 3, nil, bytes.Repeat([]byte("x"), 1<<20))},
		"smaller than it says": {at: packedAs(3, 300, nil, []byte("x"))},
		"unknown kind":         {at: packedAs(5, 1, nil, []byte("x"))},
		"delta bomb":           {at: packedAs(7, len(bomb), (&hash{2})[:], bomb), {2}: packedAs(3, 5, nil, []byte("hello"))},
		"another content":      {at: packedAs(3, 1, nil, []byte("x"))},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			packOf(t, dir, objects)
			root, err := diskio.OpenTree(dir)
			must(t, err)
			defer root.Close()
			if kind, data, err := (&repo{root: root}).object(at, ""); !errors.Is(err, errCorrupt) {
				t.Errorf("object = %s, %d bytes, %v", kind, len(data), err)
			}
		})
	}
}

// An index that claims more objects than it holds is refused before memory is
// taken for them.
func TestHostilePackIndex(t *testing.T) {
	t.Parallel()
	for name, idx := range map[string]string{
		"empty":        "",
		"no objects":   "\xfftOc\x00\x00\x00\x02" + strings.Repeat("\x00\x00\x00\x00", 256),
		"many objects": "\xfftOc\x00\x00\x00\x02" + strings.Repeat("\x0f\xff\xff\xff", 256) + strings.Repeat("x", 40),
		"not in order": "\xfftOc\x00\x00\x00\x02" + strings.Repeat("\x00\x00\x00\x01\x00\x00\x00\x00", 128) + strings.Repeat("x", 80),
	} {
		dir := t.TempDir()
		packOf(t, dir, map[hash][]byte{{1}: packedAs(3, 1, nil, []byte("x"))})
		must(t, os.WriteFile(filepath.Join(dir, "objects", "pack", "pack-x.idx"), []byte(idx), 0o600))
		root, err := diskio.OpenTree(dir)
		must(t, err)
		_, _, err = (&repo{root: root}).object(hash{1}, "")
		if !errors.Is(err, errCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		must(t, root.Close())
	}
}

// Objects of every form that git packs are read: whole, as differences by
// offset and by name.
func TestPackedObjects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var lines strings.Builder
	for i := range 60 {
		fmt.Fprintf(&lines, "- fact %d is as long as this line\n", i*i)
		b.write("USER.md", lines.String())
		b.commit(fmt.Sprint("fact ", i))
	}
	all, err := b.Log(t.Context(), 0)
	must(t, err)
	for _, form := range []string{"true", "false"} {
		b.git("-c", "repack.useDeltaBaseOffset="+form, "repack", "-adfq")
		for i, c := range all {
			data, err := b.File(t.Context(), c.ID, "USER.md")
			if n := strings.Count(string(data), "\n"); err != nil || n != len(all)-i {
				t.Fatalf("offsets %s, commit %d: %d lines, %v", form, i, n, err)
			}
		}
	}
}

// What git notes in its index about a file survives our commits.
func TestIndexKeepsFlags(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("SOUL.md", "soul\n")
	b.write("USER.md", "user\n")
	b.write("memory/MEMORY.md", "memory\n")
	b.commit("one")
	b.git("update-index", "--assume-unchanged", "SOUL.md")
	b.git("update-index", "--skip-worktree", "memory/MEMORY.md")
	b.write("USER.md", "user 2\n")
	b.commit("two")
	if got := b.git("ls-files", "-v"); got != "h SOUL.md\nH USER.md\nS memory/MEMORY.md\n" {
		t.Errorf("ls-files = %q", got)
	}
}
