package doctor_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/n8n"
	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/operator/doctor"
	"outbox-dispatcher/internal/secret"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

// patient is a database as the doctor sees it.
type patient struct {
	session    operator.Session
	sessionErr error
	inspection operator.Inspection
	overview   operator.Overview
	roles      []string // that were asked about
}

func (p *patient) Session(context.Context) (operator.Session, error) { return p.session, p.sessionErr }

func (p *patient) Inspect(_ context.Context, roles []string) (operator.Inspection, error) {
	p.roles = roles
	return p.inspection, nil
}

func (p *patient) Overview(context.Context) (operator.Overview, error) { return p.overview, nil }

// ward is a doctor whose patient is well: over TLS, with everything as it has to
// be.
type ward struct {
	doctor.Doctor
	patient *patient
	n8n     *n8ntest.Server
	env     map[string]string
}

const token = "topsecret-token"

// unreadable is a secret that may not be read.
type unreadable struct{ secret.Static }

func (unreadable) Token(context.Context) (string, error) { return "", errors.New("access denied") }

func healthy(t *testing.T) *ward {
	t.Helper()
	server := n8ntest.NewTLS(t)
	server.RequireToken(token)
	w := &ward{n8n: server, env: map[string]string{"DISPATCHER_TIMEOUT_SECONDS": "120"}, patient: &patient{
		session: operator.Session{Role: "people", Database: "orders", Version: "17.2", TLS: "TLS 1.3", Verified: true, RoundTrip: time.Millisecond},
		inspection: operator.Inspection{
			Table: `"outbox_events"`, ControlTable: `"outbox_events_control"`, Exists: true, Ordinary: true, HasControl: true,
			Indexes: []operator.IndexState{{Name: "due", There: true, Valid: true}, {Name: "lease", There: true, Valid: true}},
			Rights: []operator.Rights{
				{Role: "people", Schema: true, Select: true, Update: true, Delete: true, ReadsControl: true, WritesControl: true},
				{Role: "outbox_dispatcher", Schema: true, Select: true, Update: true, ReadsControl: true},
			},
		},
		overview: operator.Overview{Leased: 1},
	}}
	w.aim(t, server.URL(), server.TLS())
	w.Settings.HTTPTimeout, w.Settings.Lease, w.Settings.Enabled = 2*time.Second, 180*time.Second, true
	w.Lookup = func(name string) (string, bool) { v, ok := w.env[name]; return v, ok }
	w.Store = w.patient
	w.Tokens = secret.Static(token)
	return w
}

// aim points the doctor at a webhook.
func (w *ward) aim(t *testing.T, to string, trust *tls.Config) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	w.Settings.WebhookURL, w.TLS = u, trust
	w.Webhook = n8n.New(n8n.Options{URL: u, Timeout: 2 * time.Second, TLS: trust})
}

func (w *ward) examine(t *testing.T, asked operator.Doctor) (operator.Diagnosis, map[string]operator.Check) {
	t.Helper()
	d, err := w.Examine(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	checks := map[string]operator.Check{}
	for _, c := range d.Checks {
		checks[c.Name] = c
	}
	return d, checks
}

func TestAHealthyPatient(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	d, checks := w.examine(t, operator.Doctor{})
	if !d.OK || d.Faults != 0 {
		t.Errorf("%+v", d)
	}
	var order []string
	for _, c := range d.Checks {
		order = append(order, c.Name)
	}
	const want = "settings, token, database secret, database, database TLS, own role, dispatcher's role, table, indexes, migration, clock, " +
		"n8n name, n8n connection, n8n answer, token accepted, way out, schedule, lease"
	if got := strings.Join(order, ", "); got != want {
		t.Errorf("checked %s", got)
	}
	for name, c := range checks {
		result := operator.OK
		switch name {
		case "token accepted", "way out":
			result = operator.Unknown
		case "n8n connection": // the certificate of a test is for a day
			result = operator.Warning
		}
		if c.Result != result || c.Text == "" || (c.Result != operator.OK) != (c.Mend != "") {
			t.Errorf("%+v", c)
		}
	}
	// Nothing was run: one GET, no POST.
	if w.n8n.Count() != 0 || fmt.Sprint(w.n8n.Odd()) != "[GET /webhook/outbox]" {
		t.Errorf("%d POSTs, and %v", w.n8n.Count(), w.n8n.Odd())
	}
}

func TestPostSendsOneEventOfItsOwn(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	d, checks := w.examine(t, operator.Doctor{Post: true})
	if !d.OK || checks["token accepted"].Result != operator.OK {
		t.Errorf("%+v", d)
	}
	posts := w.n8n.Posts()
	if len(posts) != 1 || posts[0].Token() != token {
		t.Fatalf("%d POSTs", len(posts))
	}
	var event map[string]any
	if err := json.Unmarshal(posts[0].Body, &event); err != nil || event["event_type"] != "dispatcher.doctor" || event["correlation_id"] != "doctor" || len(event) != 6 {
		t.Errorf("%s, %v", posts[0].Body, err)
	}
}

func TestWhatN8nSaysToTheToken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer n8ntest.Answer
		result operator.Result
		text   string
	}{
		{"Refused", n8ntest.Answer{Status: 403, Body: "Authorization data is wrong!"}, operator.Fault, "n8n refuses the token: HTTP 403"},
		{"RefusesTheType", n8ntest.Answer{Body: `{"ok":false,"error":"unknown type"}`}, operator.Warning, "n8n took the token"},
		{"NoRespondNode", n8ntest.Answer{Body: ""}, operator.Warning, "n8n took the token"},
		{"WorkflowFails", n8ntest.Answer{Status: 500, Body: `{"message":"Error in workflow"}`}, operator.Fault, "HTTP 500"},
		{"StartingUp", n8ntest.Answer{Body: "n8n is starting up. Please wait"}, operator.Fault, "the answer is not JSON"},
		{"NoAnswer", n8ntest.Answer{Close: n8ntest.Reset}, operator.Fault, "no answer from 127.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := healthy(t)
			w.n8n.ScriptAll(c.answer)
			_, checks := w.examine(t, operator.Doctor{Post: true})
			if got := checks["token accepted"]; got.Result != c.result || !strings.Contains(got.Text, c.text) || got.Mend == "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestWhatN8nAnswersToAGet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		body   string
		result operator.Result
		text   string
	}{
		{"ActiveWebhook", 404, `{"code":404,"message":"This webhook is not registered for GET requests. Did you mean to make a POST request?"}`, operator.OK, "as by an active webhook for POST"},
		{"InactiveWorkflow", 404, `{"code":404,"message":"The requested webhook \"GET x\" is not registered."}`, operator.Fault, "not registered"},
		{"AnotherPath", 404, `Cannot GET /x`, operator.Fault, "not by a webhook"},
		{"StartingUp", 200, `n8n is starting up. Please wait`, operator.Fault, "starting up"},
		{"SomethingElse", 200, `<html>`, operator.Warning, "also accepts GET"},
		{"Redirect", 302, ``, operator.Fault, "a redirect to login.example, which is never followed"},
		{"Forbidden", 403, `Authorization data is wrong!`, operator.OK, "requires authentication"},
		{"MethodNotAllowed", 405, ``, operator.OK, "accepts other methods"},
		{"BadGateway", 502, ``, operator.Fault, "HTTP 502"},
		{"DatabaseDown", 503, `{"code":503,"message":"Database is not ready!"}`, operator.Fault, "HTTP 503"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.Header.Get("X-Fleet-Ops-Trigger-Token") != "" {
					t.Errorf("%s with a token %q", r.Method, r.Header.Get("X-Fleet-Ops-Trigger-Token"))
				}
				if c.status == 302 {
					rw.Header().Set("Location", "https://login.example/?next=x")
				}
				rw.WriteHeader(c.status)
				_, _ = rw.Write([]byte(c.body))
			}))
			defer server.Close()
			w := healthy(t)
			w.aim(t, server.URL+"/webhook/x", nil)
			_, checks := w.examine(t, operator.Doctor{})
			if got := checks["n8n answer"]; got.Result != c.result || !strings.Contains(got.Text, c.text) || (got.Result != operator.OK) != (got.Mend != "") {
				t.Errorf("%+v", got)
			}
		})
	}
}

// change is one thing that is wrong, and what the doctor says to it.
type change struct {
	name   string
	wrong  func(w *ward)
	check  string
	result operator.Result
	text   string
}

func (c change) run(t *testing.T, asked operator.Doctor) {
	t.Run(c.name, func(t *testing.T) {
		t.Parallel()
		w := healthy(t)
		c.wrong(w)
		d, checks := w.examine(t, asked)
		got := checks[c.check]
		if got.Result != c.result || !strings.Contains(got.Text, c.text) {
			t.Errorf("%+v\nwant %s: %s", got, c.result, c.text)
		}
		if (got.Result != operator.OK) != (got.Mend != "") {
			t.Errorf("mend %q of a check that says %s", got.Mend, got.Result)
		}
		if (c.result == operator.Fault) == d.OK {
			t.Errorf("the whole is ok: %v", d.OK)
		}
		if len(d.Checks) != 18 {
			t.Errorf("%d checks", len(d.Checks))
		}
	})
}

func TestEachFault(t *testing.T) {
	t.Parallel()
	rights := func(w *ward, role int) *operator.Rights { return &w.patient.inspection.Rights[role] }
	for _, c := range []change{
		{"WrongSettings", func(w *ward) {
			w.SettingsErr = &config.SettingsError{Problems: []string{"N8N_WEBHOOK_URL is not set", "OUTBOX_TABLE must be"}}
			w.Settings.WebhookURL = nil
		}, "settings", operator.Fault, "N8N_WEBHOOK_URL is not set; OUTBOX_TABLE must be"},
		{"Disabled", func(w *ward) { w.Settings.Enabled = false }, "settings", operator.Warning, "N8N_DISPATCH_ENABLED is false"},
		{"NoToken", func(w *ward) { w.Tokens = nil }, "token", operator.Unknown, "do not say where"},
		{"TokenUnreadable", func(w *ward) { w.Tokens = unreadable{} }, "token", operator.Fault, "access denied"},
		{"LoginUnreadable", func(w *ward) {
			w.Login = func(context.Context) error { return errors.New(`secret "x": may not be read`) }
		}, "database secret", operator.Fault, "may not be read"},
		{"LoginReadable", func(w *ward) { w.Login = func(context.Context) error { return nil } }, "database secret", operator.OK, "holds a login"},

		{"NoDatabaseSettings", func(w *ward) { w.Store = nil }, "database", operator.Unknown, "do not say where"},
		{"DatabaseAway", func(w *ward) { w.patient.sessionErr = errors.New("database: x refuses connections") }, "database", operator.Fault, "refuses connections"},
		{"DatabaseAwayThenNothingIsKnown", func(w *ward) { w.patient.sessionErr = errors.New("x") }, "database", operator.Fault, "x"},
		{"Standby", func(w *ward) { w.patient.session.ReadOnly = true }, "database", operator.Fault, "takes no writes"},
		{"NoTLS", func(w *ward) { w.patient.session.TLS = "" }, "database TLS", operator.Fault, "plain text"},
		{"NoTLSOnLoopback", func(w *ward) { w.patient.session.TLS, w.patient.session.Local = "", true }, "database TLS", operator.OK, "does not leave this machine"},
		{"TLSNotVerified", func(w *ward) { w.patient.session.Verified = false }, "database TLS", operator.Fault, "any certificate would have been taken"},

		{"CannotPrune", func(w *ward) { rights(w, 0).Delete = false }, "own role", operator.Warning, "people may not prune"},
		{"CannotPause", func(w *ward) { rights(w, 0).WritesControl = false }, "own role", operator.Warning, "people may not pause and resume"},
		{"CannotSee", func(w *ward) { rights(w, 0).Select = false }, "own role", operator.Fault, "people may not see"},
		{"Owner", func(w *ward) { rights(w, 0).Owner = true }, "own role", operator.OK, "only migrate needs that"},
		{"DispatcherCannotUpdate", func(w *ward) { rights(w, 1).Update = false }, "dispatcher's role", operator.Fault, "may not SELECT and UPDATE"},
		{"DispatcherCannotSeeAPause", func(w *ward) { rights(w, 1).ReadsControl = false }, "dispatcher's role", operator.Fault, "where a pause is kept"},
		{"DispatcherMayDelete", func(w *ward) { rights(w, 1).Delete, rights(w, 1).Insert = true, true }, "dispatcher's role", operator.Fault, "may DELETE, INSERT as well"},
		{"NoDispatcher", func(w *ward) { w.patient.inspection.Rights = w.patient.inspection.Rights[:1] }, "dispatcher's role", operator.Fault, "people may DELETE as well"},
		{"NoDispatcherAndAnOwner", func(w *ward) {
			w.patient.inspection.Rights = w.patient.inspection.Rights[:1]
			rights(w, 0).Owner = true
		}, "dispatcher's role", operator.Unknown, "there is no role outbox_dispatcher"},

		{"NoTable", func(w *ward) { w.patient.inspection = operator.Inspection{Table: "t"} }, "table", operator.Fault, "there is no table t"},
		{"AView", func(w *ward) { w.patient.inspection.Ordinary = false }, "table", operator.Fault, "a view"},
		{"AMissingColumn", func(w *ward) { w.patient.inspection.Problems = []string{"it lacks the column attempts"} }, "table", operator.Fault, "lacks the column attempts"},
		{"OurColumn", func(w *ward) { w.patient.inspection.Missing = []string{"lost_leases"} }, "table", operator.Fault, "lacks lost_leases"},
		{"AnIndexIsMissing", func(w *ward) { w.patient.inspection.Indexes[0].There = false }, "indexes", operator.Fault, "due is missing: each claim reads the whole table"},
		{"AnIndexIsInvalid", func(w *ward) { w.patient.inspection.Indexes[1].Valid = false }, "indexes", operator.Fault, "lease is invalid"},
		{"IndexesUnknown", func(w *ward) {
			w.patient.inspection.Indexes, w.patient.inspection.IndexesUnknown = nil, "no temporary table"
		}, "indexes", operator.Unknown, "no temporary table"},
		{"ToMigrate", func(w *ward) {
			w.patient.inspection.HasControl = false
			w.patient.inspection.Missing = []string{"lost_leases"}
		}, "migration", operator.Fault, `it would add lost_leases, make "outbox_events_control"`},
		{"ClockAhead", func(w *ward) { w.patient.session.Ahead = time.Minute }, "clock", operator.Fault, "1m0s ahead of this machine's"},
		{"ClockRight", func(w *ward) { w.patient.session.Ahead = time.Millisecond }, "clock", operator.OK, "this machine's agree, to 2s"},
		{"ClockBehind", func(w *ward) { w.patient.session.Ahead = -3 * time.Second }, "clock", operator.Warning, "3s behind this machine's"},

		{"LeaseTooShort", func(w *ward) { w.env["DISPATCHER_TIMEOUT_SECONDS"] = "180" }, "lease", operator.Fault, "does not outlive the function"},
		{"FunctionTooShort", func(w *ward) { w.env["DISPATCHER_TIMEOUT_SECONDS"] = "4" }, "lease", operator.Fault, "nothing is ever sent"}, // 2 s + 2 s
		{"FunctionTooShortForAColdStart", func(w *ward) { w.env["DISPATCHER_TIMEOUT_SECONDS"] = "16" }, "lease", operator.Warning, "slow cold start"},
		{"FunctionUnknown", func(w *ward) { delete(w.env, "DISPATCHER_TIMEOUT_SECONDS") }, "lease", operator.OK, "not known here"},
		{"TimesWrong", func(w *ward) {
			w.SettingsErr = &config.SettingsError{Problems: []string{"N8N_DELIVERY_LEASE_SECONDS must be"}}
		}, "settings", operator.Fault, "N8N_DELIVERY_LEASE_SECONDS"},

		{"Paused", func(w *ward) { w.patient.overview.Paused = true }, "schedule", operator.Warning, "somebody paused"},
		{"NobodyComes", func(w *ward) { w.patient.overview = operator.Overview{OldestDueAgeSeconds: 3600} }, "schedule", operator.Fault, "due for 1h and nobody takes it"},
		{"NothingDue", func(w *ward) { w.patient.overview = operator.Overview{} }, "schedule", operator.Unknown, "not known from here"},
		{"ScheduleDisabled", func(w *ward) {
			w.env["DISPATCHER_SCHEDULE"] = "s"
			w.Schedule = func(context.Context, string) (doctor.Schedule, error) {
				return doctor.Schedule{Rate: "rate(1 minute)"}, nil
			}
		}, "schedule", operator.Fault, "disabled (rate(1 minute))"},
		{"ScheduleEnabledButPaused", func(w *ward) {
			w.env["DISPATCHER_SCHEDULE"] = "s"
			w.patient.overview.Paused = true
			w.Schedule = func(_ context.Context, name string) (doctor.Schedule, error) {
				return doctor.Schedule{Enabled: name == "s", Rate: "rate(1 minute)"}, nil
			}
		}, "schedule", operator.OK, "enabled, rate(1 minute); but somebody paused"},
		{"AWSDoesNotTell", func(w *ward) {
			w.env["DISPATCHER_SCHEDULE"] = "s"
			w.Schedule = func(context.Context, string) (doctor.Schedule, error) {
				return doctor.Schedule{}, errors.New("the role lacks scheduler:GetSchedule")
			}
		}, "schedule", operator.OK, "AWS does not tell (the role lacks scheduler:GetSchedule); somebody is at work"},

		{"N8nDown", func(w *ward) { w.Settings.WebhookURL = away }, "n8n connection", operator.Fault, "connection refused"},
		{"UntrustedCertificate", func(w *ward) { w.TLS = nil }, "n8n connection", operator.Fault, "signed by an authority that is not trusted"},
		{"NoWayOutOfTheVPC", func(w *ward) { w.InLambda, w.Settings.WebhookURL = true, away }, "way out", operator.Fault, "cannot be connected to from the subnets"},
		{"WayOutToNobody", func(w *ward) { w.InLambda, w.Settings.WebhookURL = true, nil }, "way out", operator.Unknown, "do not say where n8n is"},
		{"WayOut", func(w *ward) { w.InLambda = true }, "way out", operator.OK, "Secrets Manager is not used"},
		{"WayToSecretsManager", func(w *ward) {
			w.InLambda = true
			w.Settings.TokenSecretID, w.env["AWS_ENDPOINT_URL"] = "token", w.n8n.URL()
		}, "way out", operator.OK, "n8n and Secrets Manager can be connected to"},
		{"NoWayToSecretsManager", func(w *ward) {
			w.InLambda = true
			w.Settings.Database.SecretID, w.env["AWS_ENDPOINT_URL"] = "login", away.String()
		}, "way out", operator.Fault, "connection refused"},
	} {
		c.run(t, operator.Doctor{})
	}
	change{"ARoleThatIsNotThere", func(*ward) {}, "dispatcher's role", operator.Fault, "there is no role mine"}.run(t, operator.Doctor{Role: "mine"})
}

// away is where nobody listens: port 1 of this machine.
var away = &url.URL{Scheme: "https", Host: "127.0.0.1:1", Path: "/webhook/x"}

func TestUnknownNames(t *testing.T) {
	t.Parallel()
	w := healthy(t)
	w.aim(t, "https://n8n.invalid/webhook/x", nil)
	_, checks := w.examine(t, operator.Doctor{})
	if got := checks["n8n name"]; got.Result != operator.Fault || !strings.Contains(got.Text, "n8n.invalid: the host name") {
		t.Errorf("%+v", got)
	}
	if got := checks["n8n answer"]; got.Result != operator.Unknown {
		t.Errorf("%+v", got)
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	t.Run("ThatAreGood", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewTLSServer(http.NotFoundHandler()) // until 2084
		defer server.Close()
		w := healthy(t)
		w.aim(t, server.URL, server.Client().Transport.(*http.Transport).TLSClientConfig)
		_, checks := w.examine(t, operator.Doctor{})
		if got := checks["n8n connection"]; got.Result != operator.OK || !strings.Contains(got.Text, "speaks TLS 1.3, with a certificate valid until 20") {
			t.Errorf("%+v", got)
		}
	})
	for name, c := range map[string]struct {
		certificate n8ntest.Certificate
		text        string
	}{
		"ThatRanOut":       {n8ntest.Certificate{Expired: true}, "has expired or is not valid yet"},
		"OfSomebodyElse's": {n8ntest.Certificate{Hosts: []string{"elsewhere.example"}}, "for another host"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			authority := n8ntest.NewAuthority()
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake fails, as it must
			server.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Issue(c.certificate)}}
			server.StartTLS()
			defer server.Close()
			w := healthy(t)
			w.aim(t, server.URL, &tls.Config{RootCAs: authority.Pool()})
			_, checks := w.examine(t, operator.Doctor{})
			if got := checks["n8n connection"]; got.Result != operator.Fault || !strings.Contains(got.Text, c.text) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Whatever is wrong, no text holds a secret.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	secrets := []string{"pathsecret", "querysecret", "usersecret", "passsecret", token}
	for name, status := range map[string]int{"refused": 403, "gone": 404, "broken": 500, "fine": 200} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := healthy(t)
			echo := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				user, password, _ := r.BasicAuth()
				rw.WriteHeader(status)
				fmt.Fprintf(rw, "%s %s %s %s %s", r.Method, r.RequestURI, user, password, r.Header.Get("X-Fleet-Ops-Trigger-Token"))
			}))
			defer echo.Close()
			for _, to := range []string{echo.URL, "https://127.0.0.1:1", w.n8n.URL(), "https://n8n.invalid"} {
				to = strings.Replace(to, "://", "://usersecret:passsecret@", 1)
				w.aim(t, to+"/webhook/pathsecret?key=querysecret", w.TLS)
				d, _ := w.examine(t, operator.Doctor{Post: true})
				text, err := json.Marshal(d)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range secrets {
					if strings.Contains(string(text), s) {
						t.Errorf("%s shows %s: %s", to, s, text)
					}
				}
			}
		})
	}
}

func TestToldToEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := healthy(t).Examine(ctx, operator.Doctor{}); err == nil {
		t.Error("a diagnosis that is not whole is no error")
	}
}
