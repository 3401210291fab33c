package api

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	maxLabels = 3
	// maxSeries bounds the memory of one metric. Further label values are
	// counted together under the label value "other".
	maxSeries = 500
)

// labelSet holds the values of up to maxLabels labels. It is an array so that
// it can be looked up without making anything.
type labelSet [maxLabels]string

// family is one metric: a name and a series for each set of label values.
type family struct {
	name, help, kind string
	labels           []string
	bounds           []float64 // upper bounds of a histogram's buckets

	mu     sync.RWMutex
	series map[labelSet]*series
}

// series is one line of a metric, or several for a histogram.
type series struct {
	bits    atomic.Uint64   // the value, or the sum of a histogram, as float bits
	buckets []atomic.Uint64 // counts per bucket, not cumulative; the last is +Inf
}

func (s *series) add(v float64) {
	for {
		old := s.bits.Load()
		if s.bits.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

func (s *series) value() float64 { return math.Float64frombits(s.bits.Load()) }

// of finds the series of label values, making it the first time.
func (f *family) of(values []string) *series {
	if len(values) != len(f.labels) {
		panic(fmt.Sprintf("metric %s has %d labels, not %d", f.name, len(f.labels), len(values)))
	}

	var key labelSet
	copy(key[:], values)
	f.mu.RLock()
	s := f.series[key]
	f.mu.RUnlock()
	if s != nil {
		return s
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	if s = f.series[key]; s != nil {
		return s
	}

	if len(f.series) >= maxSeries {
		for i := range f.labels {
			key[i] = "other"
		}
		if s = f.series[key]; s != nil {
			return s
		}
	}

	s = &series{}
	if f.bounds != nil {
		s.buckets = make([]atomic.Uint64, len(f.bounds)+1)
	}

	for i, v := range key {
		key[i] = strings.Clone(v) // not the request it came from
	}

	f.series[key] = s
	return s
}

// Counter is a metric that only grows. Its methods are safe for concurrent use
// and allocate nothing once the label values were seen.
type Counter struct{ f *family }

// Add adds to the series of the label values, in the order of the labels.
func (c *Counter) Add(n float64, values ...string) { c.f.of(values).add(n) }

// Histogram counts values by size, used like a Counter.
type Histogram struct{ f *family }

// observe counts one value.
func (h *Histogram) observe(v float64, values ...string) {
	s := h.f.of(values)
	i, _ := slices.BinarySearch(h.f.bounds, v)
	s.buckets[i].Add(1)
	s.add(v)
}

// Registry holds metrics and writes them in the text form of Prometheus.
// Metrics are made before it is shared; from then on it is safe for concurrent
// use. The zero value is empty and ready.
type Registry struct {
	families []*family
	reads    []func(*Reading)
}

// counter makes a metric that only grows.
func (r *Registry) counter(name, help string, labels ...string) *Counter {
	return &Counter{r.add(&family{name: name, help: help, kind: "counter", labels: labels})}
}

// histogram makes a metric that counts values by size; bounds are the upper
// limits of its buckets, growing.
func (r *Registry) histogram(name, help string, bounds []float64, labels ...string) *Histogram {
	return &Histogram{r.add(&family{name: name, help: help, kind: "histogram", bounds: bounds, labels: labels})}
}

func (r *Registry) add(f *family) *family {
	if len(f.labels) > maxLabels {
		panic(fmt.Sprintf("metric %s has more than %d labels", f.name, maxLabels))
	}
	f.series = map[labelSet]*series{}
	if len(f.labels) == 0 {
		f.of(nil) // it exists from the start, as zero
	}
	r.families = append(r.families, f)
	return f
}

// OnRead has a func called each time the metrics are written, for values that
// are looked up rather than counted.
func (r *Registry) OnRead(read func(*Reading)) { r.reads = append(r.reads, read) }

// Reading collects values that are looked up while metrics are written.
type Reading struct {
	families map[string]*family
}

// Gauge tells a value. Labels come as pairs of name and value.
func (r *Reading) Gauge(name, help string, v float64, pairs ...string) {
	r.add(&family{name: name, help: help, kind: "gauge"}, v, pairs)
}

// Counter tells how often something happened that is counted elsewhere.
func (r *Reading) Counter(name, help string, v float64, pairs ...string) {
	r.add(&family{name: name, help: help, kind: "counter"}, v, pairs)
}

func (r *Reading) add(as *family, v float64, pairs []string) {
	f := r.families[as.name]
	if f == nil {
		f = as
		f.series = map[labelSet]*series{}
		for i := 0; i+1 < len(pairs) && len(f.labels) < maxLabels; i += 2 {
			f.labels = append(f.labels, pairs[i])
		}
		r.families[f.name] = f
	}

	var values []string
	for i := 1; i < len(pairs) && len(values) < len(f.labels); i += 2 {
		values = append(values, pairs[i])
	}

	if len(values) == len(f.labels) {
		f.of(values).bits.Store(math.Float64bits(v))
	}
}

// WriteTo writes all metrics, sorted by name and labels.
func (r *Registry) WriteTo(w io.Writer) (int64, error) {
	reading := &Reading{families: map[string]*family{}}
	for _, read := range r.reads {
		read(reading)
	}

	all := slices.Clone(r.families)
	for _, f := range reading.families {
		all = append(all, f)
	}

	slices.SortStableFunc(all, func(a, b *family) int { return cmp.Compare(a.name, b.name) })
	var b bytes.Buffer
	for _, f := range all {
		f.write(&b)
	}
	return b.WriteTo(w)
}

func (f *family) write(b *bytes.Buffer) {
	f.mu.RLock()
	keys := make([]*labelSet, 0, len(f.series))
	for k := range f.series {
		keys = append(keys, &k)
	}

	f.mu.RUnlock()
	slices.SortStableFunc(keys, func(x, y *labelSet) int { return slices.Compare(x[:], y[:]) })
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", f.name, strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(f.help), f.name, f.kind)

	for _, k := range keys {
		f.mu.RLock()
		s := f.series[*k]
		f.mu.RUnlock()
		if f.kind == "histogram" {
			f.writeBuckets(b, *k, s)
			continue
		}
		f.line(b, "", *k, "", s.value())
	}
}

func (f *family) writeBuckets(b *bytes.Buffer, k labelSet, s *series) {
	total := uint64(0)
	for i := range s.buckets {
		bound := "+Inf"
		if i < len(f.bounds) {
			bound = number(f.bounds[i])
		}
		total += s.buckets[i].Load()
		f.line(b, "_bucket", k, bound, float64(total))
	}

	f.line(b, "_sum", k, "", s.value())
	f.line(b, "_count", k, "", float64(total))
}

// line writes one value; bound is the label of a bucket.
func (f *family) line(b *bytes.Buffer, suffix string, k labelSet, bound string, v float64) {
	b.WriteString(f.name + suffix)
	sep := byte('{')
	label := func(name, value string) {
		b.WriteByte(sep)
		sep = ','
		b.WriteString(name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(value, "\uFFFD")) + `"`)
	}
	for i, name := range f.labels {
		label(name, k[i])
	}

	if bound != "" {
		label("le", bound)
	}
	if sep == ',' {
		b.WriteByte('}')
	}
	b.WriteString(" " + number(v) + "\n")
}

func number(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
