package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// patience bounds each start and each command of n8n, which take 5 to 15 s on a
// machine that has nothing else to do.
const patience = 5 * time.Minute

// n8n is one instance, on the loopback address, with its data in a Postgres
// database of its own.
type n8n struct {
	program program
	folder  string // its home, and the log
	port    int
	env     []string
	group   *group // nil while stopped
}

// newN8N prepares an instance. Nothing of the caller's environment but PATH gets
// through, so that it behaves the same for everybody.
func newN8N(p program, folder string, databasePort int, database string, withEditor bool) (*n8n, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	broker, err := freePort()
	if err != nil {
		return nil, err
	}
	n := &n8n{program: p, folder: folder, port: port}
	n.env = []string{
		"PATH=" + filepath.Dir(p.node) + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=" + folder, "TMPDIR=" + folder, "N8N_USER_FOLDER=" + folder,
		"NODE_ENV=production", "NO_COLOR=1", // as n8n's own image; without it errors carry stack traces
		"DB_TYPE=postgresdb", "DB_POSTGRESDB_HOST=127.0.0.1", "DB_POSTGRESDB_PORT=" + strconv.Itoa(databasePort),
		"DB_POSTGRESDB_DATABASE=" + database, "DB_POSTGRESDB_USER=postgres",
		"N8N_HOST=127.0.0.1", "N8N_LISTEN_ADDRESS=127.0.0.1", "N8N_PORT=" + strconv.Itoa(port), "N8N_PROTOCOL=http",
		"N8N_RUNNERS_BROKER_PORT=" + strconv.Itoa(broker),
		"N8N_SECURE_COOKIE=false", // there is no TLS on loopback
		"N8N_DISABLE_UI=" + strconv.FormatBool(!withEditor),
		"N8N_DIAGNOSTICS_ENABLED=false", "N8N_VERSION_NOTIFICATIONS_ENABLED=false", "N8N_TEMPLATES_ENABLED=false",
		"N8N_PERSONALIZATION_ENABLED=false", "N8N_HIRING_BANNER_ENABLED=false",
		"N8N_COMMUNITY_PACKAGES_ENABLED=false", "N8N_DISABLED_MODULES=mcp-registry", // these too would call out
	}
	return n, nil
}

// url is the address of n8n.
func (n *n8n) url() string { return "http://127.0.0.1:" + strconv.Itoa(n.port) }

// webhook is the address of a workflow.
func (n *n8n) webhook(path string) string { return n.url() + "/webhook/" + path }

func (n *n8n) log() string { return filepath.Join(n.folder, "n8n.log") }

// command runs n8n's command line, while n8n itself is stopped. It tells of some
// faults in its output alone, so want has to be in it.
func (n *n8n) command(ctx context.Context, want string, arguments ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.program.node, append([]string{n.program.script}, arguments...)...)
	cmd.Dir, cmd.Env = n.folder, n.env
	out, err := cmd.CombinedOutput()
	if err == nil && !strings.Contains(string(out), want) {
		err = fmt.Errorf("it did not say %q", want)
	}
	if err != nil {
		return fmt.Errorf("n8n %s: %w\n%s", strings.Join(arguments, " "), err, out)
	}
	return nil
}

// tokenPlaceholder stands in the example credential.
const tokenPlaceholder = "PUT-THE-TOKEN-HERE"

// importCredential loads the example credential with a real token in it.
func (n *n8n) importCredential(ctx context.Context, example, token string) error {
	text, err := os.ReadFile(example)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), tokenPlaceholder) {
		return fmt.Errorf("%s does not hold %s", example, tokenPlaceholder)
	}
	file := filepath.Join(n.folder, "credential.json")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), tokenPlaceholder, token)), 0o600); err != nil {
		return err
	}
	defer os.Remove(file)
	return n.command(ctx, "Successfully imported 1 credential", "import:credentials", "--input="+file)
}

// importWorkflow loads a workflow as it is shipped, and returns what it says of
// itself.
func (n *n8n) importWorkflow(ctx context.Context, file string) (workflow, error) {
	w, err := readWorkflow(file)
	if err != nil {
		return workflow{}, err
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		return workflow{}, err
	}
	return w, n.command(ctx, "Successfully imported 1 workflow", "import:workflow", "--input="+absolute)
}

// publish makes a workflow active from the next start on.
func (n *n8n) publish(ctx context.Context, w workflow) error {
	return n.command(ctx, w.ID, "publish:workflow", "--id="+w.ID)
}

// start starts n8n. It is not ready then: see ready.
func (n *n8n) start() (err error) {
	n.group, err = startGroup(n.folder, n.log(), n.env, n.program.node, n.program.script, "start")
	return err
}

// kill ends n8n with SIGKILL. On a stopped one it does nothing.
func (n *n8n) kill() error {
	if n.group == nil {
		return nil
	}
	defer func() { n.group = nil }()
	return n.group.kill()
}

// ready reports whether the webhook of a workflow is registered. n8n listens, and
// its health check is green, long before. A GET runs no execution.
func (n *n8n) ready(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.webhook(path), nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return strings.Contains(string(body), "Did you mean to make a POST request?")
}

// await returns once the webhook is registered, or is not any more.
func (n *n8n) await(ctx context.Context, path string, registered bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for n.ready(ctx, path) != registered {
		if err := n.alive(); err != nil {
			return err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the webhook %s (registered: %v): %w", path, registered, err)
		}
	}
	return nil
}

// alive tells why n8n ended, if it ended by itself.
func (n *n8n) alive() error {
	if n.group != nil && n.group.running() {
		return nil
	}
	return fmt.Errorf("n8n ended by itself; the end of its log:\n%s", tail(n.log()))
}

// workflow is what a workflow file says of itself.
type workflow struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Nodes []struct {
		Name       string `json:"name"`
		Type       string `json:"type"`
		Parameters struct {
			Path string `json:"path"`
		} `json:"parameters"`
	} `json:"nodes"`
}

func readWorkflow(file string) (w workflow, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &w)
	}
	if err != nil {
		return workflow{}, fmt.Errorf("read %s: %w", file, err)
	}
	return w, nil
}

// path is where its webhook listens.
func (w workflow) path() string {
	for _, node := range w.Nodes {
		if node.Type == "n8n-nodes-base.webhook" {
			return node.Parameters.Path
		}
	}
	return ""
}

// freePort finds a port nobody listens on. It stays below 32768, where systems
// begin to hand out ports for outgoing connections: one of those could take it
// while n8n is down.
func freePort() (int, error) {
	const lowest, beyond = 15000, 32768
	for range 1000 {
		port := lowest + rand.IntN(beyond-lowest)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 between %d and %d", lowest, beyond-1)
}

// tail is the end of a log file, for people.
func tail(path string) string {
	const enough = 3000
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-enough):])
}
