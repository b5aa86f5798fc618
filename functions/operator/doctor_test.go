package main

import (
	"strings"
	"testing"

	"outbox-dispatcher/internal/testkit/n8ntest"
)

func TestDoctorOnTheCommandLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := n8ntest.New(t)
	server.RequireToken("topsecret")
	b.env["N8N_WEBHOOK_URL"], b.env["N8N_WEBHOOK_TRIGGER_TOKEN"] = server.URL()+"?key=querysecret", "topsecret"

	o := b.run("doctor").want(0, "no fault was found", "")
	o.want(0, "ok       n8n answer         a GET was answered with HTTP 404, as by an active webhook for POST; nothing was run", "")
	o.want(0, "unknown  token accepted     not tried", "")
	if server.Count() != 0 {
		t.Errorf("%d POSTs that nobody asked for", server.Count())
	}
	o = b.run("doctor", "--post", "--json").want(0, "", "")
	if v := o.json(); v["ok"] != true || v["faults"] != 0.0 || len(v["checks"].([]any)) != 18 || server.Count() != 1 {
		t.Errorf("%v, %d POSTs", v, server.Count())
	}

	b.exec("drop index outbox_events_dispatch_lease; revoke all on outbox_events from public")
	o = b.run("doctor").want(3, "fault    indexes            outbox_events_dispatch_lease is missing", "")
	o.want(3, "mend: run operator migrate", "").want(3, "2 faults were found", "")

	b.env["N8N_WEBHOOK_TRIGGER_TOKEN"] = "wrongsecret"
	b.run("doctor", "--post").want(3, "n8n refuses the token: HTTP 403", "")
	b.env["DATABASE_URL"] = "postgres://people:dbsecret@127.0.0.1:1/orders"
	o = b.run("doctor", "--post", "--json").want(3, "refuses connections", "")
	for _, secret := range []string{"topsecret", "wrongsecret", "querysecret", "dbsecret"} {
		if strings.Contains(o.out+o.err, secret) {
			t.Errorf("a secret is shown: %s", o.out)
		}
	}
}

// Before the first deploy nothing may be there, and the doctor works all the same.
func TestDoctorWithNothingThere(t *testing.T) {
	t.Parallel()
	b := &bench{t: t, env: map[string]string{}}
	o := b.run("doctor").want(3, "N8N_WEBHOOK_URL is not set", "")
	o.want(3, "DATABASE_URL is not set", "").want(3, "1 fault was found", "")
	b.env["DATABASE_URL"] = "postgres://x:dbsecret@[::bad/"
	o = b.run("doctor").want(3, "", "")
	if strings.Contains(o.out+o.err, "dbsecret") {
		t.Error(o.out)
	}
}
