package api

import (
	"context"
	"net/http"
)

// encoder writes the answer to one request in the form of its protocol: either
// as a whole, or between open and one of end and fail as a stream.
type encoder interface {
	// whole returns the body of an answer that is not streamed.
	whole(got answer) any
	// open returns what takes the text and the events of the turn. They are
	// written to s.
	open(s *stream) sink
	// end ends the stream of a turn that was answered.
	end(got answer)
	// fail ends the stream of a turn that failed after the stream began. Before
	// that, the error is the status of the request.
	fail(f *fault)
}

// answer has the turn of a request done and sends what comes of it.
func (a *API) answer(w http.ResponseWriter, r *http.Request, c *call, e encoder) error {
	ctx, leave, err := a.enter(r.Context())
	if err != nil {
		return err
	}

	defer leave()
	if c.stream {
		return a.stream(ctx, w, c, e)
	}

	got, err := a.run(ctx, c, sink{})
	if err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, e.whole(got))
}

func (a *API) stream(ctx context.Context, w http.ResponseWriter, c *call, e encoder) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := newStream(w, cancel)
	defer s.release()

	out := e.open(s)
	stop := s.beat(a.ping)
	got, err := a.run(ctx, c, out)
	stop()

	switch {
	case err == nil:
		e.end(got)
	case s.isBegun():
		e.fail(a.failed(ctx, w, err))
	default:
		return err
	}

	return nil
}

// failed makes a fault of an error that comes too late for a status.
func (a *API) failed(ctx context.Context, w http.ResponseWriter, err error) *fault {
	f := a.explain(err)
	if f.err != nil && !gone(ctx) {
		a.o.Log.WarnContext(ctx, "api stream", "request", w.Header().Get(headerRequest), "status", f.status, "err", f.err)
	}
	return f
}
