// Package schedule runs things later: jobs of people (cron expressions,
// intervals, single moments), the heartbeat, system jobs such as Dream, and
// local triggers. It hides the file format of jobs.json, time zones and
// summer time, what happens to runs that were missed, and how each occurrence
// becomes exactly one message on the queue although the program may die at any
// moment.
package schedule
