package secret

import (
	"context"
	"errors"
	"net/url"
	"testing"
)

// What the network did is said in our words: an error of net/http holds a whole URL.
func TestExplainQuotesNoErrorOfTheNetwork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("odd"), "Secrets Manager could not be reached: the connection failed; " + network},
		{context.DeadlineExceeded, "Secrets Manager did not answer in time; " + network},
		{context.Canceled, "could not be read from Secrets Manager because the invocation ended"},
	} {
		err := explain("prod/n8n", &url.Error{Op: "Post", URL: "https://user:hunter2@proxy.example/path", Err: c.err})
		if want := `secret "prod/n8n": ` + c.want; err.Error() != want || !errors.Is(err, c.err) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}
