package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// poster posts a body and checks the acknowledgement: what the bare client and
// River's worker do.
type poster struct {
	url    string
	client *http.Client
}

func newPoster(url string, inFlight int) *poster {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	t.MaxIdleConns, t.MaxIdleConnsPerHost = inFlight, inFlight
	return &poster{url, &http.Client{Transport: t, Timeout: 10 * time.Second}}
}

func (p *poster) post(ctx context.Context, id string, body []byte) (run string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Fleet-Ops-Trigger-Token", token)
	res, err := p.client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return "", err
	}
	if res.StatusCode/100 != 2 {
		return "", fmt.Errorf("HTTP %d", res.StatusCode)
	}
	var a struct {
		OK      *bool  `json:"ok"`
		EventID string `json:"event_id"`
		Result  struct {
			ExecutionID string `json:"execution_id"`
		} `json:"result"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return "", err
	}
	switch {
	case a.OK == nil || !*a.OK:
		return "", errors.New("not acknowledged")
	case a.EventID != id:
		return "", errors.New("another event_id")
	case strings.TrimSpace(a.Result.ExecutionID) == "":
		return "", errors.New("no execution_id")
	}
	return a.Result.ExecutionID, nil
}
