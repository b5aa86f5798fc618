package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manager is a Secrets Manager on loopback that gives one secret.
type manager struct {
	t    *testing.T
	mu   sync.Mutex
	text string // SecretString; empty: answer does it all
	// answer replaces the normal answer; nil: text is given.
	answer http.HandlerFunc
	asked  []map[string]any // the request bodies, in order
}

// start runs a manager and points the environment of the test at it alone.
func start(t *testing.T, text string) *manager {
	m := &manager{t: t, text: text}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	lambdaEnvironment(t)
	t.Setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", server.URL)
	return m
}

// lambdaEnvironment sets what Lambda sets, and unsets all else of AWS.
func lambdaEnvironment(t *testing.T) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") || strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "signing-key", "AWS_SESSION_TOKEN": "session-token",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
}

func (m *manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		m.t.Errorf("request body: %v", err)
	}
	if got := r.Header.Get("X-Amz-Target"); got != "secretsmanager.GetSecretValue" {
		m.t.Errorf("asked for %q, want GetSecretValue alone", got)
	}
	m.mu.Lock()
	m.asked = append(m.asked, body)
	text, answer := m.text, m.answer
	m.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	writeJSON(w, 200, map[string]any{"Name": body["SecretId"], "SecretString": text, "VersionStages": []string{"AWSCURRENT"}})
}

func (m *manager) set(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text = text
}

func (m *manager) setAnswer(h http.HandlerFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = h
}

func (m *manager) calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.asked)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// fault answers as AWS does when it refuses.
func fault(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, status, map[string]any{"__type": code, "Message": "what AWS says"})
	}
}

func TestReader(t *testing.T) {
	ctx := t.Context()

	t.Run("CallsNothingBeforeTheFirstSecret", func(t *testing.T) {
		m := start(t, "tok")
		_ = Token{Reader: &Reader{}, ID: "n8n"}
		if m.calls() != 0 {
			t.Fatalf("%d calls, want 0", m.calls())
		}
	})

	t.Run("ReadsTheCurrentVersion", func(t *testing.T) {
		m := start(t, "tok")
		if _, err := (Token{Reader: &Reader{}, ID: "prod/n8n"}).Token(ctx); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(m.asked); got != "[map[SecretId:prod/n8n]]" {
			t.Errorf("asked %s, want the id alone", got)
		}
	})

	t.Run("CachesAValueForFiveMinutes", func(t *testing.T) {
		m := start(t, "v1")
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		tok := Token{Reader: &Reader{now: func() time.Time { return now }}, ID: "n8n"}
		start := now
		for _, step := range []struct {
			at        time.Duration
			set       string
			want      string
			wantCalls int
		}{
			{0, "v1", "v1", 1},
			{4*time.Minute + 59*time.Second, "v2", "v1", 1}, // the last second of the old one
			{5 * time.Minute, "v2", "v2", 2},
			{9 * time.Minute, "v3", "v2", 2},
			{-time.Hour, "v3", "v3", 3}, // a clock that was set back makes no value immortal
		} {
			now = start.Add(step.at)
			m.set(step.set)
			got, err := tok.Token(ctx)
			if err != nil || got != step.want || m.calls() != step.wantCalls {
				t.Errorf("after %v: %q, %v after %d calls; want %q after %d", step.at, got, err, m.calls(), step.want, step.wantCalls)
			}
		}
	})

	t.Run("RefreshReadsPastTheCacheAndFillsIt", func(t *testing.T) {
		m := start(t, "v1")
		tok := Token{Reader: &Reader{}, ID: "n8n"}
		first, _ := tok.Token(ctx)
		m.set("v2")
		fresh, err := tok.Refresh(ctx)
		after, _ := tok.Token(ctx)
		if first != "v1" || fresh != "v2" || after != "v2" || err != nil || m.calls() != 2 {
			t.Errorf("got %q, %q, %q (%v) in %d calls; want v1, v2, v2 in 2", first, fresh, after, err, m.calls())
		}
	})

	t.Run("KeepsTheOldValueWhenARefreshFails", func(t *testing.T) {
		m := start(t, "v1")
		tok := Token{Reader: &Reader{}, ID: "n8n"}
		tok.Token(ctx)
		m.setAnswer(fault(400, "AccessDeniedException"))
		if _, err := tok.Refresh(ctx); err == nil {
			t.Error("Refresh hid the refusal")
		}
		if got, err := tok.Token(ctx); got != "v1" || err != nil {
			t.Errorf("got %q, %v; want v1 from the cache", got, err)
		}
	})

	t.Run("CachesNoFailure", func(t *testing.T) {
		for name, broken := range map[string]func(m *manager){
			"Refused":    func(m *manager) { m.setAnswer(fault(400, "AccessDeniedException")) },
			"WrongShape": func(m *manager) { m.set(`{"other":"x"}`) },
		} {
			t.Run(name, func(t *testing.T) {
				m := start(t, "")
				broken(m)
				tok := Token{Reader: &Reader{}, ID: "n8n"}
				if _, err := tok.Token(ctx); err == nil {
					t.Fatal("no error")
				}
				m.setAnswer(nil)
				m.set("corrected")
				if got, err := tok.Token(ctx); got != "corrected" || err != nil {
					t.Errorf("got %q, %v; want the corrected secret at once", got, err)
				}
			})
		}
	})

	t.Run("SharesOneCallAmongConcurrentCallers", func(t *testing.T) {
		m := start(t, "")
		const callers = 20
		release := make(chan struct{})
		m.setAnswer(func(w http.ResponseWriter, r *http.Request) {
			<-release
			writeJSON(w, 200, map[string]any{"SecretString": "tok"})
		})
		tok := Token{Reader: &Reader{}, ID: "n8n"}
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				if got, err := tok.Token(ctx); got != "tok" || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		close(release)
		wg.Wait()
		if m.calls() != 1 {
			t.Errorf("%d calls for %d callers, want 1", m.calls(), callers)
		}
	})

	t.Run("KeepsSecretsApart", func(t *testing.T) {
		m := start(t, "")
		m.setAnswer(func(w http.ResponseWriter, r *http.Request) {
			m.mu.Lock()
			id := m.asked[len(m.asked)-1]["SecretId"]
			m.mu.Unlock()
			writeJSON(w, 200, map[string]any{"SecretString": fmt.Sprint("value-of-", id)})
		})
		r := &Reader{}
		for _, id := range []string{"a", "b", "a"} {
			if got, err := (Token{Reader: r, ID: id}).Token(ctx); got != "value-of-"+id || err != nil {
				t.Errorf("%s: got %q, %v", id, got, err)
			}
		}
	})

	t.Run("EndsWithItsCallerAndGoesOnForOthers", func(t *testing.T) {
		m := start(t, "")
		release := make(chan struct{})
		m.setAnswer(func(w http.ResponseWriter, r *http.Request) {
			<-release
			writeJSON(w, 200, map[string]any{"SecretString": "tok"})
		})
		tok := Token{Reader: &Reader{}, ID: "n8n"}
		short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		if _, err := tok.Token(short); err == nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the caller's time", err)
		}
		// Another caller still gets what the first one asked for.
		time.AfterFunc(10*time.Millisecond, func() { close(release) })
		if got, err := tok.Token(ctx); got != "tok" || err != nil || m.calls() != 1 {
			t.Errorf("got %q, %v after %d calls; want tok after 1", got, err, m.calls())
		}
	})

	t.Run("CallsTheRegionOfTheARN", func(t *testing.T) {
		m := start(t, "")
		var signed string
		m.setAnswer(func(w http.ResponseWriter, r *http.Request) {
			signed = r.Header.Get("Authorization")
			writeJSON(w, 200, map[string]any{"SecretString": "tok"})
		})
		os.Unsetenv("AWS_REGION") // start put it under t.Setenv
		tok := Token{Reader: &Reader{}, ID: "arn:aws:secretsmanager:eu-west-3:123456789012:secret:n8n-AbCdEf"}
		if _, err := tok.Token(ctx); err != nil || !strings.Contains(signed, "/eu-west-3/secretsmanager/") {
			t.Errorf("%v, signed %q; want eu-west-3", err, signed)
		}
	})
}

// An endpoint that accepts connections and never answers is what a VPC without egress
// looks like once a proxy or a security group lets the SYN through.
func TestHangingEndpoint(t *testing.T) {
	lambdaEnvironment(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // never accepts: the kernel completes the handshake
	t.Setenv("AWS_ENDPOINT_URL", "http://"+l.Addr().String())

	began := time.Now()
	_, err = Token{Reader: &Reader{Timeout: 200 * time.Millisecond}, ID: "prod/n8n"}.Token(t.Context())
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	wantSentence(t, err, "prod/n8n", "Secrets Manager", "VPC", "endpoint", "NAT")
	if DefaultTimeout >= 10*time.Second {
		t.Errorf("DefaultTimeout is %v, an operator must know within 10 s", DefaultTimeout)
	}
}

func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		answer    http.HandlerFunc
		wantCalls int
		want      []string
	}{
		"AccessDenied":      {fault(400, "AccessDeniedException"), 1, []string{"secretsmanager:GetSecretValue", "kms:Decrypt", "AccessDeniedException"}},
		"NoSuchSecret":      {fault(400, "ResourceNotFoundException"), 1, []string{"is not there", "region"}},
		"Deleted":           {fault(400, "InvalidRequestException"), 1, []string{"marked for deletion", "restore"}},
		"Undecryptable":     {fault(400, "DecryptionFailure"), 1, []string{"kms:Decrypt"}},
		"NoLegalName":       {fault(400, "InvalidParameterException"), 1, []string{"neither a name nor an ARN"}},
		"StaleCredentials":  {fault(400, "UnrecognizedClientException"), 1, []string{"credentials"}},
		"Throttled":         {fault(400, "ThrottlingException"), 3, []string{"too often", "tries again"}},
		"InternalError":     {fault(500, "InternalServiceError"), 3, []string{"InternalServiceError", "tries again"}},
		"UnknownCode":       {fault(400, "SomethingNewException"), 1, []string{"SomethingNewException"}},
		"PageOfAProxy":      {page(200, "<html>sign in</html>"), 1, []string{"HTTP 200", "proxies"}},
		"RefusalOfAProxy":   {page(407, "<html>who are you</html>"), 1, []string{"HTTP 407", "proxies"}},
		"JSONOfAProxy":      {page(403, `{"error":"no"}`), 1, []string{"HTTP 403", "proxies"}},
		"BinaryValue":       {given(map[string]any{"SecretBinary": "czNjcjN0"}), 1, []string{"binary", "text"}},
		"NoValueAtAll":      {given(map[string]any{}), 1, []string{"is empty"}},
		"ConnectionDropped": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 3, []string{"could not be reached", "VPC"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t, "")
			m.setAnswer(c.answer)
			_, err := Token{Reader: &Reader{}, ID: "prod/n8n"}.Token(t.Context())
			wantSentence(t, err, append(c.want, "prod/n8n")...)
			if m.calls() != c.wantCalls {
				t.Errorf("%d calls, want %d", m.calls(), c.wantCalls)
			}
		})
	}

	t.Run("NothingListens", func(t *testing.T) {
		lambdaEnvironment(t)
		t.Setenv("AWS_ENDPOINT_URL", "http://someone:hunter2@127.0.0.1:1/path")
		_, err := Token{Reader: &Reader{}, ID: "prod/n8n"}.Token(t.Context())
		wantSentence(t, err, "prod/n8n", "could not be reached", "refused", "VPC")
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: shows the password of a URL", err)
		}
	})
	for name, c := range map[string]struct {
		set  map[string]string
		want string
	}{
		"NoCredentials": {map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no AWS credentials"},
		"NoRegion":      {map[string]string{"AWS_REGION": ""}, "AWS_REGION"},
		"NoSuchProfile": {map[string]string{"AWS_PROFILE": "missing"}, "AWS_PROFILE"},
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t, "tok")
			for k, v := range c.set {
				t.Setenv(k, v)
			}
			_, err := Token{Reader: &Reader{}, ID: "prod/n8n"}.Token(t.Context())
			wantSentence(t, err, "prod/n8n", c.want)
			if m.calls() != 0 {
				t.Errorf("%d calls, want 0", m.calls())
			}
		})
	}
}

// A line of the SDK's own would stand as plain text among JSON.
func TestSDKSaysNothing(t *testing.T) {
	start(t, "tok")
	imds := httptest.NewServer(page(403, "no"))
	defer imds.Close()
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", imds.URL)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "")
	t.Setenv("AWS_ACCESS_KEY_ID", "")

	file, err := os.Create(t.TempDir() + "/stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stderr := os.Stderr
	os.Stderr = file
	_, err = Token{Reader: &Reader{}, ID: "prod/n8n"}.Token(t.Context())
	os.Stderr = stderr
	wantSentence(t, err, "credentials")
	if said, _ := os.ReadFile(file.Name()); len(said) > 0 {
		t.Errorf("wrote %s", said)
	}
}

func page(status int, html string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); fmt.Fprint(w, html) }
}

func given(body map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, body) }
}

// wantSentence checks that err is one sentence for an operator with these words
// in it, and nothing of what a server or the environment said in confidence.
func wantSentence(t *testing.T, err error, words ...string) {
	t.Helper()
	var e *SecretError
	if !errors.As(err, &e) {
		t.Fatalf("got %v (%T), want an *SecretError", err, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q lacks %q", err, w)
		}
	}
	for _, w := range []string{"\n", "what AWS says", "html", "signing-key", "session-token", "czNjcjN0", "s3cr3t"} {
		if strings.Contains(err.Error(), w) {
			t.Errorf("%q shows %q", err, w)
		}
	}
}
