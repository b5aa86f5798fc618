package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"outbox-dispatcher/internal/operator/doctor"
)

// A stand-in for EventBridge Scheduler answers as AWS does.
func TestScheduleAsAWSKnowsIt(t *testing.T) {
	for name, value := range map[string]string{"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"} {
		t.Setenv(name, value)
	}
	for _, c := range []struct {
		name   string
		status int
		kind   string
		body   string
		want   doctor.Schedule
		err    string
	}{
		{"Enabled", 200, "", `{"State": "ENABLED", "ScheduleExpression": "rate(1 minute)"}`, doctor.Schedule{Enabled: true, Rate: "rate(1 minute)"}, ""},
		{"Disabled", 200, "", `{"State": "DISABLED", "ScheduleExpression": "rate(5 minutes)"}`, doctor.Schedule{Rate: "rate(5 minutes)"}, ""},
		{"NotThere", 404, "ResourceNotFoundException", `{"Message": "arn:aws:scheduler:..."}`, doctor.Schedule{}, "there is no schedule of that name"},
		{"Denied", 403, "AccessDeniedException", `{"Message": "User: arn:aws:sts::123456789012:assumed-role/x"}`, doctor.Schedule{}, "the role lacks scheduler:GetSchedule"},
		{"Broken", 500, "InternalServerException", `{}`, doctor.Schedule{}, "EventBridge Scheduler answered with an error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/schedules/orders-Schedule1-X" {
					t.Errorf("%s %s", r.Method, r.URL.Path)
				}
				w.Header().Set("X-Amzn-ErrorType", c.kind)
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			t.Setenv("AWS_ENDPOINT_URL_SCHEDULER", server.URL)
			got, err := schedule(t.Context(), "orders-Schedule1-X")
			if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	t.Setenv("AWS_ENDPOINT_URL_SCHEDULER", "http://127.0.0.1:1")
	if _, err := schedule(t.Context(), "x"); err == nil || err.Error() != "EventBridge Scheduler cannot be asked from here" {
		t.Errorf("%v", err)
	}
}
