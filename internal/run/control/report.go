package control

import (
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// Report returns the status as /readyz tells it.
func (s *Status) Report() api.Report {
	var r api.Report
	add := func(name string, ok, optional bool, detail string) {
		r.Checks = append(r.Checks, api.Check{Name: name, OK: ok, Optional: optional, Detail: detail})
	}
	add("agent", s.Model != "" && s.Wrong.Agent == "", false, s.Wrong.Agent)
	queue := ""
	if s.Queue.Err != nil {
		queue = s.Queue.Err.Error()
	}

	add("queue", s.Queue.Err == nil, false, queue)
	add("schedule", s.Wrong.Schedule == "", s.Ready, s.Wrong.Schedule) // a file that has to be mended is not a reason to keep clients away
	add("model", s.Wrong.Model == "", true, s.Wrong.Model)
	add("disk", s.Wrong.Disk == "", true, s.Wrong.Disk) // messages that cannot be kept are the queue's matter

	for _, c := range s.Channels {
		if c.Enabled {
			add("channel "+c.Name, c.State == deliver.Running, true, c.Error)
		}
	}

	add("configuration", s.Wrong.Config == "", true, s.Wrong.Config)
	return r
}

// Measure tells /metrics what the status says in figures.
func (s *Status) Measure(r *api.Reading) {
	r.Gauge("nanobot_turns_running", "Turns that run now.", float64(s.Agent.Turns))
	r.Gauge("nanobot_queue_depth", "Messages that wait.", float64(s.Queue.Inbound), "direction", "in")
	out := 0
	for _, n := range s.Queue.Outbound {
		out += n
	}

	r.Gauge("nanobot_queue_depth", "Messages that wait.", float64(out), "direction", "out")
	for i := range s.Channels {
		c := &s.Channels[i]
		up := 0.0
		if c.State == deliver.Running {
			up = 1
		}

		r.Gauge("nanobot_channel_up", "Whether a channel is connected.", up, "channel", c.Name)
		r.Counter("nanobot_channel_restarts_total", "How often a channel was connected again.", float64(c.Restarts), "channel", c.Name)
		r.Counter("nanobot_received_total", "Messages that came in.", float64(c.Received), "channel", c.Name)
		r.Counter("nanobot_denied_total", "Messages of people who may not talk to us.", float64(c.Denied), "channel", c.Name)
		r.Counter("nanobot_outbound_retries_total", "Attempts to send something again.", float64(c.Retries), "channel", c.Name)
		if c.Name == "websocket" {
			r.Gauge("nanobot_ws_clients", "Connections of the socket.", float64(c.Clients))
		}

		const name, help = "nanobot_deliveries_total", "Messages that were delivered, or could not be."
		r.Counter(name, help, float64(c.Sent), "channel", c.Name, "status", "delivered")
		r.Counter(name, help, float64(c.Failed), "channel", c.Name, "status", "failed")
	}
}
