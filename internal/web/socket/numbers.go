package socket

import (
	"crypto/rand"
	"crypto/sha256"
)

const (
	// reservedNumbers is how many numbers of events one write to the disk is
	// good for. The next ones are reserved when half of them are used.
	reservedNumbers = 1 << 20
	// spareNumbers are for what is still said while the program ends.
	spareNumbers = 1 << 10
)

// numbers knows the highest number that an event of any chat has. A chat begins
// behind it, so that the numbers of a chat that was forgotten go on. All numbers
// up to reserved may have been given out, as the disk knows: the next process
// begins there, whatever its clock says and however this one ended. The lock of
// the hub guards it.
type numbers struct {
	highest  int64
	reserved int64
	low      chan struct{} // has one when the next numbers should be reserved; nil before Run
}

// use takes over that an event has a number.
func (n *numbers) use(number int64) {
	n.highest = max(n.highest, number)
	if n.highest < n.reserved-reservedNumbers/2 {
		return
	}
	select {
	case n.low <- struct{}{}:
	default: // it is known already
	}
}

// document is what the channel keeps on the disk.
type document struct {
	MediaKey []byte `json:"mediaKey"`
	// Seq is a number that no event had or will have in this process.
	Seq int64 `json:"seq,omitempty"`
}

// load reads the document; what is missing in it is made.
func (c *Channel) load() (document, error) {
	var doc document
	if c.d.State != nil {
		if err := c.d.State.Load(&doc); err != nil {
			return doc, err
		}
	}

	isNew := len(doc.MediaKey) < sha256.Size
	if isNew {
		doc.MediaKey = make([]byte, sha256.Size)
		_, _ = rand.Read(doc.MediaKey) // never fails
	}

	// Versions before took the first number from the clock.
	c.hub.mu.Lock()
	first := max(doc.Seq, c.hub.now().UnixMicro())
	c.hub.numbers.highest = max(c.hub.numbers.highest, first)
	c.hub.numbers.low = make(chan struct{}, 1)
	c.hub.mu.Unlock()

	err := c.reserve(&doc, reservedNumbers)
	if err != nil && !isNew {
		c.d.Log.Warn("numbers of events may be given twice after a crash", "err", err)
		err = nil
	}
	return doc, err
}

// reserve writes down that as many numbers behind those in use may be given out.
func (c *Channel) reserve(doc *document, more int64) error {
	c.hub.mu.Lock()
	doc.Seq = c.hub.numbers.highest + more
	c.hub.mu.Unlock()

	if c.d.State != nil {
		if err := c.d.State.Save(doc); err != nil {
			return err
		}
	}

	c.hub.mu.Lock()
	c.hub.numbers.reserved = doc.Seq
	c.hub.mu.Unlock()
	return nil
}
