package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// editor does what a person does in n8n's editor, over the REST API that the
// editor itself uses.
type editor struct {
	url    string
	cookie *http.Cookie
}

// The account that the editor is used with. Its n8n lives on loopback, for as long
// as this program.
const (
	ownerEmail    = "owner@example.com"
	ownerPassword = "Outbox-events-1"
)

// setUp makes the first account of a new n8n, which it logs in.
func (e *editor) setUp(ctx context.Context) error {
	_, err := e.call(ctx, http.MethodPost, "/rest/owner/setup", map[string]string{
		"email": ownerEmail, "password": ownerPassword, "firstName": "Outbox", "lastName": "Owner",
	})
	return err
}

// publish makes a workflow active at once.
func (e *editor) publish(ctx context.Context, w workflow) error {
	data, err := e.call(ctx, http.MethodGet, "/rest/workflows/"+w.ID, nil)
	if err != nil {
		return err
	}
	var current struct {
		VersionID string `json:"versionId"`
	}
	if err := json.Unmarshal(data, &current); err != nil {
		return err
	}
	_, err = e.call(ctx, http.MethodPost, "/rest/workflows/"+w.ID+"/activate", map[string]string{"versionId": current.VersionID})
	return err
}

// unpublish makes a workflow inactive at once.
func (e *editor) unpublish(ctx context.Context, w workflow) error {
	_, err := e.call(ctx, http.MethodPost, "/rest/workflows/"+w.ID+"/deactivate", map[string]string{})
	return err
}

// setToken changes the token in the credential.
func (e *editor) setToken(ctx context.Context, credentialID, header, token string) error {
	_, err := e.call(ctx, http.MethodPatch, "/rest/credentials/"+credentialID, map[string]any{
		"name": header, "type": "httpHeaderAuth", "data": map[string]string{"name": header, "value": token},
	})
	return err
}

// call makes one request and returns the data of the answer.
func (e *editor) call(ctx context.Context, method, path string, body any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, e.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if method == http.MethodGet {
		req.Body, req.ContentLength = nil, 0
	}
	req.Header.Set("Content-Type", "application/json")
	if e.cookie != nil {
		req.AddCookie(e.cookie)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: HTTP %d: %.300s", method, path, res.StatusCode, answer)
	}
	for _, c := range res.Cookies() {
		if c.Name == "n8n-auth" {
			e.cookie = c
		}
	}
	var wrapped struct {
		Data json.RawMessage `json:"data"`
	}
	return wrapped.Data, json.Unmarshal(answer, &wrapped)
}
